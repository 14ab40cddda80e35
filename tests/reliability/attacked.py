"""The container that is attacked: bounded, watched, and started again when an attack has ended it.

Its bounds: one control group with a limit of memory (where that cannot be made, a limit of address
space), and for chaos a /dev/shm and a work directory of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.reliability.bounded import Bounds, may_mount
from tests.reliability.cgroups import Group, group
from tests.support.container import Container, launch, until

MIB = 1024 * 1024
#: What all processes of one attacked server may have together; a warm-up may ask for 16 GB.
MOST_MEMORY = 4096 * MIB
#: Where there are no control groups: of each process. Python with torch maps some GB and more.
MOST_ADDRESS_SPACE = 12 * 1024 * MIB
#: An attack can make the log grow by 10 MB/s; beyond this it is cut.
MOST_LOG = 64 * MIB
_STOP_S = 120.0


@dataclass(frozen=True)
class Room:
    """descriptors: RLIMIT_NOFILE; shared_memory, disk: bytes of file systems of its own."""

    descriptors: int | None = None
    shared_memory: int | None = None
    disk: int | None = None


_AS_IT_IS = Room()


@dataclass
class Attacked:
    """A container, the group that it runs in, and whether it has file systems of its own."""

    container: Container
    group: Group
    has_own_file_systems: bool

    @property
    def pid(self) -> int:
        """The container's own process."""
        return self.container.process.pid

    @property
    def port(self) -> int:
        return self.container.port

    @property
    def has_ended(self) -> bool:
        return self.container.process.poll() is not None

    def inside(self, path: Path) -> Path:
        """A path as the container sees it."""
        return Path(f"/proc/{self.pid}/root") / str(path).lstrip("/")

    def triton(self) -> int | None:
        """tritonserver's process id; None while there is none."""
        with contextlib.suppress(StopIteration, OSError):
            return self.container.triton()
        return None

    def trim_log(self) -> int:
        """The log's size; what is too long is cut, so that the disk stays free."""
        size = self.container.log_path.stat().st_blocks * 512
        if size > MOST_LOG:
            os.truncate(self.container.log_path, 0)
        return size

    def last_words(self) -> str:
        """The log's last line."""
        with self.container.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
            lines = log.read().decode(errors="replace").strip("\0\n ").splitlines()
        return lines[-1] if lines else ""

    def end(self) -> str | None:
        """Stop it in order; why that did not go well, or None."""
        self.container.http.close()
        self.container.descendants()
        try:
            if not self.has_ended:
                self.container.signal(signal.SIGTERM)
            code = self.container.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"it did not end within {_STOP_S:g} s of SIGTERM"
        left = self.container.survivors()
        self.kill()
        if left:
            return f"{len(left)} processes outlived it"
        return None if code == 0 else f"exit code {code}: {self.last_words()[:200]}"

    def kill(self) -> None:
        """End all that is left of it, and remove what it wrote."""
        self.container.http.close()
        self.container.descendants()
        if not self.has_ended:
            self.container.process.kill()
            self.container.wait(_STOP_S)
        self.group.end_all()
        self.container.discard()


@contextlib.contextmanager
def attacked(
    directory: Path, room: Room = _AS_IT_IS, environment: Mapping[str, str] | None = None
) -> Iterator[Attacked]:
    """One that answers /ping.

    It is killed at the end of the block if it still runs: what a test holds about its end it says
    by `end`.
    """
    with group() as own:
        bounds = _bounds(own, room.descriptors)
        mounts = may_mount() and (room.shared_memory or room.disk)
        if mounts:
            sizes = {"/dev/shm": room.shared_memory, str(directory / "w"): room.disk}
            bounds = replace(bounds, file_systems={k: v for k, v in sizes.items() if v})
        everything = {**bounds.environment(), **(environment or {})}
        container = launch(directory, program="tests.reliability.bounded", **everything)
        server = Attacked(container, own, bool(mounts))
        try:
            until(lambda: container.ping() == 200, "/ping is 200", container)
            yield server
        finally:
            server.kill()


def _bounds(own: Group, descriptors: int | None) -> Bounds:
    if own.memory is None:
        return Bounds(own.directories, {}, descriptors, MOST_ADDRESS_SPACE)
    own.limit_memory(MOST_MEMORY)
    return Bounds(own.directories, {}, descriptors)
