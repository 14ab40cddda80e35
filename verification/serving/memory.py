"""Measures the memory of some Triton models' Python processes. Read from the kernel.

bench/proc.py reads the same, and is not in the server's image, where this runs too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = Path("/proc")
_STUB = "triton_python_backend_stub"
#: How the command of a process begins that the container forked for a stub (serve.resources).
_FORKED = "merlin-model"
_KIB = 1024


@dataclass(frozen=True)
class Memory:
    """The memory of some processes, in bytes."""

    processes: int
    #: All that they hold (RSS).
    resident: int
    #: The same with shared pages divided among those that share them (PSS); None where the kernel
    #: does not say.
    proportional: int | None


def measure(serving: Path, triton_names: Collection[str], processes: Path = _PROCESSES) -> Memory:
    """The memory of these models' stubs, and of what runs a model for its stub.

    Models of other backends are in tritonserver's own process.
    """
    stubs = list(_find_stubs(serving, triton_names, processes))
    shares = [_read_bytes(entry / "smaps_rollup", "Pss:") for entry in stubs]
    known = [share for share in shares if share is not None]
    return Memory(
        len(stubs),
        sum(_read_bytes(entry / "status", "VmRSS:") or 0 for entry in stubs),
        sum(known) if len(known) == len(stubs) else None,
    )


def _find_stubs(serving: Path, names: Collection[str], processes: Path) -> Iterator[Path]:
    """Their first argument is a path of the model's in the serving repository."""
    for entry in processes.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = [*(entry / "cmdline").read_text(errors="replace").split("\0"), ""]
            if (
                arguments[0].endswith((_STUB, _FORKED))
                and _name_model(Path(arguments[1]), serving) in names
            ):
                yield entry


def _name_model(file: Path, serving: Path) -> str:
    if not file.is_relative_to(serving):
        return ""
    return next(iter(file.relative_to(serving).parts), "")


def _read_bytes(path: Path, field: str) -> int | None:
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * _KIB
    return None
