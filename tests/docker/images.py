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
from pathlib import Path

from tests.docker.base_image import ROOT, base_image
from tests.docker.engine import NoEngine, running_engine
from tests.docker.pip_settings import build_arguments
from tests.docker.python_image import python_image

CPU = "merlin-sagemaker-test:cpu"
SIMULATOR = "merlin-sagemaker-test:simulator"
GPU = "merlin-sagemaker-test:gpu"
PACKAGES = "merlin-sagemaker-test-base:packages"
MERLIN = "merlin-sagemaker-test-base:merlin"
TRITON = "merlin-sagemaker-test-base:triton"
PLAIN = "merlin-sagemaker-test:plain"
OTHER = "merlin-sagemaker-test:other"
#: Stand-ins for NVIDIA's images: see each for what it has and lacks.
STAND_INS = ROOT / "tests/docker/stand_in"
#: 2 min on two cores; with a slow package index longer.
BUILD_TIMEOUT_S = 1500.0


@dataclass(frozen=True)
class Built:
    """The names of the images, what they stand on, and the seconds that each one took.

    gpu stands on Merlin's stand-in, plain on Triton's.
    """

    cpu: str
    simulator: str
    gpu: str
    plain: str
    base: str
    merlin: str
    triton: str
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
        parts = {"PACKAGES": PACKAGES, "BASE": base, **pip}
        merlin = {**parts, "PYTHON": python_image(host, "3.10")}
        seconds[MERLIN] = _stand_in(host, MERLIN, merlin, STAND_INS)
        seconds[GPU] = _build(host, GPU, {**arguments, "BASE_IMAGE": MERLIN}, str(ROOT))
        triton = {**parts, "PYTHON": python_image(host, "3.12")}
        seconds[TRITON] = _stand_in(host, TRITON, triton, ROOT)
        seconds[PLAIN] = _build(host, PLAIN, {**arguments, "BASE_IMAGE": TRITON}, str(ROOT))
    return Built(CPU, SIMULATOR, GPU, PLAIN, base, MERLIN, TRITON, seconds)


def _stand_in(host: str, name: str, arguments: Mapping[str, str], context: Path) -> float:
    file = STAND_INS / f"{name.rpartition(':')[2]}.Dockerfile"
    return _build(host, name, arguments, "--file", str(file), str(context))


def build_on(host: str, base: str) -> subprocess.CompletedProcess[str]:
    """The gpu target on another base, which may not fit; what stands above it is in the cache."""
    with build_arguments() as pip:
        arguments = {"CPU_BASE": base_image(host), **pip, "BASE_IMAGE": base}
        return _run(host, OTHER, arguments, str(ROOT))


def _build(host: str, name: str, arguments: Mapping[str, str], *rest: str) -> float:
    """docker build -t NAME ...: seconds."""
    started = time.monotonic()
    done = _run(host, name, arguments, *rest)
    assert done.returncode == 0, f"{name} cannot be built:\n{done.stdout[-4000:]}"
    return time.monotonic() - started


def _run(
    host: str, name: str, arguments: Mapping[str, str], *rest: str
) -> subprocess.CompletedProcess[str]:
    """On the host's network, where the package index is."""
    command = ["docker", "--host", host, "build", "--network", "host", "--tag", name]
    for key, value in arguments.items():
        command += ["--build-arg", f"{key}={value}"]
    return subprocess.run(
        [*command, *rest],
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BUILD_TIMEOUT_S,
    )


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
