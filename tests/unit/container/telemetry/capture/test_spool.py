"""Files of captures: whole or not there, whoever ends what and however full the disk is."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from container.telemetry.capture.spool import FILE_BYTES, FILE_S, Spool, SpoolFull
from tests.support.container import ROOT, until

MANY = 10**9


class Clock:
    """Stands still until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def whole(root: Path) -> list[Path]:
    """What a reader finds."""
    return sorted(path.relative_to(root) for path in root.glob("[!.]*/**/*.jsonl"))


def parts(root: Path) -> list[Path]:
    return [*root.glob(".writing-*/**/*.part")]


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """In its folder, with every line, for this user alone; its bytes were on disk before."""
    root = tmp_path / "a" / "b"
    closed: list[tuple[Path, int]] = []
    spool = Spool(root, MANY, lambda path, records: closed.append((path, records)))
    spool.append("shop/v/m/2026/11/26/09", [b"1\n", b"2\n"])
    spool.append("shop/v/m/2026/11/26/09", [b"3\n"])
    assert whole(root) == []
    assert [path.read_bytes() for path in parts(root)] == [b"1\n2\n3\n"]
    spool.close()
    (path,) = whole(root)
    assert path.parent == Path("shop/v/m/2026/11/26/09")
    assert (root / path).read_bytes() == b"1\n2\n3\n"
    assert closed == [(root / path, 3)]
    assert not [*root.glob(".*")]
    assert (root / path).stat().st_mode & 0o777 == 0o600
    for folder in (root.parent, root, *(root / it for it in path.parents)):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_when_a_file_is_closed(tmp_path: Path) -> None:
    """At a size, or at an age; each by itself."""
    clock = Clock()
    spool = Spool(tmp_path, MANY, clock=clock)
    spool.append("old", [b"1\n"])
    clock.now = FILE_S - 1
    spool.append("large", [b"x" * (FILE_BYTES - 1) + b"\n"])
    spool.append("new", [b"1\n"])
    spool.close_due()
    assert [path.parts[0] for path in whole(tmp_path)] == ["large"]
    clock.now = FILE_S
    spool.close_due()
    assert [path.parts[0] for path in whole(tmp_path)] == ["large", "old"]
    spool.append("old", [b"2\n"])
    spool.close()
    assert [path.parts[0] for path in whole(tmp_path)] == ["large", "new", "old", "old"]


def make_line(size: int) -> bytes:
    return b"x" * (size - 1) + b"\n"


def test_no_more_bytes_than_may_lie_there(tmp_path: Path) -> None:
    """Those that lie there already count; who takes some away makes room, within ten seconds."""
    clock = Clock()
    spool = Spool(tmp_path, 1_000_000, clock=clock)
    spool.append("m", [make_line(300_000)])
    spool.close()
    (tmp_path / "of somebody else").write_bytes(bytes(1_000_000))
    spool = Spool(tmp_path, 1_000_000, clock=clock)
    spool.append("m", [make_line(300_000)])
    with pytest.raises(SpoolFull):
        spool.append("m", [make_line(500_000)])
    spool.append("m", [make_line(200_000)])
    (tmp_path / whole(tmp_path)[0]).unlink()
    with pytest.raises(SpoolFull):
        spool.append("m", [make_line(400_000)])
    clock.now = 11
    spool.append("m", [make_line(400_000)])
    spool.close()
    assert [(tmp_path / path).stat().st_size for path in whole(tmp_path)] == [900_000]


def test_small_files_take_room(tmp_path: Path) -> None:
    """Of a disk, each with its folders: a caller may name a target model of his own each time."""
    spool = Spool(tmp_path, 30 * 6 * 4096)
    for number in range(20):
        spool.append(f"m{number}/2026/11/26/09", [b"{}\n"])
    spool.close()
    spool = Spool(tmp_path, 20 * 6 * 4096)  # which has measured what lies there
    with pytest.raises(SpoolFull):
        spool.append("m", [b"{}\n"])


def test_small_files_that_are_written_take_room(tmp_path: Path) -> None:
    """They are counted before anything is measured."""
    spool = Spool(tmp_path, 20 * 6 * 4096)
    for number in range(20):
        spool.append(f"m{number}/2026/11/26/09", [b"{}\n"])
    with pytest.raises(SpoolFull):
        spool.append("m", [b"{}\n"])


@pytest.fixture
def largest_file() -> Iterator[Callable[[int], None]]:
    """Sets how large a file of this process may be: as on a full disk, a write ends halfway."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk(tmp_path: Path, largest_file: Callable[[int], None]) -> None:
    """What it took of lines is cut off; the file goes on behind, and none is left of nothing."""
    spool = Spool(tmp_path, MANY)
    spool.append("m", [b"1" * 99 + b"\n"])
    largest_file(150)
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        spool.append("m", [b"2" * 99 + b"\n"])
    largest_file(0)
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        spool.append("n", [b"3\n"])
    largest_file(1000)
    spool.append("m", [b"4\n"])
    spool.close()
    (path,) = whole(tmp_path)
    assert (tmp_path / path).read_bytes() == b"1" * 99 + b"\n4\n"


def test_an_endpoint_may_be_called_lock(tmp_path: Path) -> None:
    """Its folder lies beside that which says that the container lives."""
    spool = Spool(tmp_path, MANY)
    spool.append("lock/v/m", [b"1\n"])
    spool.close()
    assert [path.parent for path in whole(tmp_path)] == [Path("lock/v/m")]


def test_a_folder_that_somebody_takes_away(tmp_path: Path) -> None:
    """What was in it is lost; what comes later is written, and nothing is raised for ever."""
    spool = Spool(tmp_path, MANY)
    spool.append("m", [b"1\n"])
    (path,) = parts(tmp_path)
    path.unlink()
    spool.close_due(every=True)
    spool.append("m", [b"2\n"])
    (path,) = parts(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError):  # else the next lines came behind a hole
        spool.append("m", [b"3\n"])
    spool.append("m", [b"4\n"])
    spool.close()
    assert [(tmp_path / path).read_bytes() for path in whole(tmp_path)] == [b"4\n"]


@pytest.mark.parametrize("lock", ["fifo", "file"])
def test_what_is_no_file(tmp_path: Path, lock: str) -> None:
    """Neither holds the start up nor is followed, whoever made it."""
    left = tmp_path / ".writing-x" / "m"
    left.mkdir(parents=True)
    (tmp_path / "elsewhere").write_bytes(b"1\nnot cut")
    (left / "1.jsonl.part").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(left / "2.jsonl.part")
    (left / "3.jsonl.part").write_bytes(b"3\n")
    if lock == "fifo":
        os.mkfifo(left.parent / ".lock")
    else:
        (left.parent / ".lock").touch()
    Spool(tmp_path, MANY).close()
    assert whole(tmp_path) == [Path("m/3.jsonl")]
    assert (tmp_path / "elsewhere").read_bytes() == b"1\nnot cut"
    assert not left.exists()


def test_a_root_that_cannot_be(tmp_path: Path) -> None:
    """It is known at the start."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Spool(tmp_path / "file" / "below", MANY)


#: Writes lines of many lengths, each of which says its own, until it is killed.
WRITES_ON = """
import itertools, json, sys
from pathlib import Path
from container.telemetry.capture import spool
spool.FILE_BYTES = 20_000
written = spool.Spool(Path(sys.argv[1]), 10**9)
written.append("first/hour", [b'"x"\\n'])
for number in itertools.count():
    lines = [json.dumps("x" * (number * 37 % 3000)).encode() + b"\\n" for _ in range(3)]
    written.append(f"m{number % 3}/hour", lines)
    written.close_due()
"""


def test_kill_9(tmp_path: Path) -> None:
    """What was closed is whole; the next one closes the rest, and lets a living one's alone."""
    neighbour = Spool(tmp_path, MANY)
    neighbour.append("neighbour", [b"1\n"])
    process = subprocess.Popen([sys.executable, "-c", WRITES_ON, str(tmp_path)], cwd=ROOT)
    try:
        until(lambda: len(whole(tmp_path)) > 10, "files are closed")
    finally:
        process.kill()
        process.wait()
    before = whole(tmp_path)
    for path in before:
        check_whole(tmp_path / path)
    left = [path for path in parts(tmp_path) if "neighbour" not in str(path)]
    (first,) = (path for path in left if "first" in str(path))
    first.write_bytes(first.read_bytes() + b'"torn')
    Spool(tmp_path, MANY).close()
    after = whole(tmp_path)
    assert len(before) < len(after) <= len(before) + len(left)
    for path in after:
        check_whole(tmp_path / path)
    assert [path.read_bytes() for path in parts(tmp_path)] == [b"1\n"]
    neighbour.close()
    assert not [*tmp_path.glob(".*")]


def check_whole(path: Path) -> None:
    """Every line is one that was written."""
    text = path.read_text()
    assert text.endswith("\n")
    for line in text.splitlines():
        assert set(json.loads(line)) <= {"x"}
