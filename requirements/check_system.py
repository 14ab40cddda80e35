"""Is everything here that the environments take from the system? A line for each thing that is not.

    python requirements/check_system.py [demo|setup]

Run it with the interpreter that they are to be made of: demo is the server with numpy and torch,
setup (the default) is Merlin and all else. The lines go to stderr, the Debian packages that mend
them to stdout. Exit code 0: all is here; 1: packages, or room, are missing; 2: no package mends it.
Standard library only.

The tritonserver wheel brings all its libraries (readelf, NEEDED) but glibc, libgcc, libstdc++ and
zlib, which every Debian has, and the libpython that its python backend's stub is linked with.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

# The wheel is tagged manylinux_2_35; Debian 12 has 2.36.
MINIMUM_GLIBC = (2, 35)
# Merlin's packages of 23.08 have no wheels for a later Python than 3.11.
PYTHONS = {"demo": ((3, 10), (3, 11), (3, 12)), "setup": ((3, 11),)}
# Environments and downloads together, measured; 12 GiB more with PyPI's CUDA build of torch.
NEEDED_DISK_BYTES = {"demo": 2 * 1024**3, "setup": 5 * 1024**3}
# Where one of these is, the room was found before.
MADE = {"demo": ".venv/.installed-*", "setup": ".venv-merlin/.installed-*"}

LIBRARIES = {
    "libstdc++.so.6": "libstdc++6",
    "libgcc_s.so.1": "libgcc-s1",
    "libz.so.1": "zlib1g",
}


def loads(library: str | Path) -> bool:
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True


def this_python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def has_libpython() -> bool:
    """On the loader's path (Debian's), or in the interpreter's own lib directory (pyenv's)."""
    name = f"libpython{this_python()}.so.1.0"
    return (Path(sysconfig.get_config_var("LIBDIR") or "/") / name).exists() or loads(name)


def glibc_version() -> tuple[int, ...]:
    name, version = platform.libc_ver()
    return tuple(int(part) for part in version.split(".")) if name == "glibc" else ()


def wrong_machine(purpose: str) -> Iterator[str]:
    """What no package mends; with one of these the other checks say nothing."""
    if sys.version_info[:2] not in PYTHONS[purpose]:
        *others, last = (f"{major}.{minor}" for major, minor in PYTHONS[purpose])
        wanted = f"{', '.join(others)} or {last}" if others else last
        yield f"Python {wanted} is needed and {sys.executable} is {this_python()}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        found = f"{sys.platform} on {platform.machine()}"
        yield f"Linux on x86_64 is needed and this is {found}: tritonserver has no wheel for it"
    elif glibc_version() < MINIMUM_GLIBC:
        yield "glibc 2.35 or later is needed by tritonserver's wheel: Debian 12 has 2.36"


def missing() -> Iterator[tuple[str, str]]:
    """What a package mends, and which."""
    version = this_python()
    if not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
        package = f"python{version}-venv"
        yield f"{sys.executable} cannot make virtual environments", package
    if not has_libpython():
        yield (
            f"libpython{version}.so.1.0, of Triton's python backend, is missing",
            (f"libpython{version}"),
        )
    for library, package in LIBRARIES.items():
        if not loads(library):
            yield f"{library} is missing", package


def no_room(directory: Path, purpose: str) -> Iterator[str]:
    if not os.access(directory, os.W_OK):
        yield f"{directory} is not writable: the environments are made there"
    free, needed = shutil.disk_usage(directory).free, NEEDED_DISK_BYTES[purpose]
    if free < needed and not any(directory.glob(MADE[purpose])):
        found = f"{free / 1024**3:.1f} GB free and {needed // 1024**3} GB are needed"
        yield f"{directory} has {found}"


def main() -> int:
    purpose = sys.argv[1] if sys.argv[1:] else "setup"
    if hopeless := [*wrong_machine(purpose), *no_room(Path.cwd(), purpose)]:
        print("\n".join(hopeless), file=sys.stderr)
        return 2
    lacks = list(missing())
    for fault, package in lacks:
        print(f"{fault}: install {package}", file=sys.stderr)
    print("\n".join(package for _, package in lacks))
    return 1 if lacks else 0


if __name__ == "__main__":
    sys.exit(main())
