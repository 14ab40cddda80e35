"""One line per event: time, level, sentence, fields.

    2024-05-01T12:00:00.123Z INFO model loaded model_name=a took_s=1.9

Any code logs by the standard library alone: `log.info("model loaded", extra={"took_s": 1.9})`;
every `extra` becomes a field, and so does what `serve.context` has bound. Never the environment,
payloads or credentials.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TextIO

from serve.context import bound_fields

UVICORN_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
OURS = ("container", "serve", "ensemble_tools", "uvicorn")
OTHERS_LEVEL = logging.WARNING  # below it botocore's lines hold credentials, grpc's say nothing
FIELD_MAX = 4096  # characters; a traceback or a foreign message must not make a line endless
SENTENCE_MAX = 2 * FIELD_MAX

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",  # color_message: uvicorn's own extra
}
_PLAIN = re.compile(r'[^\s"=\\\x00-\x1f\x7f-\x9f\u2028\u2029]+')
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class LineFormatter(logging.Formatter):
    """A record as exactly one line of printable characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Never raises for any value: what cannot be shown is shown by its type."""
        time = datetime.fromtimestamp(record.created, timezone.utc)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"
        fields = [f"{name}={_value(value)}" for name, value in _fields(record)]
        return " ".join([stamp, record.levelname, _escape(_sentence(record)), *fields])


def configure(level: str, stream: TextIO | None = None) -> None:
    """Sends every logger of this process, uvicorn's too, to the stream (standard error).

    Run uvicorn with `log_config=None`, or it takes its loggers back. Can be called again.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=OTHERS_LEVEL, handlers=[handler], force=True)
    for name in UVICORN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
    logging.captureWarnings(True)


def _sentence(record: logging.LogRecord) -> str:
    words = record.getMessage()
    return words if len(words) <= SENTENCE_MAX else f"{words[:SENTENCE_MAX]}..."


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    for name, value in {**bound_fields(), **extra}.items():
        if value is not None:
            yield name, value
    if record.exc_info and record.exc_info[0]:
        yield "traceback", "".join(traceback.format_exception(*record.exc_info))


def _value(value: object) -> str:
    try:
        words = f"{value:g}" if isinstance(value, float) else str(value)
    except Exception:
        words = f"<{type(value).__name__}>"
    if len(words) > FIELD_MAX:
        # the end: that is where a traceback says what happened
        words = "..." + words[-FIELD_MAX:]
    if _PLAIN.fullmatch(words):
        return _escape(words)
    return _escape(json.dumps(words, ensure_ascii=False))


def _escape(words: str) -> str:
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), words)
