"""An invocation and its answer as they pass through the platform, after the wire and before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from merlin_simulator.rules import VARIANT


@dataclass(frozen=True)
class Invocation:
    """One InvokeEndpoint. headers are those that reach the container, by their wire names.

    target_variant: the one that is to answer; None: any, by their weights.
    """

    request_id: str
    target_model: str | None
    body: bytes
    headers: Mapping[str, str]
    target_variant: str | None = None


@dataclass(frozen=True)
class ContainerAnswer:
    """The container's 2xx answer: body whole, headers by lower-case name; whose variant's it is."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    variant: str = VARIANT


class Parts(Protocol):
    """What an async generator is: parts that come, and may be closed before the last."""

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
