"""What a log line is about: bound for the length of a call, read by the log's formatter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_bound: ContextVar[Mapping[str, str] | None] = ContextVar("log_context", default=None)


@contextmanager
def bind(**fields: str) -> Iterator[None]:
    """Add fields to every log line of this task and of those it starts, empty ones left out."""
    token = _bound.set({**bound_fields(), **{key: text for key, text in fields.items() if text}})
    try:
        yield
    finally:
        _bound.reset(token)


def bound_fields() -> Mapping[str, str]:
    """The fields that are bound now."""
    return _bound.get() or {}
