"""Whole files on their way to a bucket that takes them, refuses them, or does not answer."""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from container.settings.values import S3Prefix
from container.telemetry.capture.tally import CaptureTally
from container.telemetry.capture.uploads import Uploads
from tests.support.container import until

WAIT_S = 60.0


class FakeBucket:
    """A fake client of S3: takes objects, or raises what it is told to."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.error: Exception | None = None
        self.late: set[str] = set()  # keys that alone wait for answers; empty: all do
        self.answers = threading.Event()
        self.answers.set()

    def put_object(self, **call: Any) -> None:
        """As boto3's."""
        key = f"{call['Bucket']}/{call['Key']}"
        if not self.late or key in self.late:
            assert self.answers.wait(WAIT_S)
        if self.error is not None or "/refused/" in key:
            raise self.error or ValueError(key)
        self.objects[key] = call["Body"].read()


class Uploading:
    """Uploads from a folder into a fake bucket."""

    def __init__(self, root: Path) -> None:
        self.root, self.bucket, self.registry = root, FakeBucket(), CollectorRegistry()
        self.uploads = Uploads(
            S3Prefix("bucket", "prefix/"),
            root,
            CaptureTally(self.registry),
            lambda: self.bucket,
            (0.01, 0.02),
        )

    def put(self, name: str, records: int = 1) -> Path:
        path = self.root / name
        while not path.exists():
            with contextlib.suppress(FileNotFoundError):  # an upload took its folder away
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"{}\n" * records)
        self.uploads.put(path, records)
        return path

    def count(self, metric: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"serve_capture_{metric}_total", labels) or 0.0


@pytest.fixture
def uploading(tmp_path: Path) -> Uploading:
    """Without pauses that a test would wait for."""
    return Uploading(tmp_path)


def test_files_go_to_their_keys(uploading: Uploading) -> None:
    """And from the disk, with folders that are empty then; at the end nothing is left."""
    uploading.put("shop/v/a/09/1.jsonl", 3)
    uploading.put("shop/v/b/09/2.jsonl", 2)
    assert uploading.uploads.end(WAIT_S) == 0
    assert uploading.bucket.objects == {
        "bucket/prefix/shop/v/a/09/1.jsonl": b"{}\n" * 3,
        "bucket/prefix/shop/v/b/09/2.jsonl": b"{}\n" * 2,
    }
    assert uploading.count("records", result="uploaded") == 5
    assert not [*uploading.root.glob("shop/**")]


def test_a_bucket_that_refuses(uploading: Uploading, caplog: pytest.LogCaptureFixture) -> None:
    """One line a minute, a count of each; the file waits, and is there when the bucket is."""
    with caplog.at_level(logging.WARNING):
        uploading.bucket.error = PermissionError("no such bucket")
        path = uploading.put("a/1.jsonl")
        until(lambda: uploading.count("failed_uploads") >= 3, "it was tried three times")
        assert path.exists()
        (line,) = caplog.records
        assert line.getMessage() == "captures were not uploaded"
        assert vars(line)["failure"] == "PermissionError"
        assert vars(line)["reason"] == "no such bucket"
        uploading.bucket.error = None
        until(lambda: not path.exists(), "it was uploaded")
    assert uploading.uploads.end(WAIT_S) == 0
    assert uploading.count("records", result="uploaded") == 1


def test_a_file_that_is_refused(uploading: Uploading) -> None:
    """It holds up no other: of a longer key than S3 takes, say."""
    refused = uploading.put("refused/1.jsonl")
    until(lambda: uploading.count("failed_uploads") >= 1, "it was tried")
    for number in range(10):
        uploading.put(f"a/{number}.jsonl")
    until(lambda: len(uploading.bucket.objects) == 10, "the others are there")
    assert uploading.uploads.end(WAIT_S) == 1
    assert refused.exists()


def test_files_go_at_once(uploading: Uploading) -> None:
    """One whose answer is late holds up no other."""
    uploading.bucket.late.add("bucket/prefix/late/1.jsonl")
    uploading.bucket.answers.clear()
    uploading.put("late/1.jsonl")
    uploading.put("a/1.jsonl")
    until(lambda: uploading.bucket.objects, "the other is there")
    uploading.bucket.answers.set()
    assert uploading.uploads.end(WAIT_S) == 0
    assert [*uploading.bucket.objects] == ["bucket/prefix/a/1.jsonl", "bucket/prefix/late/1.jsonl"]


def test_a_file_that_somebody_took_away(uploading: Uploading) -> None:
    """Holds up no other, and is not counted."""
    uploading.put("a/1.jsonl")
    uploading.uploads.put(uploading.root / "a/2.jsonl", 1)
    uploading.put("a/3.jsonl")
    assert uploading.uploads.end(WAIT_S) == 0
    assert len(uploading.bucket.objects) == 2
    assert uploading.count("records", result="uploaded") == 2


def test_a_file_of_the_credentials_that_is_not_there(uploading: Uploading) -> None:
    """It is none that somebody took away: the captures wait."""
    uploading.bucket.error = FileNotFoundError("a web identity token")
    path = uploading.put("a/1.jsonl")
    assert uploading.uploads.end(WAIT_S) == 1
    assert uploading.count("failed_uploads") >= 1
    assert path.exists()


def test_an_end_without_an_answer(uploading: Uploading) -> None:
    """It is not waited for; how many files are left is told."""
    uploading.bucket.answers.clear()
    for number in range(3):
        uploading.put(f"a/{number}.jsonl")
    assert uploading.uploads.end(0.05) == 3
    uploading.bucket.answers.set()


def test_an_end_with_a_refusal(uploading: Uploading) -> None:
    """Each is not tried for ever."""
    uploading.bucket.error = ConnectionError()
    uploading.put("a/1.jsonl")
    uploading.put("a/2.jsonl")
    assert uploading.uploads.end(WAIT_S) == 2


def test_an_end_with_refusals_of_some(uploading: Uploading) -> None:
    """As many as are uploaded at once: the others are uploaded all the same."""
    uploading.bucket.answers.clear()
    for number in range(8):
        uploading.put(f"refused/{number}.jsonl")
    uploading.put("a/1.jsonl")
    assert uploading.uploads.end(0.0) == 9
    uploading.bucket.answers.set()
    assert uploading.uploads.end(WAIT_S) == 8
    assert [*uploading.bucket.objects] == ["bucket/prefix/a/1.jsonl"]
