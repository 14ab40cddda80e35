"""Which invocations have a line, and what it holds."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from serve.errors import BadRequest, Overloaded, TritonError
from serve.telemetry.access_log import LONGEST_SENTENCE, LONGEST_WORD, AccessLog, AccessLogMode
from serve.telemetry.invocation_record import CALLER_LEFT, InvocationRecord
from serve.telemetry.telemetry import Telemetry

SENT = [
    (b"x-amzn-sagemaker-target-model", b"shop.tar.gz"),
    (b"x-amzn-sagemaker-inference-id", b"i-1"),
    (b"authorization", b"secret"),
]
SLOW_S = 2.0
ENDS: dict[str, tuple[int, float, BaseException | None]] = {
    "well": (200, 0.1, None),
    "slow": (200, SLOW_S, None),
    "refused": (400, 0.1, BadRequest("the body", "nothing", "JSON")),
    "failed": (500, 0.1, TritonError("it broke")),
    "left": (CALLER_LEFT, 0.1, ConnectionError()),
    "one too many": (503, 0.1, Overloaded("come again")),
}


def ended(way: str) -> tuple[InvocationRecord, BaseException | None]:
    status, seconds, error = ENDS[way]
    record = InvocationRecord("m", status=status, seconds=seconds, headers=SENT)
    record.sentence = str(error or "")
    return record, error


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("off", set()),
        ("errors", {"refused", "failed", "left"}),
        ("slow", {"refused", "failed", "left", "slow"}),
        ("all", set(ENDS)),
    ],
)
def test_who_has_a_line(
    mode: AccessLogMode, told: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A crowd's refusals only where all have; no other line is written."""
    caplog.set_level(logging.INFO)
    log, found = AccessLog(mode, SLOW_S), set()
    for way in ENDS:
        caplog.clear()
        log.tell(*ended(way))
        assert len(caplog.records) <= 1
        found |= {way for _ in caplog.records}
    assert found == told


def fields(line: logging.LogRecord) -> dict[str, Any]:
    known = vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}
    return {name: value for name, value in vars(line).items() if name not in known}


def test_what_it_holds(caplog: pytest.LogCaptureFixture) -> None:
    """Milliseconds by part, bytes, ids; of the headers no other."""
    caplog.set_level(logging.INFO)
    record, _ = ended("well")
    record.waiting_s, record.translating_s, record.triton_s = 0.001, 0.0020004, 0.09
    record.request_bytes, record.answer_bytes, record.cold, record.trace_id = 3, 4, True, "t"
    AccessLog("all", SLOW_S).tell(record)
    (line,) = caplog.records
    assert (line.name, line.levelno, line.getMessage()) == (
        "serve.access",
        logging.INFO,
        "request answered",
    )
    assert fields(line) == {
        "model_name": "m",
        "target_model": "shop.tar.gz",
        "status": 200,
        "ms": 100.0,
        "waiting_ms": 1.0,
        "translating_ms": 2.0,
        "triton_ms": 90.0,
        "request_bytes": 3,
        "answer_bytes": 4,
        "cold": True,
        "inference_id": "i-1",
        "trace_id": "t",
    }


@pytest.mark.parametrize(
    ("way", "level", "words"),
    [
        ("refused", logging.INFO, "request refused"),
        ("failed", logging.ERROR, "request refused"),
        ("left", logging.INFO, "the caller left"),
        ("one too many", logging.ERROR, "request refused"),
    ],
)
def test_its_words(way: str, level: int, words: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    record, error = ended(way)
    AccessLog("all", SLOW_S).tell(record, error)
    (line,) = caplog.records
    assert line.levelno == level
    assert line.getMessage() == words
    assert fields(line).get("sentence", "") == str(error)


@pytest.mark.parametrize("mode", ["errors", "slow", "all"])
def test_what_was_slow_says_so(mode: AccessLogMode, caplog: pytest.LogCaptureFixture) -> None:
    """In each line that there is; what was not slow says nothing of it."""
    caplog.set_level(logging.INFO)
    log = AccessLog(mode, SLOW_S)
    for seconds in (SLOW_S, SLOW_S / 2):
        record, error = ended("failed")
        record.seconds = seconds
        log.tell(record, error)
    slow, fast = caplog.records
    assert fields(slow)["slow"] is True
    assert "slow" not in fields(fast)


def test_what_callers_send_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    record, _ = ended("well")
    record.headers = [(name, value * 1000) for name, value in SENT]
    AccessLog("all", SLOW_S).tell(record)
    said = fields(caplog.records[0])
    assert len(said["target_model"]) == len(said["inference_id"]) == LONGEST_WORD


def test_a_model_may_not_write_the_log_full(caplog: pytest.LogCaptureFixture) -> None:
    """The beginning of what it says is told."""
    caplog.set_level(logging.INFO)
    record, error = ended("failed")
    record.sentence = "it broke" * LONGEST_SENTENCE
    AccessLog("all", SLOW_S).tell(record, error)
    assert fields(caplog.records[0])["sentence"] == record.sentence[:LONGEST_SENTENCE]


def test_one_line_for_one_end(caplog: pytest.LogCaptureFixture) -> None:
    """What comes behind the end of an invocation is none."""
    caplog.set_level(logging.INFO)
    telemetry = Telemetry(access_log=AccessLog("all", SLOW_S))
    record, _ = telemetry.begin("m", 3, SENT)
    telemetry.invoked(record, 200)
    telemetry.invoked(record, CALLER_LEFT)
    assert [line.getMessage() for line in caplog.records] == ["request answered"]
