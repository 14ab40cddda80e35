"""What spans are made of, for whoever makes them."""

from __future__ import annotations

from typing import Protocol

from serve.telemetry.load_record import LoadRecord
from serve.telemetry.record import InvocationRecord

Headers = list[tuple[bytes, bytes]]


class Tracer(Protocol):
    """Makes spans of records. None of its functions raises, waits or blocks."""

    def begin(self, record: InvocationRecord, headers: Headers) -> Headers:
        """An invocation begins; the headers that it goes on to tritonserver with.

        Fills record.trace_id, and record.trace with what it needs at the end.
        """
        ...

    def invoked(self, record: InvocationRecord) -> None:
        """It has ended."""
        ...

    def loaded(self, record: LoadRecord) -> None:
        """A load has ended."""
        ...

    def told(self, name: str, model_name: str, began: float, sentence: str, **facts: str) -> None:
        """Something else has ended that began then, by time.monotonic; sentence: why it failed."""
        ...
