"""A stub that was killed for want of memory, or denied a process, is a shortage: 507, and no 400.

The kernel does it, in control groups of the test's own.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import Container, running, until
from tests.support.protocol import complaint, infer, values

CGROUP = Path("/sys/fs/cgroup")
MIB = 1024 * 1024
GONE_S = 60.0


@dataclass(frozen=True)
class Group:
    """A control group of version 1 or 2 and the names of the two files that the tests use."""

    path: Path
    limit: str
    usage: str

    @property
    def used(self) -> int:
        """What it holds now: bytes, or processes and threads."""
        return int((self.path / self.usage).read_text())

    def allow(self, more: int) -> None:
        """So much beyond what it holds now."""
        (self.path / self.limit).write_text(str(self.used + more))

    def allow_all(self) -> None:
        """No limit, as far as it goes."""
        (self.path / self.limit).write_text("-1" if "in_bytes" in self.limit else "max")

    def take(self, container: Container) -> None:
        """All of the container's processes."""
        for pid in (container.process.pid, *(child.pid for child in container.descendants())):
            (self.path / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def group(controller: str, container: Container) -> Iterator[Group]:
    """A group for as long as the container is in it."""
    name = f"serve-test-{secrets.token_hex(4)}"
    if (CGROUP / controller).is_dir():
        own = _own(controller)
        path = (CGROUP / controller / own.lstrip("/")) / name
        files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    else:
        path = CGROUP / name
        files = ("memory.max", "memory.current")
    limit, usage = files if controller == "memory" else ("pids.max", "pids.current")
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    made = Group(path, limit, usage)
    made.take(container)
    try:
        yield made
    finally:
        made.allow_all()
        _leave(path)


def _own(controller: str) -> str:
    rows = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return next((path for _, names, path in rows if controller in names.split(",")), "/")


def _leave(path: Path) -> None:
    """Everybody back to where the test is; the group goes when the last one has ended."""
    deadline = time.monotonic() + GONE_S
    while time.monotonic() < deadline:
        for pid in (path / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (path.parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        time.sleep(0.05)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container of its own, with a model that must not notice anything."""
    directory = tmp_path_factory.mktemp("short")
    with running(directory, SERVE_MEMORY_RESERVE_MB="0") as container:
        archive = write(container, "neighbour", models.adder(3))
        with container.loaded("neighbour", archive):
            yield container


def write(container: Container, name: str, model: models.Writable) -> Path:
    return models.write_archive(container.model_root / name / "model", {"m": model})


@contextlib.contextmanager
def unharmed(container: Container) -> Iterator[None]:
    """tritonserver goes on, the neighbour answers, nothing is left."""
    first, before = container.triton(), (container.stubs(), container.published())
    yield
    assert container.triton() == first
    assert (container.stubs(), container.published()) == before
    assert values(container.invoke("neighbour", infer([1]))) == [4.0]


@contextlib.contextmanager
def recovered(container: Container) -> Iterator[None]:
    """As `unharmed`, but tritonserver may have ended: it aborts when a thread is denied to it.

    Whether the kernel denies tritonserver's thread, a fork or one of the stub's threads depends on
    what else begins a thread in that moment.
    """
    before = (len(container.stubs()), container.published())
    yield
    until(
        lambda: container.invoke("neighbour", infer([1])).status_code == 200,
        "the neighbour answers",
        container,
    )
    assert (len(container.stubs()), container.published()) == before
    assert values(container.invoke("neighbour", infer([1]))) == [4.0]


def test_a_stub_that_the_oom_killer_takes(short: Container) -> None:
    """507 with the reason; a model that kills itself beside it is still the archive's fault."""
    hungry = write(short, "hungry", models.hungry(600))
    with unharmed(short), group("memory", short) as memory:
        memory.allow(200 * MIB)
        answer = short.load("hungry", hungry)
        assert answer.status_code == 507, answer.text
        assert "want of memory" in complaint(answer)
        stillborn = short.load("stillborn", write(short, "stillborn", models.stillborn))
        assert stillborn.status_code == 400, stillborn.text
        assert "not healthy" in complaint(stillborn)
        memory.allow_all()
        with short.loaded("hungry", hungry):  # there is room now
            assert values(short.invoke("hungry", infer([5]))) == [5.0]


@pytest.mark.parametrize("more", [4, 7])
def test_a_stub_that_is_denied_a_process(short: Container, more: int) -> None:
    """507, whether tritonserver cannot fork or the stub cannot begin its threads."""
    archive = write(short, f"adder{more}", models.adder(1))
    with recovered(short), group("pids", short) as pids:
        pids.allow(more)
        answer = short.load("adder", archive)
        assert answer.status_code == 507, answer.text
        assert _says_so(complaint(answer))
        pids.allow_all()
        with short.loaded("adder", archive):
            assert values(short.invoke("adder", infer([5]))) == [6.0]


def _says_so(said: str) -> bool:
    return "fork" in said or "a process or a thread" in said
