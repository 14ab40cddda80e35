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
from tests.support.shared_library import returning, write_library

CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 7.3.1 20180712 (Red Hat 7.3.1-17) (GCC) \n"
)
_NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED: a GPU that cannot be split
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build"
    "  (dvs-builder@U16-I2-C03-12-4)  Tue Mar  5 22:15:33 UTC 2024\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)


def make_machine(root: Path, driver: str | None, proc_text: str = CLOSED, *, gpus: int = 1) -> Path:
    """Its GPUs' device files, and the driver in /proc, if any."""
    (root / "dev").mkdir(parents=True)
    for device in ("nvidiactl", *(f"nvidia{gpu}" for gpu in range(gpus))):
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
    write_library(library, {"cuInit": returning(result)}, note)
    (library.parent / "libcuda.so.1").symlink_to(library.name)
    return library.parent


def add_nvml(root: Path, *, gpus: int, free: int, total: int) -> Path:
    """NVIDIA's management library, as the driver brings it; each GPU has so many bytes.

    Answers with its folder, which is to be on LD_LIBRARY_PATH. What the functions are given is in
    rdi and rsi (System V AMD64).
    """
    folder, store = root / "usr/lib/nvidia", b"\x48\xb8%b\x48\x89\x46%b"  # mov rax, …; [rsi + …]
    memory = b"".join(
        store % (struct.pack("<Q", size), struct.pack("<B", place))
        for place, size in ((0, total), (8, free), (16, total - free))  # nvmlMemory_t
    )
    done = b"\x31\xc0\xc3"  # xor eax, eax; ret: NVML_SUCCESS
    functions = {
        "nvmlInitWithFlags": returning(0),
        "nvmlDeviceGetCount_v2": b"\xc7\x07" + struct.pack("<I", gpus) + done,  # mov [rdi], gpus
        # lea rax, [rdi + 1]; mov [rsi], rax: a handle is never null
        "nvmlDeviceGetHandleByIndex_v2": b"\x48\x8d\x47\x01\x48\x89\x06" + done,
        "nvmlDeviceGetMigMode": returning(_NOT_SUPPORTED),
        "nvmlDeviceGetMemoryInfo": memory + done,
    }
    write_library(folder / "libnvidia-ml.so.1", functions)
    return folder


def _note(said: dict[str, object]) -> bytes:
    owner, words = b"NVIDIA Corporation\0", json.dumps(said).encode()
    return struct.pack("<3I", len(owner), len(words), 1) + owner.ljust(20, b"\0") + words


if __name__ == "__main__":
    sys.exit(serve(os.environ, root=Path(os.environ["CUDA_MACHINE"])))
