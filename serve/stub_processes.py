"""Which python stubs run. Read from the kernel, since tritonserver does not tell.

Each instance of a python model is a process. When one dies, tritonserver says so to whoever asks
the model; when that is another model, only that one's own words reach the caller, and callers can
make models repeat what they like. So such words are believed only when a stub is really missing.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

_PROCESSES = Path("/proc")
_STUB = "triton_python_backend_stub"

#: Triton name -> how many stubs of it run; none for names that are not in it.
StubCounts = Mapping[str, int]


def running_stubs(
    serving_repository: Path, triton_names: Collection[str], processes: Path = _PROCESSES
) -> StubCounts:
    """Count the stubs of these models. Blocking, some ms.

    A stub's first argument is the path of its model.py; a process that has ended has none.
    """
    counts: Counter[str] = Counter()
    for entry in processes.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program, model_file, *_ = (
                *(entry / "cmdline").read_text(errors="replace").split("\0"),
                "",
            )
            name = _model_of(Path(model_file), serving_repository)
            if program.endswith(_STUB) and name in triton_names:
                counts[name] += 1
    return counts


def missing(expected: StubCounts, found: StubCounts) -> frozenset[str]:
    """The models of which fewer stubs run than there should."""
    return frozenset(name for name, count in expected.items() if found.get(name, 0) < count)


def _model_of(model_file: Path, serving_repository: Path) -> str:
    if not model_file.is_relative_to(serving_repository):
        return ""
    return next(iter(model_file.relative_to(serving_repository).parts), "")
