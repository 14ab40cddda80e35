"""Directories that containers write into, and what those leave that are killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from container.errors import WorkDirUnusable
from container.work_dir import work_dir

KILLED, OURS, OTHERS = (f"serve_{number}_0123abcd_" for number in (11, 22, 33))
#: A container that is killed; it prints its directory.
CONTAINER = """
import os, sys
from pathlib import Path
from container.work_dir import work_dir
with work_dir(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])) as directory:
    (directory / "serving/m/1").mkdir(parents=True)
    (directory / "serving/m/1/model.py").symlink_to(sys.argv[4])
    print(directory, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Where containers write, and their shared memory, with a region of each."""
    parent, shared = tmp_path / "tmp", tmp_path / "shm"
    parent.mkdir()
    shared.mkdir()
    for prefix in (KILLED, OURS, OTHERS):
        (shared / f"{prefix}a-b-c").write_bytes(b"region")
    return parent, shared


def left(parent: Path, shared: Path, linked: Path) -> Path:
    """What a container has left that was killed; its serving repository links to that file."""
    words = [sys.executable, "-c", CONTAINER, *map(str, (parent, KILLED, shared, linked))]
    ran = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert ran.returncode == -9, ran.stderr
    return Path(ran.stdout.strip())


def regions(shared: Path) -> set[str]:
    return {path.name.removesuffix("a-b-c") for path in shared.iterdir()}


def test_what_a_killed_container_left_is_removed(places: tuple[Path, Path], tmp_path: Path) -> None:
    """Its directory and its regions; what it had linked to stays, and what others have."""
    archive = tmp_path / "model.py"
    archive.write_text("delivered")
    directory = left(*places, archive)
    assert directory.exists()
    with work_dir(places[0], OURS, places[1]) as own:
        assert [*places[0].iterdir()] == [own]
        assert regions(places[1]) == {OURS, OTHERS}
        assert archive.read_text() == "delivered"
    assert not [*places[0].iterdir()]


def test_what_a_living_container_has_stays(places: tuple[Path, Path]) -> None:
    """However many share a place."""
    with work_dir(places[0], OTHERS, places[1]) as theirs, work_dir(*_as(OURS, places)) as ours:
        assert {*places[0].iterdir()} == {theirs, ours}
        assert regions(places[1]) == {KILLED, OURS, OTHERS}


def _as(prefix: str, places: tuple[Path, Path]) -> tuple[Path, str, Path]:
    return places[0], prefix, places[1]


def test_what_is_not_surely_a_containers_stays(places: tuple[Path, Path], tmp_path: Path) -> None:
    """Folders that merely bear such a name; links; locks that are no files or name other things."""
    parent, shared = places
    elsewhere = left(parent, shared, tmp_path / "x").rename(tmp_path / "elsewhere")
    (parent / "serve-link").symlink_to(elsewhere)
    (parent / "serve-file").write_text(KILLED)
    (parent / "serve-nothing").mkdir()
    (parent / "serve-new").mkdir()
    (parent / "serve-new/lock.new").write_text(KILLED)
    (parent / "serve-linked-lock").mkdir()
    (parent / "serve-linked-lock/lock").symlink_to(elsewhere / "lock")
    (parent / "serve-fifo").mkdir()
    os.mkfifo(parent / "serve-fifo/lock")
    (parent / "serve-directory/lock").mkdir(parents=True)
    for number, said in enumerate(("", "*", "serve_", "../../x", f"{KILLED}*", KILLED + "x" * 99)):
        (parent / f"serve-{number}").mkdir()
        (parent / f"serve-{number}/lock").write_text(said)
    (parent / "other-name").mkdir()
    (parent / "other-name/lock").write_text(KILLED)
    before = {*parent.rglob("*")}
    with work_dir(parent, OURS, shared) as own:
        assert {*parent.rglob("*")} - {own, own / "lock"} == before
    assert {*elsewhere.iterdir()} >= {elsewhere / "lock"}
    assert regions(shared) == {KILLED, OURS, OTHERS}


def test_what_another_user_left_stays(
    places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = left(*places, tmp_path / "x")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with work_dir(*_as(OURS, places)):
        assert directory.exists()
        assert KILLED in regions(places[1])


def test_a_place_without_locks(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken from a container that could not lock what it has."""

    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    with monkeypatch.context() as without:
        without.setattr(fcntl, "flock", no_locks)
        directory = work_dir(*_as(OTHERS, places))
        theirs = directory.__enter__()
    with work_dir(*_as(OURS, places)):
        assert theirs.exists()
        assert OTHERS in regions(places[1])
    directory.__exit__(None, None, None)
    assert not theirs.exists()


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkDirUnusable), work_dir(tmp_path / "file", OURS):
        pass
