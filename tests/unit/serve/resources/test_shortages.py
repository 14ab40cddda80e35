"""What the kernel denied, read from its files of either version of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.resources.free import Kernel
from serve.resources.shortages import Denials, denials

V1 = "5:memory:/group/inner\n4:pids:/group\n3:cpu,cpuacct:/elsewhere\n0::/\n"
V2 = "0::/group\n"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """What the kernel says of our own groups."""
    (tmp_path / "proc/self").mkdir(parents=True)
    return tmp_path / "proc/self/cgroup"


def denied(root: Path) -> Denials:
    return denials(Kernel(proc=root / "proc", cgroup=root))


def test_version_1(tmp_path: Path, own: Path) -> None:
    """Each controller has a mount; a group and those above it are added."""
    own.write_text(V1)
    write(tmp_path / "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    write(tmp_path / "memory/group/inner/memory.oom_control", "under_oom 0\noom_kill 3\n")
    write(tmp_path / "pids/group/pids.events", "max 7\n")
    write(tmp_path / "cpu/elsewhere/pids.events", "max 100\n")
    assert denied(tmp_path) == Denials(4, 7)


def test_version_2(tmp_path: Path, own: Path) -> None:
    """One mount, with files of all controllers."""
    own.write_text(V2)
    write(tmp_path / "group/memory.events", "low 9\nmax 9\noom 9\noom_kill 2\noom_group_kill 9\n")
    write(tmp_path / "group/pids.events", "max 5\n")
    assert denied(tmp_path) == Denials(2, 5)


def test_a_container_that_sees_its_group_as_the_root(tmp_path: Path, own: Path) -> None:
    """Its path may be the host's, which is not there."""
    own.write_text("0::/docker/0123\n")
    write(tmp_path / "memory.events", "oom_kill 2\n")
    assert denied(tmp_path) == Denials(2, 0)


def test_where_nothing_is_counted(tmp_path: Path, own: Path) -> None:
    """No files, or files that say something else: no denials, and no error."""
    assert denied(tmp_path) == Denials(0, 0)
    own.write_text(V2 + "nonsense\n")
    write(tmp_path / "group/pids.events", "max\nmax many\nmax 1 2\n")
    assert denied(tmp_path) == Denials(0, 0)


def test_of_this_machine() -> None:
    """Its own files can be read."""
    assert denials().oom_kills >= 0


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (Denials(1, 2), None),
        (Denials(2, 2), "for want of memory"),
        (Denials(1, 3), "a process or a thread"),
        (Denials(0, 0), None),
    ],
)
def test_what_was_lacking_between_two_looks(after: Denials, words: str | None) -> None:
    """Only what was denied meanwhile counts."""
    said = after.since(Denials(1, 2))
    assert said is None if words is None else words in str(said)
