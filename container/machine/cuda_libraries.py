"""Where the driver's version and the image's CUDA compatibility libraries lie, and whether they
work here.

Two layouts are met, under `/usr/local/cuda/compat` or what `_CUDA_COMPAT_PATH` of NVIDIA's images
names:

    lib.real/libcuda.so.1 -> libcuda.so.550.54.15   Triton's and Merlin's images. LD_LIBRARY_PATH
                                                    and /etc/ld.so.conf.d name `lib` beside it, a
                                                    link that NVIDIA's entrypoint would make
    libcuda.so.1 -> libcuda.so.550.54.15            plain CUDA images: the package cuda-compat
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from container.machine.children import ask_command, read_last_words
from container.machine.cuda_compat import (
    CompatLibraries,
    CudaCompat,
    CudaOnMachine,
    judge,
    judge_trial,
    read_driver_version,
)

log = logging.getLogger(__name__)

_COMPAT = "/usr/local/cuda/compat"
_LIBRARY = "libcuda.so.1"
_VERSIONED = re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)*)")
#: The note .note.cuda.fwd_compatibility of newer ones: its owner, then JSON with a list `Driver`
#: (575.57.08 names 535, 550, 560, 565, 570 and 575).
_NOTE = re.compile(rb"NVIDIA Corporation\0{1,8}(\{[^{}]{1,4096}\})")
_TRIAL = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
#: A first call wakes up eight GPUs that sleep, one after another.
_TRIAL_TIMEOUT_S = 60.0
_LAST_WORDS = 200


def arrange_cuda_compat(
    choice: CudaCompat, environment: Mapping[str, str], root: Path
) -> Path | None:
    """The folder that goes first on the models' LD_LIBRARY_PATH, or None. Logs why, in one line.

    root: the machine's root folder. Blocks while the libraries are tried, on a machine with GPUs
    and an old driver: a second or so, a minute at most.
    """
    verdict = judge(choice, look(environment, root))
    if verdict.to_try and verdict.folder is not None:
        verdict = judge_trial(verdict, _try(verdict.folder, environment))
    if verdict.words:
        level = logging.WARNING if verdict.is_warning else logging.INFO
        log.log(level, "%s", verdict.words, extra=dict(verdict.facts))
    return verdict.folder


def look(environment: Mapping[str, str], root: Path) -> CudaOnMachine:
    """The GPUs, driver and libraries; without a GPU nothing else is looked for."""
    gpus = count_gpus(root / "dev")
    if not gpus:
        return CudaOnMachine(0)
    try:
        proc_text = (root / "proc/driver/nvidia/version").read_text(errors="replace")
    except OSError:
        proc_text = ""
    driver = read_driver_version(proc_text)
    libraries = next(_find_libraries(environment, root), None)
    built_for = environment.get("CUDA_DRIVER_VERSION", "")  # NVIDIA's images have it
    return CudaOnMachine(
        gpus, driver, libraries, built_for if re.match(r"\d+\b", built_for) else ""
    )


def count_gpus(devices: Path = Path("/dev")) -> int:
    """How many GPUs this container was given, by their device files."""
    return sum(1 for path in devices.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))


def _find_libraries(environment: Mapping[str, str], root: Path) -> Iterator[CompatLibraries]:
    for base in dict.fromkeys((environment.get("_CUDA_COMPAT_PATH") or _COMPAT, _COMPAT)):
        for folder in (root / base.lstrip("/") / "lib.real", root / base.lstrip("/")):
            if version := _read_version(folder):
                branches = _read_branches((folder / _LIBRARY).resolve())
                yield CompatLibraries(folder, version, branches)


def _read_version(folder: Path) -> str:
    """The version of the libcuda that programs would load from there; empty where there is none."""
    library = folder / _LIBRARY
    if not library.is_file():  # a link may lead nowhere
        return ""
    names = [library.resolve().name, *sorted(path.name for path in folder.glob("libcuda.so.*"))]
    return next((match[1] for match in map(_VERSIONED.fullmatch, names) if match), "")


def _read_branches(library: Path) -> tuple[int, ...]:
    """The drivers that it says it works with (some 50 ms for a file of 70 MB)."""
    if library.stat().st_size == 0:  # mmap refuses an empty file
        return ()
    with (
        library.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        for note in _NOTE.finditer(content):
            try:
                metadata = {name.lower(): value for name, value in json.loads(note[1]).items()}
                return tuple(sorted(int(branch) for branch in metadata.get("driver", ())))
            except (ValueError, TypeError):
                continue
    return ()


def _try(folder: Path, environment: Mapping[str, str]) -> int | str:
    """The result of CUDA's first call with these libraries, or why there is none.

    In a process of its own: one that has met a GPU can fork no models.
    """
    there = environment.get("LD_LIBRARY_PATH", "")
    path = os.pathsep.join([str(folder), *(it for it in there.split(os.pathsep) if it)])
    own = {**environment, "LD_LIBRARY_PATH": path}
    try:
        answer = ask_command([sys.executable, "-I", "-S", "-c", _TRIAL], _TRIAL_TIMEOUT_S, own)
    except subprocess.TimeoutExpired:
        return f"cuInit() did not return in {_TRIAL_TIMEOUT_S:g} s"
    except OSError as error:
        return f"they could not be tried: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return read_last_words(error)[:_LAST_WORDS]
    return int(answer) if answer.strip().isdecimal() else "exit code 0"
