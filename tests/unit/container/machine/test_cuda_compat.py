"""What becomes of the CUDA compatibility libraries, from two versions and what lies where."""

from __future__ import annotations

from pathlib import Path

import pytest

from container.machine.cuda_compat import (
    CompatLibraries,
    CudaCompat,
    CudaOnMachine,
    LibcudaChoice,
    judge,
    judge_trial,
    read_driver_version,
)
from tests.support.cuda_machine import CLOSED, OPEN

FOLDER = Path("/usr/local/cuda/compat")


def judged(driver: str, version: str, *branches: int, choice: CudaCompat = "auto") -> LibcudaChoice:
    libraries = CompatLibraries(FOLDER, version, branches)
    return judge(choice, CudaOnMachine(1, driver, libraries))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (CLOSED.format("535.104.05"), "535.104.05"),
        (OPEN.format("550.54.15"), "550.54.15"),
        (OPEN.format("580.142"), "580.142"),
        ("NVRM version: NVIDIA UNIX Kernel Module for aarch64  34.1.1  Release Build\n", "34.1.1"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 malformed\n", ""),
        ("GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04.1)\n", ""),
        ("", ""),
    ],
)
def test_the_drivers_version(text: str, version: str) -> None:
    """Closed and open kernel modules write it in two places; anything else is no version."""
    assert read_driver_version(text) == version


@pytest.mark.parametrize(("driver", "version"), [("535.104.05", "550.54.15"), ("99.1", "470.82")])
def test_an_older_driver(driver: str, version: str) -> None:
    """The libraries go first, if they prove good; branches are compared as numbers."""
    verdict = judged(driver, version)
    assert (verdict.folder, verdict.to_try, verdict.is_warning) == (FOLDER, True, False)
    assert verdict.facts == {"driver": driver, "libraries": version, "path": str(FOLDER)}


@pytest.mark.parametrize("driver", ["550.54.14", "550.54.15", "550.127.05", "580.142", "1000.1"])
def test_a_driver_of_the_branch_or_a_newer_one(driver: str) -> None:
    """The host's own libcuda is the better one, also where it is older within the branch."""
    verdict = judged(driver, "550.54.15")
    assert (verdict.folder, verdict.is_warning) == (None, False)
    assert verdict.words == "CUDA compatibility libraries are not needed"
    assert (verdict.facts["driver"], verdict.facts["libraries"]) == (driver, "550.54.15")


def test_a_driver_that_is_too_old_for_them() -> None:
    """SageMaker's 470 and CUDA 12.9, which aws/deep-learning-containers#4990 met."""
    verdict = judged("470.256.02", "575.57.08", 535, 550, 560, 565, 570, 575)
    assert (verdict.folder, verdict.is_warning) == (None, True)
    assert "do not work with a driver 470, but with 535, 550, 560, 565, 570;" in verdict.words
    assert "choose a newer driver (on SageMaker by the variant's Inference" in verdict.words


def test_a_branch_that_they_name() -> None:
    assert judged("535.183.01", "575.57.08", 535, 550, 575).folder == FOLDER


def test_the_setting() -> None:
    """`on` uses them whatever the versions are, `off` never."""
    assert judged("470.1", "575.57.08", 535, choice="on") == LibcudaChoice(
        "CUDA compatibility libraries are used: SERVE_CUDA_COMPAT is on",
        {"driver": "470.1", "libraries": "575.57.08", "path": str(FOLDER)},
        folder=FOLDER,
    )
    off = judged("535.1", "575.57.08", choice="off")
    assert (off.folder, off.is_warning) == (None, False)
    assert off.words == "CUDA compatibility libraries are left out: SERVE_CUDA_COMPAT is off"


@pytest.mark.parametrize("choice", ["auto", "on", "off"])
def test_no_gpu(choice: CudaCompat) -> None:
    """Nothing is done, and nothing is said."""
    assert judge(choice, CudaOnMachine(0)) == LibcudaChoice()


def test_no_libraries() -> None:
    """It is told; a driver that is too old for the image is a warning with what to do."""
    assert judge("auto", CudaOnMachine(1, "535.1", built_for="535.2")) == LibcudaChoice(
        "CUDA compatibility libraries: this image has none", {"driver": "535.1"}
    )
    assert judge("on", CudaOnMachine(1, "535.1")).is_warning
    old = judge("auto", CudaOnMachine(1, "470.1", built_for="575.57.08"))
    assert old.is_warning
    assert old.facts == {"driver": "470.1", "built_for": "575.57.08"}
    assert "the image has no CUDA compatibility libraries: models may not get the GPU" in old.words


def test_a_driver_without_a_version() -> None:
    """Nothing is guessed; how to have them all the same is said."""
    verdict = judged("", "550.54.15")
    assert (verdict.folder, verdict.is_warning) == (None, True)
    assert "no driver's version is known; SERVE_CUDA_COMPAT=on puts them" in verdict.words
    assert verdict.facts["driver"] == "unknown"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (804, "(cuInit() returns 804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE; they are for"),
        (1, "(cuInit() returns 1, an error of CUDA; they are for"),
        ("OSError: libcuda.so.1: file too short", "(OSError: libcuda.so.1: file too short; they"),
    ],
)
def test_a_trial_that_fails(result: int | str, said: str) -> None:
    """They are left out, and CUDA's word for it is told."""
    verdict = judge_trial(judged("535.1", "550.54.15"), result)
    assert (verdict.folder, verdict.is_warning) == (None, True)
    assert said in verdict.words
    assert verdict.facts["libraries"] == "550.54.15"


def test_a_trial_that_goes_well() -> None:
    verdict = judged("535.1", "550.54.15")
    assert judge_trial(verdict, 0) is verdict
