"""The thread that writes captures: what it drops, what it tells, and that nothing ends it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from container.errors import SettingsError
from container.settings.reading import read_settings
from container.telemetry.capture.hiding import ColumnHider
from container.telemetry.capture.spool import Spool
from container.telemetry.capture.tally import CaptureTally
from container.telemetry.capture.writer import CaptureWriter, start_capture
from serve.telemetry.captures import CaptureQueue
from tests.support.container import until
from tests.support.protocol import infer

WAIT_S = 60.0
REQUEST = json.dumps(infer([1])).encode()


def capture(queue: CaptureQueue, body: bytes = REQUEST) -> None:
    """A request, and its answer."""
    captured = queue.begin("m", [], [body], len(body))
    assert captured is not None
    captured.keep_answer([], [b'{"outputs":[]}'])
    queue.end(captured)


class Writing:
    """A writer on a directory."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.root, self.registry = root, CollectorRegistry()
        found = read_settings({"SERVE_CAPTURE": str(root), **settings})
        self.writer: CaptureWriter = start_capture(found, root / "unused", self.registry)

    def count(self, metric: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"serve_capture_{metric}_total", labels) or 0.0

    def lines(self) -> int:
        """How many a reader finds."""
        return sum(path.read_bytes().count(b"\n") for path in self.root.rglob("*.jsonl"))


def test_all_that_waits_is_written_at_the_end(tmp_path: Path) -> None:
    """Every reason and result is on the page from the start."""
    writing = Writing(tmp_path)
    for reason in ("size", "queue", "unread", "full", "disk"):
        assert (
            writing.registry.get_sample_value("serve_capture_dropped_total", {"reason": reason})
            == 0
        )
    for _ in range(100):
        capture(writing.writer.queue)
    writing.writer.end(WAIT_S)
    assert writing.lines() == writing.count("records", result="written") == 100


def test_what_cannot_be_hidden_is_dropped(tmp_path: Path) -> None:
    """And what comes with it is not."""
    writing = Writing(tmp_path, SERVE_CAPTURE_OMIT="user_id")
    capture(writing.writer.queue, b"somebody")
    capture(writing.writer.queue)
    writing.writer.end(WAIT_S)
    assert writing.count("dropped", reason="unread") == writing.lines() == 1


NO_COLUMN = (
    "no request or answer that was captured so far has the column {} of SERVE_CAPTURE_OMIT; under"
    " another name its values are written"
)


def test_a_column_that_nothing_has(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, not for each request, and at the end at the latest."""
    writing = Writing(tmp_path, SERVE_CAPTURE_OMIT="emial,absent,price")
    bodies = [json.dumps(infer([1], name)).encode() for name in ("email", "price")]
    with caplog.at_level(logging.WARNING):
        for body in bodies * 3:
            capture(writing.writer.queue, body)
        writing.writer.end(WAIT_S)
    assert [line.getMessage() for line in caplog.records] == [
        NO_COLUMN.format("'absent'"),
        NO_COLUMN.format("'emial'") + "; did you mean 'email'?",
    ]


def test_no_column_is_missed_where_nothing_was_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows then which columns there are."""
    writing = Writing(tmp_path, SERVE_CAPTURE_OMIT="email")
    with caplog.at_level(logging.WARNING):
        capture(writing.writer.queue, b"somebody")
        writing.writer.end(WAIT_S)
    assert not caplog.records


def test_a_missed_column_is_told_while_requests_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """So long after the first line as the writer is told."""
    tally = CaptureTally(CollectorRegistry())
    queue, spool = CaptureQueue(100, tally.drop), Spool(tmp_path, 10**6)
    hider = ColumnHider(["email"])
    writer = CaptureWriter(queue, spool, tally, ("e", "v"), hider, None, look_s=0.0)
    with caplog.at_level(logging.WARNING):
        capture(queue)
        until(lambda: caplog.records, "it is told")
        capture(queue)
        writer.end(WAIT_S)
    assert [line.getMessage() for line in caplog.records] == [NO_COLUMN.format("'email'")]


def test_a_directory_that_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What comes then is dropped, and one line says why."""
    (tmp_path / "old.jsonl").write_bytes(bytes(1024 * 1024))
    writing = Writing(tmp_path, SERVE_CAPTURE_MB="1")
    with caplog.at_level(logging.WARNING):
        for dropped in (1, 2):
            capture(writing.writer.queue)
            until(lambda: writing.count("dropped", reason="full") == dropped, "it is dropped")  # noqa: B023
    writing.writer.end(WAIT_S)
    assert [line.getMessage() for line in caplog.records] == [
        "captures are dropped: there are SERVE_CAPTURE_MB of them here"
    ]


class BuggyHider(ColumnHider):
    """Fails for a reason that was not foreseen, once."""

    fails = True

    def hide(self, text: bytes, tensors: bytes = b"") -> tuple[bytes, bytes]:
        """As a ColumnHider's."""
        if self.fails:
            self.fails = False
            raise LookupError("a bug")
        return super().hide(text, tensors)


def test_a_bug_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its traceback, and what comes later is written."""
    tally = CaptureTally(CollectorRegistry())
    queue, spool = CaptureQueue(100, tally.drop), Spool(tmp_path, 10**6)
    writer = CaptureWriter(queue, spool, tally, ("e", "v"), BuggyHider(["x"]), None)
    with caplog.at_level(logging.WARNING):
        capture(queue)
        until(lambda: caplog.records, "it is told")
    (line,) = caplog.records
    assert line.exc_info
    capture(queue)
    writer.end(WAIT_S)
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.read_bytes().count(b"\n") == 1


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    """The container does not start, and says why: nobody would look for what is not there."""
    (tmp_path / "file").touch()
    with pytest.raises(
        SettingsError, match=r"SERVE_CAPTURE is .*file/x', expected a directory that"
    ):
        Writing(tmp_path / "file" / "x")
