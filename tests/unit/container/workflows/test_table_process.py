"""Tables written by a process of its own, whatever becomes of that process."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from container.workflows.table_process import TableProcesses
from ensemble_tools import TableUnusable
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableBroken

ROOT = Path(__file__).parents[4]


def write_tables(wanted: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
    return TableProcesses().write(wanted, directory)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = tmp_path / "unique.a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": np.array([10, 20])}), path)
    return Table(path, ("a",), ("int",), shift=3)


def test_written(table: Table, tmp_path: Path) -> None:
    (row,) = write_tables([table], tmp_path)
    assert row["first"] == {"label": 3}
    assert np.load(tmp_path / "0.0.keys.npy").tolist() == [10, 20]


#: Of a Python that heeds no variables, as the images start ours; arguments: our folder, the table's
#: file, where to write to.
ISOLATED = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from container.workflows.table_process import TableProcesses
from ensemble_tools.workflows.program import Table
table = Table(Path(sys.argv[2]), ("a",), ("int",), shift=3)
print(TableProcesses(dict(os.environ)).write([table], Path(sys.argv[3])))
"""


@pytest.mark.slow
def test_the_images_packages_are_not_its_own(table: Table, tmp_path: Path) -> None:
    """PYTHONPATH of Merlin's images names old ones, which our own process does not heed either."""
    images = tmp_path / "packages"
    images.mkdir()
    for name in ("numpy", "pyarrow"):
        (images / f"{name}.py").write_text("raise ImportError('the one of the image')\n")
    done = subprocess.run(
        [sys.executable, "-I", "-c", ISOLATED, ROOT, table.path, tmp_path],
        env={**os.environ, "PYTHONPATH": str(images)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "'label': 3" in done.stdout, done.stderr


def test_nothing_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No process is started for it."""
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    assert write_tables([], tmp_path) == []


def test_unusable(table: Table, tmp_path: Path) -> None:
    """The reason comes through."""
    table.path.write_bytes(b"no parquet")
    with pytest.raises(TableUnusable, match=r"unique\.a\.parquet cannot be read"):
        write_tables([table], tmp_path)


def stand_in(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> None:
    """What is started in the place of Python."""
    program = directory / "python"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo an unforeseen error >&2; exit 1", "exit 1: an unforeseen error"),
        ("exit 0", "nothing that makes sense"),
        ("echo garbage", "nothing that makes sense"),
        ("echo '[]'", "nothing that makes sense"),
        ("echo '{}'", "nothing that makes sense"),
        ("echo '{\"tables\": 5}'", "nothing that makes sense"),
        (r"printf '\377\376'", "nothing that makes sense"),
    ],
)
def test_it_dies_or_says_nonsense(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    """Each is a reason to serve the workflow as delivered, not an error of the load."""
    stand_in(monkeypatch, tmp_path, script)
    with pytest.raises(TableUnusable, match=reason):
        write_tables([table], tmp_path)


@pytest.mark.parametrize("script", ["kill -11 $$", "echo terminate called >&2; kill -6 $$"])
def test_a_file_ends_what_reads_it(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """NVTabular reads it with the same library, so it would end at each request."""
    stand_in(monkeypatch, tmp_path, script)
    with pytest.raises(TableBroken, match=r"ends what reads its files \(signal (11|6): ") as broken:
        write_tables([table], tmp_path)
    assert broken.value.path == table.path.parent


def test_it_lacks_memory(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shortage, wherever in the process Python meets it."""
    stand_in(monkeypatch, tmp_path, "echo MemoryError >&2; exit 1")
    with pytest.raises(OSError, match="lacks memory") as error:
        write_tables([table], tmp_path)
    assert error.value.errno == errno.ENOMEM


def test_the_kernel_kills_it(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its memory: that says nothing of the category file, so no other form is served."""
    stand_in(monkeypatch, tmp_path, "kill -9 $$")
    with pytest.raises(OSError, match="was killed") as error:
        write_tables([table], tmp_path)
    assert error.value.errno == errno.ENOMEM


def test_it_takes_too_long(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shortage of time: NVTabular, which takes longer, is not asked instead."""
    stand_in(monkeypatch, tmp_path, "exec sleep 60")
    with pytest.raises(OSError, match="not written within") as error:
        TableProcesses(timeout_s=0.3).write([table], tmp_path)
    assert error.value.errno == errno.EAGAIN


def test_it_cannot_be_started(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(TableUnusable):
        write_tables([table], tmp_path)


def test_a_full_disk(table: Table, tmp_path: Path) -> None:
    """An error of the load, which unloading a model may cure."""
    (tmp_path / "0.0.keys.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        write_tables([table], tmp_path)
    assert error.value.errno == errno.ENOSPC


def test_broken(table: Table, tmp_path: Path) -> None:
    """Which file it is comes through whole."""
    table.path.write_bytes(b"no parquet")
    with pytest.raises(TableBroken, match="cannot be read") as error:
        write_tables([table], tmp_path)
    assert error.value.path == table.path


def test_stop(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs ends at once, and what is begun after it."""
    stand_in(monkeypatch, tmp_path, f"touch {tmp_path}/runs\nexec sleep 60")
    processes = TableProcesses()

    def stop() -> None:
        while not (tmp_path / "runs").exists():
            time.sleep(0.01)
        processes.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    for _ in range(2):
        with pytest.raises(TableUnusable, match=r"exit -9"):
            processes.write([table], tmp_path)
    stopping.join()
