"""The process that writes tables: its answers, its limits."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ensemble_tools
from ensemble_tools.workflows.program import Means, Table
from ensemble_tools.workflows.runtime.lookups import read_lookup
from ensemble_tools.workflows.tables import (
    TableBroken,
    TableUnusable,
    job_text,
    read_answer,
    write_tables,
)
from tests.support.category_files import labels, parquet, write_broken


def process(job: str) -> list[Any]:
    done = subprocess.run(
        [sys.executable, "-m", "workflows.tables"],
        input=job,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(ensemble_tools.__file__).parent,
        timeout=60,
    )
    return read_answer(done.stdout)


@pytest.mark.slow
def test_as_a_process(tmp_path: Path) -> None:
    """A job on its standard input; a table goes there and back whole."""
    path = parquet(tmp_path / "f", a=np.array([10, 20]))
    tables = [
        Table(path, ("a",), ("int",), shift=3),
        Table(tmp_path / "gone", ("a",), ("int",), means=Means(None, 1, (0.5,))),
    ]
    place = tmp_path / "written"
    place.mkdir()
    lookup = read_lookup(place, *process(job_text(tables[:1], place)))
    assert labels(lookup, [20]) == [4]
    with pytest.raises(TableUnusable, match="gone is missing"):
        process(job_text(tables, place))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no parquet", "empty", "cut off", "damaged", "another column"])
def test_files_that_nothing_can_read(tmp_path: Path, fault: str) -> None:
    """NVTabular would fail at each request; the whole path comes through the process, too."""
    path = tmp_path / "unique.a.parquet"
    write_broken(path, fault)
    table = Table(path, ("a",), ("int",), shift=3)
    with pytest.raises(TableBroken) as refused:
        write_tables([table], tmp_path)
    with pytest.raises(TableBroken) as answered:
        process(job_text([table], tmp_path))
    assert (answered.value.path, answered.value.found) == (path, refused.value.found)


_HUGE = """
import numpy, pyarrow.parquet
from workflows.tables.category_files import CategoryFiles
from workflows.tables.job import main
class Huge(pyarrow.parquet.ParquetFile):
    def read(self, **_):
        return numpy.ones(2**28)
main(2**30, CategoryFiles(Huge))
"""


def run(script: str, job: str) -> list[Any]:
    """What a process answers that is begun otherwise."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=job,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(ensemble_tools.__file__).parent,
        timeout=60,
    )
    return read_answer(done.stdout)


def test_memory_is_limited(tmp_path: Path) -> None:
    """In the process: what takes more than the limit is a shortage, and nothing else dies."""
    path = parquet(tmp_path / "f", a=np.array([1]))
    with pytest.raises(OSError, match="takes more memory than there is"):
        run(_HUGE, job_text([Table(path, ("a",), ("int",))], tmp_path))


def test_a_full_disk(tmp_path: Path) -> None:
    """The error's number comes through, here and through the process."""
    path = parquet(tmp_path / "f", a=np.arange(100_000))
    table = Table(path, ("a",), ("int",), 3)
    (tmp_path / "0.0.keys.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as here:
        write_tables([table], tmp_path)
    with pytest.raises(OSError, match="No space left") as there:
        process(job_text([table], tmp_path))
    assert here.value.errno == there.value.errno == errno.ENOSPC


_STARVED = """
import os, resource
import pyarrow.parquet
from workflows.tables.job import main
taken = os.open("/dev/null", os.O_RDONLY)
resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 1, taken + 1))
main()
"""


def test_no_descriptor_for_a_file(tmp_path: Path) -> None:
    """A shortage says nothing of the file, so it is no reason to leave a workflow uncompiled."""
    path = parquet(tmp_path / "f", a=np.array([1]))
    with pytest.raises(OSError, match="Too many open files") as lacking:
        run(_STARVED, job_text([Table(path, ("a",), ("int",))], tmp_path))
    assert lacking.value.errno == errno.EMFILE
