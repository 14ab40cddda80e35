"""Whether models are given the image's CUDA compatibility libraries. No I/O.

libcuda is a part of the driver, and comes from the host. An image whose CUDA is newer than the
host's driver brings a libcuda of its own for it (the package cuda-compat), which must be found
before the host's. NVIDIA's images see to that in their entrypoint, which this container replaces;
NVIDIA's container toolkit did it up to 1.17.3. The rules here are the toolkit's (its hook
cudacompat, and SageMaker's guide container-nvidia-compliance):

1. A driver of the libraries' own branch, or of a newer one, does better with its own libcuda: two
   of one branch may refuse each other (nvidia-container-toolkit, pull request 1697).
2. The libraries work with some older branches alone, which newer ones name themselves.
3. They work with data center GPUs alone. Only CUDA itself knows that: they are tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

CudaCompat = Literal["auto", "on", "off"]

#: Of the closed kernel module, and of the open one, which has it behind its architecture:
#: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …`,
#: `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build …`.
_DRIVER = re.compile(
    r"^NVRM version:.*?Kernel Module(?: for \w+)? +(\d+(?:\.\d+)+)\b", re.MULTILINE
)
#: Of CUresult (cuda.h), those that a first call meets.
_CUDA_ERRORS = {
    100: "CUDA_ERROR_NO_DEVICE",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    999: "CUDA_ERROR_UNKNOWN",
}
_REMEDY = (
    "choose a newer driver (on SageMaker by the variant's InferenceAmiVersion) or an older base "
    "image"
)
_BY_HAND = "SERVE_CUDA_COMPAT=on puts them on the path nevertheless"


@dataclass(frozen=True)
class CompatLibraries:
    """The image's own libcuda."""

    folder: Path
    #: The version of the driver that it belongs to, such as `550.54.15`.
    version: str
    #: The first numbers of the drivers that it says it works with; empty where it says nothing
    #: (that of CUDA 12.9 does, 575.57.08).
    branches: tuple[int, ...] = ()


@dataclass(frozen=True)
class CudaOnMachine:
    """GPUs, driver and libraries of this machine."""

    #: How many the container was given.
    gpus: int
    #: The host's version, empty where it cannot be read.
    driver: str = ""
    #: None for an image without compatibility libraries.
    libraries: CompatLibraries | None = None
    #: The driver that the image is built for, empty where it does not say.
    built_for: str = ""


@dataclass(frozen=True)
class LibcudaChoice:
    """The libcuda that is taken, and one line for the log."""

    #: Empty where there is nothing to tell.
    words: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    is_warning: bool = False
    #: The folder that goes first on the loader's path.
    folder: Path | None = None
    #: Whether the folder is taken only if it proves good.
    to_try: bool = False


def read_driver_version(proc_text: str) -> str:
    """The version in /proc/driver/nvidia/version; empty where there is none that can be read."""
    match = _DRIVER.search(proc_text)
    return match[1] if match else ""


def judge(choice: CudaCompat, machine: CudaOnMachine) -> LibcudaChoice:
    """Whether the libraries are used on this machine. choice: what SERVE_CUDA_COMPAT says."""
    if not machine.gpus:
        return LibcudaChoice()
    facts = _describe(machine)
    if choice == "off":
        return LibcudaChoice(
            "CUDA compatibility libraries are left out: SERVE_CUDA_COMPAT is off", facts
        )
    if machine.libraries is None:
        return _judge_absent(choice, machine, facts)
    if choice == "on":
        message = "CUDA compatibility libraries are used: SERVE_CUDA_COMPAT is on"
        return LibcudaChoice(message, facts, folder=machine.libraries.folder)
    if not machine.driver:
        message = (
            f"CUDA compatibility libraries are left out: no driver's version is known; {_BY_HAND}"
        )
        return LibcudaChoice(message, facts, is_warning=True)
    return _judge_versions(_read_branch(machine.driver), machine.libraries, facts)


def judge_trial(verdict: LibcudaChoice, result: int | str) -> LibcudaChoice:
    """The verdict on libraries that were tried. result: what cuInit returned, or why it did not.

    0 is its success.
    """
    if result == 0:
        return verdict
    if isinstance(result, int):
        result = f"cuInit() returns {result}, {_CUDA_ERRORS.get(result, 'an error of CUDA')}"
    message = (
        "CUDA compatibility libraries are left out: they do not work with this driver and GPU "
        f"({result}; they are for data center GPUs alone); "
        f"{_REMEDY}; {_BY_HAND}"
    )
    return LibcudaChoice(message, verdict.facts, is_warning=True)


def _judge_absent(
    choice: CudaCompat, machine: CudaOnMachine, facts: Mapping[str, str]
) -> LibcudaChoice:
    """Cases without libraries; a driver that is too old without them is told all the same."""
    if (
        machine.driver
        and machine.built_for
        and _read_branch(machine.driver) < _read_branch(machine.built_for)
    ):
        message = (
            "the NVIDIA driver is older than the one that this image is built for, and the image "
            f"has no CUDA compatibility libraries: models may not get the GPU; {_REMEDY}"
        )
        return LibcudaChoice(message, {**facts, "built_for": machine.built_for}, is_warning=True)
    message = "CUDA compatibility libraries: this image has none"
    return LibcudaChoice(message, facts, is_warning=choice == "on")


def _judge_versions(
    driver: int, libraries: CompatLibraries, facts: Mapping[str, str]
) -> LibcudaChoice:
    if driver >= _read_branch(libraries.version):  # 1
        return LibcudaChoice("CUDA compatibility libraries are not needed", facts)
    if libraries.branches and driver not in libraries.branches:  # 2
        others = [
            str(branch)
            for branch in libraries.branches
            if branch != _read_branch(libraries.version)
        ]
        message = (
            f"CUDA compatibility libraries are left out: they do not work with a driver {driver}, "
            f"but with {', '.join(others)}; models may not get the GPU; {_REMEDY}"
        )
        return LibcudaChoice(message, facts, is_warning=True)
    message = "CUDA compatibility libraries are used: the driver is older than this image's CUDA"
    return LibcudaChoice(message, facts, folder=libraries.folder, to_try=True)  # 3


def _describe(machine: CudaOnMachine) -> dict[str, str]:
    facts = {"driver": machine.driver or "unknown"}
    if machine.libraries is not None:
        facts |= {"libraries": machine.libraries.version, "path": str(machine.libraries.folder)}
    return facts


def _read_branch(version: str) -> int:
    return int(version.partition(".")[0])
