"""A record as one JSON object on a line, and so a line of tritonserver's or a model's. No I/O.

    {"time":"2024-05-01T12:00:00.123Z","level":"INFO","source":"container",
     "logger":"serve.models.lifecycle","message":"model loaded","model_name":"a","seconds":1.9}

Characters outside of ASCII are escaped: no reader takes one of them for the end of a line.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable

from container.logs.values import fields, sentence, stamp, text, writable

OURS = "container"
#: What each object begins with; a field of such a name gets an underscore behind it.
RESERVED = frozenset({"time", "level", "source", "logger", "message"})
#: Larger whole numbers lose digits in programs that read numbers as floats.
_WHOLE_MAX = 2**53
_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps makes one for each line


class JsonFormatter(logging.Formatter):
    """A record as exactly one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Never raises for any value: what JSON cannot hold is shown in words."""
        return format_json_line(
            record.created,
            record.levelname,
            OURS,
            sentence(record),
            fields(record),
            logger=record.name,
        )


def format_json_line(
    created: float,
    level: str,
    source: str,
    message: str,
    others: Iterable[tuple[str, object]] = (),
    *,
    logger: str = "",
) -> str:
    """The object. source: whose line it is; message: in bounds already."""
    shown: dict[str, object] = {"time": stamp(created), "level": level, "source": source}
    if logger:
        shown["logger"] = writable(logger)
    shown["message"] = writable(message)
    for name, value in others:
        shown[f"{name}_" if name in RESERVED else str(name)] = _format_value(value)
    return _encode(shown)


def _format_value(value: object) -> object:
    """A number, a truth or a text."""
    kind = type(value)
    if kind is bool:
        return value
    if kind is int and -_WHOLE_MAX <= value <= _WHOLE_MAX:  # type: ignore[operator] # an int
        return value
    if kind is float and math.isfinite(value):  # type: ignore[arg-type] # a float
        return float(f"{value:g}")
    return writable(text(value))
