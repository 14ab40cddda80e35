"""Sends every logger of this process to one sink, and what Python itself would print."""

from __future__ import annotations

import logging
import os
import sys
import threading
from types import TracebackType
from typing import Literal

from container.logs.json_lines import JsonFormatter
from container.logs.sink import Sink
from container.logs.text_lines import LineFormatter

LogFormat = Literal["text", "json"]

UVICORN_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
OURS = ("container", "serve", "ensemble_tools", "uvicorn")
OTHERS_LEVEL = logging.WARNING  # below it botocore's lines hold credentials, grpc's say nothing
#: How long the end waits for who reads the log, in seconds.
FLUSH_S = 1.0
#: And a moment more: the log's thread may have been kept waiting as long as who waits for it.
_MOMENT_S = 0.25

_log = logging.getLogger(__name__)


def configure(level: str, sink: Sink, log_format: LogFormat = "text") -> None:
    """Sends every logger of this process, uvicorn's too, to the sink, one line a record.

    Run uvicorn with `log_config=None`, or it takes its loggers back. Can be called again.
    """
    formatter = JsonFormatter() if log_format == "json" else LineFormatter()
    sink.notice = lambda lost, at: _encode_line(formatter.format(_notice(lost, at)))
    logging.basicConfig(level=OTHERS_LEVEL, handlers=[_Handler(sink, formatter)], force=True)
    for name in UVICORN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
    logging.captureWarnings(True)


def open_standard_error() -> int:
    """The descriptor of standard error; that of nothing where this process was given none."""
    return os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()


def catch_the_rest() -> None:
    """Log what Python would print on standard error by itself, which may hold whoever prints."""
    sys.excepthook = _log_uncaught
    sys.unraisablehook = lambda it: _log.error(
        "an error was ignored: %s",
        it.err_msg or "it came where nobody can catch it",
        exc_info=it.exc_value,
        extra={"object": it.object},
    )
    threading.excepthook = lambda it: _log.error(
        "a thread ended by an error",
        exc_info=it.exc_value,
        extra={"thread_name": it.thread and it.thread.name},
    )


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    _log.critical("the container ends by a mistake of its own", exc_info=(kind, error, trace))


class _Handler(logging.Handler):
    """Puts each record into the sink; critical ones, which are a process's last, in any case."""

    def __init__(self, sink: Sink, formatter: logging.Formatter) -> None:
        super().__init__()
        self._sink = sink
        self.setFormatter(formatter)
        self.lock = None  # the sink has its own: nobody waits while another's line is made

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits and never raises."""
        self._sink.put(_encode_line(self.format(record)), always=record.levelno >= logging.CRITICAL)

    def flush(self) -> None:
        """Wait for what is queued, within bounds; logging itself asks for it at the very end."""
        write_out(self._sink)


def write_out(sink: Sink) -> None:
    """Wait until all is written that is queued, within bounds."""
    if not sink.flush(FLUSH_S):
        sink.flush(_MOMENT_S)


def _encode_line(text: str) -> bytes:
    return f"{text}\n".encode(errors="backslashreplace")


def _notice(lost: int, at: float) -> logging.LogRecord:
    message = "lines of the log were dropped: they came faster than it was read"
    facts = {"name": "container.logs", "levelno": logging.WARNING, "levelname": "WARNING"}
    return logging.makeLogRecord({**facts, "msg": message, "created": at, "dropped": lost})
