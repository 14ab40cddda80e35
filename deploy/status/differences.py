"""What `up` would change: what AWS has against what is wanted. No I/O.

AWS adds members of its own to what it was given: only what is wanted is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deploy.status.report import Change
from deploy.wanted.wanted import Members

#: Names that say their content: what differs inside is told in their place.
_CONTENT_NAMES = ("ModelName", "EndpointConfigName")
#: Its values may be secrets: they are not shown.
_ENVIRONMENT = "Environment"
_HIDDEN = "…"
#: What a request leaves out when it is not wanted: found in AWS, it goes.
_LEFT_OUT = (_ENVIRONMENT, "VpcConfig", "KmsKeyId", "VolumeSizeInGB", "InferenceAmiVersion")


def find_changes(what: str, present: Members | None, wanted: Members | None) -> Iterator[Change]:
    """Of one request's members, each by its path; what: the thing that they are of."""
    if wanted is None:
        if present is not None:
            yield Change(what, "there", None)
    elif present is None:
        yield Change(what, None, "new")
    else:
        yield from _of_members(what, present, wanted)


def _of_members(path: str, present: Members, wanted: Members) -> Iterator[Change]:
    for name, value in wanted.items():
        if name not in _CONTENT_NAMES:
            yield from _of_value(f"{path} {name}", present.get(name), value)
    for name in _LEFT_OUT:
        if present.get(name) and name not in wanted:
            yield from _of_value(f"{path} {name}", present[name], None)


def _of_value(path: str, present: Any, wanted: Any) -> Iterator[Change]:
    if path.endswith(f" {_ENVIRONMENT}"):
        yield from _of_environment(path, present or {}, wanted or {})
    elif isinstance(wanted, Mapping) and isinstance(present, Mapping):
        yield from _of_members(path, present, wanted)
    elif _are_lists_of_members(present, wanted):
        for number, (one, other) in enumerate(zip(present, wanted, strict=True)):
            yield from _of_members(path if len(wanted) == 1 else f"{path}[{number}]", one, other)
    elif present != wanted:
        yield Change(path, _shown(present), _shown(wanted))


def _of_environment(
    path: str, present: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[Change]:
    for name in sorted({*present, *wanted}):
        now, then = present.get(name), wanted.get(name)
        if now != then:
            yield Change(
                f"{path} {name}",
                None if now is None else _HIDDEN,
                None if then is None else _HIDDEN,
            )


def _are_lists_of_members(present: Any, wanted: Any) -> bool:
    return (
        isinstance(wanted, Sequence)
        and isinstance(present, Sequence)
        and len(wanted) == len(present)
        and all(isinstance(one, Mapping) for one in (*wanted, *present))
    )


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
