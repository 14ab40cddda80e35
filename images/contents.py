"""Which image stands on what, and has which environments, each of which locks.

The Dockerfile does it; tests/docker/test_contents.py holds the one against the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Of requirements/: pip and what it builds with stay beside the models' packages.
_MODELS, _SERVER = ("build", "models", "stages"), ("server",)
TRITON = "nvcr.io/nvidia/tritonserver"


@dataclass(frozen=True)
class Environment:
    """A virtual environment. folder: its place in the image; locks: names in requirements/."""

    folder: str
    locks: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """One that the Dockerfile makes. base: the image that it stands on; python: that one's."""

    name: str
    base: str
    python: str
    environments: tuple[Environment, ...]


def images(dockerfile: Path) -> Iterator[Image]:
    """All that the Dockerfile makes, on the bases that it names, and on Triton's own."""
    cpu, merlin = (_argument(dockerfile, name) for name in ("CPU_BASE", "BASE_IMAGE"))
    yield cpu_image(cpu, torch="torch")
    # Where pip finds no CPU build of torch.
    yield cpu_image(cpu, torch="torch-cuda")
    yield gpu_image(merlin, "3.10")
    yield gpu_image(TRITON, "3.12")
    yield simulator_image(cpu)


def cpu_image(base: str, torch: str) -> Image:
    """The cpu target's. torch: the lock of it that was taken."""
    models = Environment("/opt/serve/.venv-merlin", (*_MODELS, torch))
    server = Environment("/opt/serve/.venv", (*_SERVER, "triton"))
    return Image("cpu" if torch == "torch" else f"cpu-{torch}", base, "3.11", (server, models))


def gpu_image(base: str, python: str) -> Image:
    """The gpu target's, on a base with that Python."""
    server = Environment("/opt/serve/.venv", _SERVER)
    return Image(f"gpu-python{python}", base, python, (server,))


def simulator_image(base: str) -> Image:
    """The simulator target's."""
    return Image("simulator", base, "3.11", (Environment("/opt/simulator/.venv", ("simulator",)),))


def _argument(dockerfile: Path, name: str) -> str:
    found = re.search(rf"^ARG {name}=(\S+)$", dockerfile.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{dockerfile}: found no line ARG {name}=IMAGE, expected one")
    return found[1]
