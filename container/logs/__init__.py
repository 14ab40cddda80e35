"""The log: lines as text or JSON, written by a thread of their own, so that nobody waits for it."""

from container.logs.setup import (
    FLUSH_S,
    LogFormat,
    catch_the_rest,
    configure,
    open_standard_error,
)
from container.logs.sink import Lane, Sink

__all__ = [
    "FLUSH_S",
    "Lane",
    "LogFormat",
    "Sink",
    "catch_the_rest",
    "configure",
    "open_standard_error",
]
