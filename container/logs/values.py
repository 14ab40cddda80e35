"""Fields of a record as text, in bounds, whatever their values are. No I/O.

Never the environment, payloads or credentials.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from datetime import datetime, timezone

from serve.log_context import bound_fields

FIELD_MAX = 4096  # characters; a traceback or a foreign message must not make a line endless
SENTENCE_MAX = 2 * FIELD_MAX

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",  # uvicorn's own extra
}
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def stamp(created: float) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, with milliseconds."""
    time = datetime.fromtimestamp(created, timezone.utc)
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def sentence(record: logging.LogRecord) -> str:
    """The record's sentence. Never raises."""
    try:
        message = record.getMessage()
    except Exception:  # its arguments do not fit, or one cannot be shown
        message = f"{text(record.msg)} (with arguments that do not fit)"
    return bounded(message)


def bounded(raw: str) -> str:
    """A sentence that is not endless; its beginning stays."""
    return raw if len(raw) <= SENTENCE_MAX else f"{raw[:SENTENCE_MAX]}..."


def fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Names and values: those that are bound, every `extra`, and a traceback. None is left out."""
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    for name, value in {**bound_fields(), **extra}.items():
        if value is not None:
            yield name, value
    if record.exc_info and record.exc_info[0]:
        yield "traceback", "".join(traceback.format_exception(*record.exc_info))


def text(value: object) -> str:
    """A value in words, its end in bounds; by its type where it cannot be shown. Never raises."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        shown = f"{value:g}" if isinstance(value, float) else str(value)
    except Exception:
        shown = f"<{type(value).__name__}>"
    if len(shown) > FIELD_MAX:
        # the end: that is where a traceback says what happened
        shown = "..." + shown[-FIELD_MAX:]
    return shown


def writable(raw: str) -> str:
    """The text with what UTF-8 cannot hold, half a surrogate pair, in letters: `\ud800`."""
    if raw.isascii():  # nearly all, and known without a look at each letter
        return raw
    return _SURROGATES.sub(lambda match: match[0].encode("unicode_escape").decode(), raw)
