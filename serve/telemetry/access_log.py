"""One line of the log for an invocation: whose it was, how it ended, and where its time went.

Never bodies, and of the headers only the archive's name and the caller's id of the inference.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

from serve.errors import Overloaded
from serve.telemetry.invocation_record import (
    CALLER_LEFT,
    InvocationRecord,
    read_inference_id,
    target_model,
)

#: off; errors: those that were not answered well; slow: these, and what took long; all.
AccessLogMode = Literal["off", "errors", "slow", "all"]

#: Characters of a name or an id that a caller sent, and of why he was refused.
LONGEST_WORD, LONGEST_SENTENCE = 256, 4096
_log = logging.getLogger("serve.access")


class AccessLog:
    """Which invocations have a line, and what it says. slow_s: from when on one is slow.

    Refusals for the number of others have lines only where all have: they come in crowds, of which
    the queues log how many.
    """

    def __init__(self, mode: AccessLogMode, slow_s: float) -> None:
        self._all = mode == "all"
        self._errors = mode != "off"
        self._tells_slow, self._slow_s = mode == "slow", slow_s

    def tell(self, record: InvocationRecord, error: BaseException | None = None) -> None:
        """An invocation has ended; error: why it was refused."""
        broke_off = error is not None and record.status < 400
        of_crowd = isinstance(error, Overloaded)
        wrong = (record.status >= 400 or broke_off) and self._errors
        slow = record.seconds >= self._slow_s
        if not (self._all or ((wrong or (slow and self._tells_slow)) and not of_crowd)):
            return
        level = logging.ERROR if record.status >= 500 or broke_off else logging.INFO
        if _log.isEnabledFor(level):
            # Not _log.log: where it stands in the code is looked up for each line, and never shown.
            values = dict(_read_fields(record, slow))
            line = _log.makeRecord(
                _log.name, level, "", 0, _format_words(record), (), None, extra=values
            )
            _log.handle(line)


def _format_words(record: InvocationRecord) -> str:
    """What happened; the field `sentence` says why."""
    if record.status == CALLER_LEFT:
        return "the caller left"
    if record.status < 400:
        return "an answer was broken off" if record.sentence else "request answered"
    return "request refused"


def _read_fields(record: InvocationRecord, slow: bool) -> Iterator[tuple[str, object]]:
    """Names and values; texts that are empty are left out, and what is not slow says nothing."""
    yield "model_name", record.model_name
    if target := record.target_model or target_model(record.headers):
        yield "target_model", target[:LONGEST_WORD]
    yield "status", record.status
    yield "ms", _to_ms(record.seconds)
    yield "waiting_ms", _to_ms(record.waiting_s)
    yield "translating_ms", _to_ms(record.translating_s)
    yield "triton_ms", _to_ms(record.triton_s)
    yield "request_bytes", record.request_bytes
    yield "answer_bytes", record.answer_bytes
    yield "cold", record.cold
    if slow:
        yield "slow", True
    if request_id := read_inference_id(record.headers):
        yield "inference_id", request_id[:LONGEST_WORD]
    if record.trace_id:
        yield "trace_id", record.trace_id
    if record.sentence:
        yield "sentence", record.sentence[:LONGEST_SENTENCE]


def _to_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
