"""A request's members as the operations read them: what the service model knows, and no nulls.

AWS takes a member that is null for one that is not there, and drops what it does not know. Times
are seconds since the epoch, however they came. No I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

#: The years 1 to 9999, seconds since the epoch.
_EARLIEST_S, _LATEST_S = -62_135_596_800.0, 253_402_300_799.0


def known_members(shape: Shape | None, members: Mapping[str, Any]) -> Mapping[str, Any]:
    """The members of an operation's input; those that check_members lets pass."""
    if not isinstance(shape, StructureShape):
        return members
    return {
        name: _known(member, members[name])
        for name, member in shape.members.items()
        if members.get(name) is not None
    }


def _known(shape: Shape, value: Any) -> Any:
    if isinstance(shape, StructureShape):
        return known_members(shape, value)
    if isinstance(shape, ListShape):
        return [_known(shape.member, element) for element in value]
    if isinstance(shape, MapShape):
        return {key: _known(shape.value, element) for key, element in value.items()}
    return read_time(value) if shape.type_name == "timestamp" else value


def read_time(value: float | str) -> float:
    """A time as JSON or a form has it: seconds since the epoch, or ISO 8601, which is UTC where it
    has no zone. Raises ValueError for what is no time of the years 1 to 9999."""
    try:
        seconds = float(value)
    except ValueError:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
        seconds = (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
    except OverflowError as error:
        raise ValueError("it is out of the calendar") from error
    if not (math.isfinite(seconds) and _EARLIEST_S <= seconds <= _LATEST_S):
        raise ValueError("it is out of the calendar")
    return seconds
