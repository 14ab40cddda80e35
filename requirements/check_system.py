"""Is everything here that `make setup` takes from the system? A line for each thing that is not.

Run it with the interpreter that the environments are to be made of. Standard library only.

The tritonserver wheel brings all its libraries (readelf, NEEDED) but glibc, libgcc, libstdc++ and
zlib, which every Debian has, and the libpython3.11 that its python backend's stub is linked with.
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
# The models' lock is for one Python: Merlin's packages of 23.08 have no later wheels.
PYTHON = (3, 11)
# Environments and downloads together, measured; 12 GiB more with PyPI's CUDA build of torch.
NEEDED_DISK_BYTES = 5 * 1024**3

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


def has_libpython() -> bool:
    """On the loader's path (Debian's), or in the interpreter's own lib directory (pyenv's)."""
    name = f"libpython{PYTHON[0]}.{PYTHON[1]}.so.1.0"
    return (Path(sysconfig.get_config_var("LIBDIR") or "/") / name).exists() or loads(name)


def glibc_version() -> tuple[int, ...]:
    name, version = platform.libc_ver()
    return tuple(int(part) for part in version.split(".")) if name == "glibc" else ()


def wrong_machine() -> Iterator[str]:
    """What no package mends; with one of these the other checks say nothing."""
    version = sys.version_info[:2]
    if version != PYTHON:
        found = f"{version[0]}.{version[1]}"
        yield f"Python 3.11 is needed and {sys.executable} is {found}: install python3.11"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        found = f"{sys.platform} on {platform.machine()}"
        yield f"Linux on x86_64 is needed and this is {found}: tritonserver has no wheel for it"
    elif glibc_version() < MINIMUM_GLIBC:
        yield "glibc 2.35 or later is needed by tritonserver's wheel: Debian 12 has 2.36"


def missing(directory: Path) -> Iterator[str]:
    """What a package or a larger disk mends, each with what to do."""
    if not all(importlib.util.find_spec(module) for module in ("venv", "ensurepip")):
        yield f"{sys.executable} cannot make virtual environments: install python3.11-venv"
    if not has_libpython():
        yield "libpython3.11.so.1.0, of Triton's python backend, is missing: install libpython3.11"
    for library, package in LIBRARIES.items():
        if not loads(library):
            yield f"{library} is missing: install {package}"
    if not os.access(directory, os.W_OK):
        yield f"{directory} is not writable: the environments are made there"
    free = shutil.disk_usage(directory).free
    if free < NEEDED_DISK_BYTES:
        needed = NEEDED_DISK_BYTES // 1024**3
        yield f"{directory} has {free / 1024**3:.1f} GB free and {needed} GB are needed"


def main() -> int:
    faults = list(wrong_machine()) or list(missing(Path.cwd()))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
