"""The container's settings that a program heeds which runs models beside a container."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Collection, Mapping

from container.machine.hardware import look_at_hardware
from container.settings.reading import Settings, read_settings

#: Those that say how models are run; ports and the like are our own.
HEEDED = (
    "SERVE_TRITON_SERVER",
    "SERVE_BACKEND_PYTHON",
    "SERVE_LOAD_TIMEOUT",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE",
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE",
    "SAGEMAKER_TRITON_TENSORFLOW_VERSION",
)


def make_settings(
    environment: Mapping[str, str], names: Collection[str], python: str | None
) -> Settings:
    """The settings of those names, and python as the models' Python; raises ContainerError."""
    heeded = {name: environment[name] for name in names if name in environment}
    if python is not None:
        heeded["SERVE_BACKEND_PYTHON"] = python
    return read_settings(heeded, look_at_hardware())


def add_python(parser: argparse.ArgumentParser) -> None:
    """The option --python; options.python has it, or None."""
    parser.add_argument(
        "--python",
        type=_find_python,
        metavar="INTERPRETER",
        help="the models' Python, as SERVE_BACKEND_PYTHON (default: the container's default)",
    )


def _find_python(text: str) -> str:
    program = shutil.which(text)
    if program is None:
        raise argparse.ArgumentTypeError(
            f"{text!r}: there is no such program; expected a Python, such as "
            ".venv-frameworks/bin/python"
        )
    return os.path.abspath(program)
