"""python -m tests.reliability.bounded COMMAND...: a program inside bounds of its own.

`serve` alone stands for the container. What is attacked must not take the machine with it, and a
shortage that a test makes must be felt by the attacked program alone: so it runs in control groups,
under limits, and with file systems of its own on /dev/shm or a directory, in a mount namespace that
ends with it. Nothing has to be unmounted, and nobody else's /dev/shm is ever full.

The bounds stand in the environment variable RELIABILITY_BOUNDS, which the program does not inherit.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.support import quick_container

VARIABLE = "RELIABILITY_BOUNDS"

_CLONE_NEWNS = 0x00020000  # sched.h
_MS_NOSUID_NODEV, _MS_REC_PRIVATE = 0x2 | 0x4, 0x4000 | 0x40000  # mount.h


@dataclass(frozen=True)
class Bounds:
    """cgroups: directories of control groups to join. file_systems: path -> bytes of a tmpfs there.

    descriptors: RLIMIT_NOFILE. address_space: RLIMIT_AS in bytes. None: as inherited.
    """

    cgroups: tuple[str, ...] = ()
    file_systems: Mapping[str, int] = field(default_factory=dict)
    descriptors: int | None = None
    address_space: int | None = None

    def environment(self) -> dict[str, str]:
        """What tells this program its bounds."""
        return {VARIABLE: json.dumps(asdict(self))}


def enter(bounds: Bounds) -> None:
    """Put this process, and all that it becomes or starts, inside; raises OSError."""
    for directory in bounds.cgroups:
        Path(directory, "cgroup.procs").write_text("0")
    if bounds.file_systems:
        _call("unshare", _CLONE_NEWNS)
        _call("mount", b"none", b"/", None, _MS_REC_PRIVATE, None)
    for path, size in bounds.file_systems.items():
        options = f"size={size},mode=1777".encode()
        _call("mount", b"tmpfs", path.encode(), b"tmpfs", _MS_NOSUID_NODEV, options)
    for limit, value in (
        (resource.RLIMIT_NOFILE, bounds.descriptors),
        (resource.RLIMIT_AS, bounds.address_space),
    ):
        if value is not None:
            resource.setrlimit(limit, (value, value))


def may_mount() -> bool:
    """Whether this user may make mount namespaces: root may, where nothing forbids it."""
    child = os.fork()
    if child == 0:
        try:
            enter(Bounds(file_systems={"/dev/shm": 1 << 20}))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main(argv: list[str]) -> None:
    bounds = json.loads(os.environ.pop(VARIABLE, "{}"))
    enter(Bounds(**{**bounds, "cgroups": tuple(bounds.get("cgroups", ()))}))
    container = quick_container.__name__ if quick_container.VARIABLE in os.environ else "container"
    command = [sys.executable, "-m", container, "serve"] if argv == ["serve"] else argv
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
