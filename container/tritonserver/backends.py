"""Which folders of a tritonserver's backends are backends, by the files that it looks for itself.

A backend is backends/<name>/libtriton_<name>.so, or else model.py there, which the Python backend
runs from 2.39 on (triton-inference-server/core, src/backend_model.cc). A folder with neither is
none: Merlin's image for ARM64 has backends/fil with a LICENSE alone, and its backends/hps may be a
link to nowhere (NVIDIA-Merlin/Merlin v23.12.00, docker/dockerfile.merlin).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PROGRAM = "model.py"


def is_backend(folder: Path, *, python_based: bool) -> bool:
    """Whether tritonserver finds one there. python_based: whether it runs model.py of a backend."""
    if (folder / f"libtriton_{folder.name}.so").is_file():
        return True
    return python_based and (folder / _PROGRAM).is_file()


def list_backends(directory: Path, *, python_based: bool) -> Iterator[str]:
    """The names of all that there are in the directory, sorted; none where there is no such one."""
    for folder in sorted(directory.iterdir()) if directory.is_dir() else ():
        if is_backend(folder, python_based=python_based):
            yield folder.name
