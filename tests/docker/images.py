"""The images under test, built by the Dockerfile with the commands that README gives.

    DOCKER_HOST=... python3 -m tests.docker.images

builds all of them ahead of the tests, which then find every step in the builder's cache. Standard
library only (see engine.py).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tests.docker.base_image import ROOT, base_image
from tests.docker.engine import NoEngine, running_engine
from tests.docker.pip_settings import build_arguments

CPU = "merlin-sagemaker-test:cpu"
SIMULATOR = "merlin-sagemaker-test:simulator"
GPU = "merlin-sagemaker-test:gpu"
PACKAGES = "merlin-sagemaker-test-base:packages"
STAND_IN = "merlin-sagemaker-test-base:nvidia"
#: 2 min on two cores; with a slow package index longer.
BUILD_TIMEOUT_S = 1500.0


@dataclass(frozen=True)
class Built:
    """The names of the images, what they were built with, and the seconds that each one took."""

    cpu: str
    simulator: str
    gpu: str
    base: str
    seconds: Mapping[str, float]


def build_images(host: str) -> Built:
    """All targets, the largest first; what has not changed comes from the engine's cache."""
    started = time.monotonic()
    base = base_image(host)
    seconds = {"base": time.monotonic() - started}
    with build_arguments() as pip:
        arguments = {"CPU_BASE": base, **pip}
        seconds[CPU] = _build(host, CPU, arguments, "--target", "cpu", str(ROOT))
        seconds[SIMULATOR] = _build(host, SIMULATOR, arguments, "--target", "simulator", str(ROOT))
        # Made of what does not change with our code: then it and what stands on it come from the
        # cache, too.
        packages = ("--target", "cpu-packages", str(ROOT))
        seconds[PACKAGES] = _build(host, PACKAGES, arguments, *packages)
        stand_in = str(ROOT / "tests/docker/stand_in")
        seconds[STAND_IN] = _build(host, STAND_IN, {"PACKAGES": PACKAGES}, stand_in)
        gpu = {**arguments, "BASE_IMAGE": STAND_IN}
        seconds[GPU] = _build(host, GPU, gpu, str(ROOT))
    return Built(CPU, SIMULATOR, GPU, base, seconds)


def _build(host: str, name: str, arguments: Mapping[str, str], *rest: str) -> float:
    """docker build -t NAME ...: seconds. On the host's network, where the package index is."""
    command = ["docker", "--host", host, "build", "--network", "host", "--tag", name]
    for key, value in arguments.items():
        command += ["--build-arg", f"{key}={value}"]
    started = time.monotonic()
    done = subprocess.run(
        [*command, *rest],
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BUILD_TIMEOUT_S,
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-4000:]}"
    return time.monotonic() - started


def main() -> int:
    """Build all images, saying how long each took."""
    try:
        with running_engine() as host:
            for name, seconds in build_images(host).seconds.items():
                print(f"{seconds:6.1f} s  {name}")
    except NoEngine as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
