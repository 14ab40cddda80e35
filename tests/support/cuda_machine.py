"""A machine's root folder with a GPU, a driver and CUDA compatibility libraries, as images lie.

`python -m tests.support.cuda_machine serve` is the container on the one that CUDA_MACHINE names.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from container.entrypoint import serve
from tests.support.shared_library import write_library

CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 7.3.1 20180712 (Red Hat 7.3.1-17) (GCC) \n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build"
    "  (dvs-builder@U16-I2-C03-12-4)  Tue Mar  5 22:15:33 UTC 2024\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)


def make_machine(root: Path, driver: str | None, proc_text: str = CLOSED) -> Path:
    """One GPU, and the driver in /proc, if any."""
    (root / "dev").mkdir(parents=True)
    for device in ("nvidia0", "nvidiactl"):
        (root / "dev" / device).touch()
    if driver is not None:
        proc = root / "proc/driver/nvidia/version"
        proc.parent.mkdir(parents=True)
        proc.write_text(proc_text.format(driver))
    return root


def add_libraries(
    root: Path,
    version: str,
    folder: str = "usr/local/cuda/compat",
    *,
    result: int = 0,
    drivers: Sequence[int] = (),
) -> Path:
    """A libcuda as the package cuda-compat lays it out. drivers: those that its note names.

    result: what cuInit returns.
    """
    note = _note({"Format": 1, "CUDA Version": "12.9", "Driver": [*drivers]}) if drivers else b""
    library = root / folder / f"libcuda.so.{version}"
    write_library(library, "cuInit", result, note)
    (library.parent / "libcuda.so.1").symlink_to(library.name)
    return library.parent


def _note(said: dict[str, object]) -> bytes:
    owner, words = b"NVIDIA Corporation\0", json.dumps(said).encode()
    return struct.pack("<3I", len(owner), len(words), 1) + owner.ljust(20, b"\0") + words


if __name__ == "__main__":
    sys.exit(serve(os.environ, root=Path(os.environ["CUDA_MACHINE"])))
