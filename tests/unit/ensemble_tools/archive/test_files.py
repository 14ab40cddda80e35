"""The one reader: absence, shortages, faults of the disk, and what would hold a reader up."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ensemble_tools.archive import files
from ensemble_tools.errors import EntryRefused, ResourceLacking, SourceUnreadable

ROOT = Path(__file__).parents[4]


def test_what_is_there(tmp_path: Path) -> None:
    """As many bytes as are wanted and one more, so that a longer file can be told."""
    (tmp_path / "file").write_bytes(b"abcdef")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        assert files.read_bounded(tmp_path / name, 6) == b"abcdef"
        assert files.read_bounded(tmp_path / name, 3) == b"abcd"
        assert files.is_file(tmp_path / name)
        assert files.size_of(tmp_path / name) == 6
    assert files.names_in(tmp_path) == ("file", "link")
    assert files.is_directory(tmp_path)
    assert files.size_of(tmp_path) is None


@pytest.mark.parametrize("name", ["nothing", "file/inside", "x" * 300, "a\0b"])
def test_absence_is_an_answer(name: str, tmp_path: Path) -> None:
    """None, False, no names; no exception."""
    (tmp_path / "file").touch()
    path = tmp_path / name
    assert files.read_bounded(path, 10) is None
    assert files.kind(path) is None
    assert not files.is_file(path)
    assert not files.is_directory(path)
    assert files.names_in(path) == ()
    assert files.size_of(path) is None


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_links_that_lead_nowhere(target: str, tmp_path: Path) -> None:
    """Refused where something reads them."""
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(EntryRefused, match="/link: it is a link that leads nowhere"):
        files.read_bounded(tmp_path / "link", 10)


def test_nothing_is_waited_for(tmp_path: Path) -> None:
    """A pipe, a directory and a device are refused at once."""
    os.mkfifo(tmp_path / "pipe")
    started = time.process_time()
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(EntryRefused, match=f"{path}: it is a"):
            files.read_bounded(path, 10)
    assert time.process_time() - started < 5


def test_a_file_that_becomes_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever exchanges it between the look and the opening holds nobody up."""
    os.mkfifo(tmp_path / "pipe")
    before = os.stat_result((0o100600, *[0] * 9))
    monkeypatch.setattr(os, "stat", lambda _: before)
    with pytest.raises(EntryRefused, match="a named pipe"):
        files.read_bounded(tmp_path / "pipe", 10)


@pytest.mark.parametrize(
    ("number", "error"),
    [
        *((number, ResourceLacking) for number in sorted(files.SHORTAGES)),
        (errno.EIO, SourceUnreadable),
        (errno.ESTALE, SourceUnreadable),
        (errno.EACCES, EntryRefused),
        (errno.EPERM, EntryRefused),
    ],
)
def test_whose_fault(
    number: int, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that can fail says the same of the same error."""
    (tmp_path / "file").touch()

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    for name, ask in (
        ("open", lambda: files.read_bounded(tmp_path / "file", 1)),
        ("stat", lambda: files.is_file(tmp_path / "file")),
        ("listdir", lambda: files.names_in(tmp_path)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(error, match=str(tmp_path)):
                ask()


_STARVED = """
import os, resource, sys
from pathlib import Path
from ensemble_tools.archive import files
from ensemble_tools.errors import ResourceLacking
path = Path(sys.argv[1])
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
taken = os.open("/dev/null", os.O_RDONLY)
resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 1, hard))
for ask in (lambda: files.read_bounded(path, 9), lambda: files.names_in(path.parent)):
    try:
        ask()
    except ResourceLacking as error:
        print(error)
"""


def test_a_real_lack_of_descriptors(tmp_path: Path) -> None:
    """As the kernel has it: a process that may open no more."""
    (tmp_path / "file").touch()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64
    command = [sys.executable, "-c", _STARVED, str(tmp_path / "file")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.count("cannot be read now: Too many open files; unload a model") == 2
