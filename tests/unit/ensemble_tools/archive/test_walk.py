"""The walk over an archive: what passes, what is refused by name, and how long it takes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ensemble_tools.archive import walk
from ensemble_tools.archive.walk import ArchiveSize, walk_archive
from ensemble_tools.errors import EntryRefused, ResourceLacking, SourceUnreadable


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """An archive with a model and some code beside it."""
    for name in ("models/hash/model/m/1", "models/hash/model/shared/package"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("m/config.pbtxt", "m/1/model.py", "shared/package/code.py"):
        (tmp_path / "models/hash/model" / name).touch()
    (tmp_path / "secret").write_text("s3cret")
    return tmp_path / "models/hash/model"


def test_what_passes(top: Path) -> None:
    """Files, directories, and links that end inside: relative, absolute, in chains, to nothing."""
    (top / "m/1/relative").symlink_to("../../shared/package")
    (top / "m/1/absolute.py").symlink_to(top / "shared/package/code.py")
    (top / "m/1/chain").symlink_to("relative")
    (top / "m/1/nothing").symlink_to("gone")
    (top / "m/1/itself").symlink_to("itself")
    (top / "m/1/around").symlink_to(f"../../../../../models/hash/{top.name}/shared/package")
    assert walk_archive(top) == ArchiveSize(files=6, directories=5, links=3)


def test_an_archive_behind_a_link(top: Path, tmp_path: Path) -> None:
    """Inside is meant after links are followed, those to the archive itself too."""
    (tmp_path / "link").symlink_to(top)
    (top / "m/1/absolute").symlink_to(top / "shared")
    (top / "m/1/through").symlink_to(tmp_path / "link/shared")
    assert walk_archive(tmp_path / "link").links == 2


def test_what_is_no_directory(top: Path) -> None:
    """It is left to who reads it."""
    for path in (top / "nowhere", top / "m/config.pbtxt"):
        assert walk_archive(path) == ArchiveSize(0, 0, 0)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("/proc/self/environ", "link out of the archive, to /proc/"),
        ("/etc", "link out of the archive, to /etc"),
        ("../../../../../secret", "link out of the archive, to .*secret"),
        ("/nowhere/at/all", "link out of the archive, to /nowhere"),
        ("../../..", "link out of the archive"),
        ("../../../model-2", "link out of the archive"),
        (".", "link back"),
        ("..", "link back"),
        ("../..", "link back"),
        ("../../m", "link back"),
    ],
)
def test_links_that_are_refused(target: str, found: str, top: Path) -> None:
    """Links out, to what is there or not, and links to a directory that they are in."""
    (top.parent / "model-2").mkdir()
    (top / "m/1/a").symlink_to(target)
    with pytest.raises(EntryRefused, match=f"/m/1/a: it is a {found}") as refused:
        walk_archive(top)
    assert "\n" not in str(refused.value)


def test_a_model_that_is_a_link_out(top: Path, tmp_path: Path) -> None:
    """A model directory is no exception, nor is what lies beside the models."""
    (tmp_path / "elsewhere/1").mkdir(parents=True)
    (top / "theirs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EntryRefused, match="/theirs: it is a link out of the archive"):
        walk_archive(top)


def test_chains_of_links(top: Path) -> None:
    """As far as the kernel follows them; what is behind more is nothing, whatever it would be."""
    (top / "m/1/link-0").symlink_to("../../shared/package")
    for number in range(1, 2000):
        (top / f"m/1/link-{number}").symlink_to(f"link-{number - 1}")
    walked = walk_archive(top)
    assert (walked.links, walked.files) == (40, 3 + 1960)


def test_many_links_to_a_long_chain(top: Path) -> None:
    """Each costs some µs, however long the chain is, and wherever it leads."""
    (top / "m/1/link-0").symlink_to("gone")
    for number in range(1, 900):
        (top / f"m/1/link-{number}").symlink_to(f"link-{number - 1}")
    for number in range(2000):
        (top / f"m/1/many-{number}").symlink_to("missing/../link-899")
    before = time.process_time()
    walk_archive(top)
    assert time.process_time() - before < 2


def test_circles_of_several_links(top: Path) -> None:
    """Two directories that lead to each other, found from whichever side."""
    for name, other in (("x", "y"), ("y", "x")):
        (top / name).mkdir()
        (top / name / "away").symlink_to(f"../{other}")
    with pytest.raises(EntryRefused, match="/away: it is a link back"):
        walk_archive(top)


def test_a_circle_through_a_directory(top: Path) -> None:
    """p/q leads to p, and a link into p/q is met before p is."""
    (top / "p/q").mkdir(parents=True)
    (top / "p/q/up").symlink_to("..")
    (top / "a").symlink_to("p/q")
    with pytest.raises(EntryRefused, match="link back"):
        walk_archive(top)


def test_links_that_multiply(top: Path) -> None:
    """Forty directories with two links each to the next are 2^40 entries for who follows them."""
    for number in range(41):
        (top / f"x{number}").mkdir()
    for number in range(40):
        for name in "ab":
            (top / f"x{number}" / name).symlink_to(f"../x{number + 1}")
    with pytest.raises(EntryRefused, match="links to directories lead to more than"):
        walk_archive(top)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        place = os.open(path.parent, os.O_RDONLY)
        try:
            listener.bind(
                f"/proc/self/fd/{place}/{path.name}"
            )  # a longer path is none for a socket
        finally:
            os.close(place)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (os.mkfifo, "a named pipe"),
        (a_socket, "a socket"),
        (lambda path: os.mknod(path, 0o020600, os.makedev(1, 3)), "a device"),
    ],
)
def test_what_is_no_file(make: Callable[[Path], None], found: str, top: Path) -> None:
    """Pipes, sockets and devices are refused wherever they lie, and not opened."""
    if found == "a device" and os.geteuid() != 0:
        pytest.skip("only root makes devices")
    make(top / "shared/package/odd")
    with pytest.raises(EntryRefused, match=f"/shared/package/odd: it is {found}"):
        walk_archive(top)


def test_bounds(top: Path) -> None:
    """Too many entries, too deep, too long: the bounds are names of this room."""
    deep = top / "/".join("d" * (walk.MAX_DEPTH - 1))
    deep.mkdir(parents=True)
    assert walk_archive(top)
    (deep / "d/d").mkdir(parents=True)
    with pytest.raises(EntryRefused, match="nested more than 100 deep"):
        walk_archive(top)
    (deep / "d/d").rmdir()
    long = top / "n" / "/".join(["n" * 250] * 4)
    long.mkdir(parents=True)
    assert walk_archive(top)
    (long / ("n" * 100)).touch()
    with pytest.raises(EntryRefused, match="longer than 1024 bytes") as refused:
        walk_archive(top)
    assert len(str(refused.value)) < 600
    with pytest.raises(EntryRefused, match="more than 10 files, directories and links"):
        walk_archive(top, max_entries=10)


def test_names_that_are_no_text(top: Path) -> None:
    """A message stays one line that any log can hold."""
    name = os.fsdecode(b"odd\nname\xff")
    os.mkfifo(top / name)
    with pytest.raises(EntryRefused, match="named pipe") as refused:
        walk_archive(top)
    assert str(refused.value).isprintable()


def test_faults_of_the_machine(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lack of descriptors is no archive's fault, nor is a disk's error."""
    for number, error in ((24, ResourceLacking), (5, SourceUnreadable), (13, EntryRefused)):

        def fail(path: str, number: int = number) -> None:
            raise OSError(number, os.strerror(number), path)

        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", fail)
            with pytest.raises(error, match=str(top)):
                walk_archive(top)
