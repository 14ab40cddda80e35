"""The target model: which names an invocation may give, and what the platform calls it inside."""

from __future__ import annotations

import hashlib

from merlin_simulator.errors import InvalidRequest
from merlin_simulator.rules import Rules

_REMEDY = "expected an archive's path below the models' prefix, as model.tar.gz or a/model.tar.gz"
#: 128 bits of sha256, in hexadecimal: a safe path component, opaque to the container.
_NAME_CHARACTERS = 32


def check_target_model(name: str, rules: Rules) -> str:
    """The target model's path below the models' prefix; raises InvalidRequest for what is none.

    One leading slash is taken off: AWS documents a relative path, but clients in public code send
    "/model.tar.gz". The API reference's pattern is `\\A\\S[\\p{Print}]*\\z`. Java reads
    `\\p{Print}` as ASCII by default, and runtime_request.py refuses any other header on the wire;
    a path of printable characters of other scripts is safe all the same, and is taken here.
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


def _refused(name: str, found: str) -> InvalidRequest:
    shown = name if len(name) <= 100 else f"{name[:100]}…"
    return InvalidRequest(f"TargetModel {shown!r} is refused: {found}; {_REMEDY}.")
