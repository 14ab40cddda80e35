"""Whichever read of an archive fails for want of a descriptor, no other form is served for it."""

from __future__ import annotations

import errno
import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from ensemble_tools import (
    Choices,
    Compile,
    Namespace,
    ServingPlan,
    plan_archive,
    publish,
    read_executor_graph,
    read_repository,
)
from ensemble_tools.errors import ResourceLacking
from serve.errors import DiskFailed, ResourceExhausted, ServeError
from serve.models.archive_errors import archive_errors
from serve.telemetry.load_record import LoadRecord

ROOT = Path(__file__).parents[4]
EXPORT = ROOT / "examples/merlin/dense/repository"
_OPENING = {"open", "os.listdir", "os.scandir"}


@dataclass
class Opened:
    """Counts what is opened below the archive; the one of that number fails."""

    below: str = ""
    failing: int = 0
    number: int = 0
    count: int = 0

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        """Python tells it of every file and directory that it is about to open."""
        if event not in _OPENING or not self.below or not isinstance(arguments[0], str | Path):
            return
        if str(arguments[0]).startswith(self.below):
            self.count += 1
            if self.count == self.number:
                raise OSError(self.failing, os.strerror(self.failing), str(arguments[0]))


_OPENED = Opened()
sys.addaudithook(_OPENED.hook)  # for good: it is asleep between tests


@pytest.fixture
def opened() -> Iterator[Opened]:
    yield _OPENED
    _OPENED.below = ""


def loaded(serving: Path) -> ServingPlan:
    """All that a load reads before tritonserver does."""
    repository = read_repository(EXPORT)
    graph = read_executor_graph(repository)
    made = plan_archive(repository, graph, Namespace("m"), Choices(compile=Compile.AUTO))
    publish(made, serving)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "error"), [(errno.EMFILE, ResourceExhausted), (errno.EIO, DiskFailed)]
)
def test_each_read_in_turn(
    number: int, error: type[ServeError], opened: Opened, tmp_path: Path
) -> None:
    """The first, the second, and so on to the last: 507 for a shortage, 500 for the disk."""
    opened.below, opened.failing = str(EXPORT), number
    (tmp_path / "whole").mkdir()
    opened.number = opened.count = 0
    whole = loaded(tmp_path / "whole")
    assert whole.compiled == 1
    reads = opened.count
    assert reads > 20  # it is the reads that are counted
    for place in range(1, reads + 1):
        serving = tmp_path / str(place)
        serving.mkdir()
        opened.number, opened.count = place, 0
        with pytest.raises(error, match=str(EXPORT)), archive_errors(LoadRecord("m")):
            loaded(serving)
        assert list(serving.iterdir()) == []


def test_python_files(opened: Opened, tmp_path: Path) -> None:
    """A file that was overlooked might be the one that names other models."""
    for name in ("a/1/model.py", "a/1/package/helpers.py", "b/1/model.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('import x\nx.InferenceRequest(model_name="b")\n')
    for name in "ab":
        (tmp_path / name / "config.pbtxt").write_text('backend: "python"')
    opened.below, opened.number, opened.count = str(tmp_path), 0, 0
    assert read_repository(tmp_path, "a").calls["a"] == ("b",)
    for place in range(1, opened.count + 1):
        opened.failing, opened.number, opened.count = errno.EMFILE, place, 0
        with pytest.raises(ResourceLacking):
            read_repository(tmp_path, "a")


def test_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither is a lack of memory a reason for another form, whichever pickle is read."""
    begin, reads = pickle._Unpickler.__init__, 0

    def begin_or_fail(unpickler: pickle._Unpickler, file: BinaryIO) -> None:
        nonlocal reads
        reads += 1
        if reads == failing_read:
            raise MemoryError
        begin(unpickler, file)

    monkeypatch.setattr(pickle._Unpickler, "__init__", begin_or_fail)
    failing_read = 0
    loaded(tmp_path)
    total = reads
    assert total >= 3  # the executor's graph, and what its workflow is read for
    while failing_read < total:
        failing_read, reads = failing_read + 1, 0
        with pytest.raises(ResourceExhausted, match="no memory"), archive_errors(LoadRecord("m")):
            loaded(tmp_path)
