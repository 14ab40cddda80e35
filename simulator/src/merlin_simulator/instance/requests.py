"""A request to an instance, and the model that it names."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from merlin_simulator.errors import InvalidRequest
from merlin_simulator.rules import VARIANT, Rules

_REMEDY = "expected an archive's path below the models' prefix, as model.tar.gz or a/model.tar.gz"
#: 128 bits of sha256, in hexadecimal: a safe path component, opaque to the container.
_NAME_CHARACTERS = 32


def check_target_model(name: str, rules: Rules) -> str:
    """The target model's path below the models' prefix; raises InvalidRequest for what is none.

    One leading slash is taken off: AWS documents a relative path, but clients in public code send
    "/model.tar.gz". The API reference's pattern is `\\A\\S[\\p{Print}]*\\z`. Java reads
    `\\p{Print}` as ASCII by default, and api/wire.py refuses any other header on the wire; a path
    of printable characters of other scripts is safe all the same, and is taken here.
    """
    _check_characters(name, rules.target_model_characters)
    path = name.removeprefix("/")
    if "\\" in path:
        raise _refused(name, "it has a backslash")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise _refused(name, f"one of its parts is {part!r}")
    return path


def make_model_name(salt: str, target_model: str) -> str:
    """The platform's opaque name of a target model: 32 lower-case hexadecimal characters.

    salt is the endpoint's or instance's name, so that no container sees another's names.
    """
    # No salt or target model holds a NUL, so that no two pairs make the same bytes.
    seed = f"{salt}\0{target_model}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(seed).hexdigest()[:_NAME_CHARACTERS]


def _check_characters(name: str, most: int) -> None:
    if not 1 <= len(name) <= most:
        raise _refused(name, f"it has {len(name)} characters, expected 1 to {most}")
    if name[0].isspace():
        raise _refused(name, "it starts with a space")
    odd = next((character for character in name if not character.isprintable()), None)
    if odd is not None:
        raise _refused(name, f"it has the character {odd!a}, which cannot be printed")


def _refused(name: str, fault: str) -> InvalidRequest:
    shown = name if len(name) <= 100 else f"{name[:100]}…"
    return InvalidRequest(f"TargetModel {shown!r} is refused: {fault}; {_REMEDY}.")


@dataclass(frozen=True)
class Invocation:
    """One InvokeEndpoint."""

    request_id: str
    target_model: str | None
    body: bytes
    headers: Mapping[str, str]  # that reach the container, by their wire names
    target_variant: str | None = None  # that is to answer; None: any, by their weights


@dataclass(frozen=True)
class ContainerAnswer:
    """The container's 2xx answer: body whole, headers by lower-case name; whose variant's it is."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    variant: str = VARIANT


class Parts(Protocol):
    """An async generator of parts, which may be closed before the last."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The parts, once."""
        ...

    async def aclose(self) -> None:
        """No more of them are wanted; harmless when they are read to the end."""
        ...


@dataclass(frozen=True)
class StreamedAnswer:
    """The container's 2xx answer as it comes; parts must be closed, read to the end or not."""

    status: int
    parts: Parts
    headers: Mapping[str, str]
    variant: str = VARIANT


class ClosingParts:
    """Parts that tell how they ended, once: with their error, or None for the end or a closing.

    A generator cannot: one that is closed before its first part runs no code of its own.
    """

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        ended: Callable[[Exception | None], Awaitable[None]],
        translated: Callable[[Exception], Exception] = lambda error: error,
    ) -> None:
        self._parts, self._ended, self._translated = parts, ended, translated
        self._open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next part; raises what translated makes of a failure."""
        try:
            return await anext(self._parts)
        except StopAsyncIteration:
            await self._end(None)
            raise
        except Exception as error:
            failure = self._translated(error)
            await self._end(failure)
            raise failure from error

    async def aclose(self) -> None:
        """No more parts are wanted."""
        await self._end(None)

    async def _end(self, error: Exception | None) -> None:
        if self._open:
            self._open = False
            await self._ended(error)
