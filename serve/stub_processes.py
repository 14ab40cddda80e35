"""Which python stubs run, and the end of those that tritonserver keeps for nobody.

Read from the kernel, since tritonserver does not tell. Each instance of a python model is a
process. When one dies, tritonserver says so to whoever asks the model; when that is another model,
only that one's own words reach the caller, and callers can make models repeat what they like. So
such words are believed only when a stub is really missing.

A model that tritonserver never releases keeps its stubs, each with the memory of a whole model,
until tritonserver ends. Killed, they give it back; tritonserver sends them nothing any more, and
goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

_PROCESSES = Path("/proc")
_STUB = "triton_python_backend_stub"
#: How long stubs of unloaded models may take to end by themselves. Those of a model that was loaded
#: again end beside those of the newer one; up to 0.3 s after them was seen.
_ENDING_S = 3.0
#: How long one may take to be gone once it is killed.
_KILLED_S = 5.0
_LOOK_S = 0.02

_log = logging.getLogger(__name__)

#: Triton name -> how many stubs of it run; none for names that are not in it.
StubCounts = Mapping[str, int]


@dataclass(frozen=True)
class Stub:
    """A python stub. Its command names its region of shared memory, and so no other process."""

    pid: int
    triton_name: str
    command: str


def find_stubs(
    serving_repository: Path, triton_names: Collection[str], processes: Path = _PROCESSES
) -> frozenset[Stub]:
    """The stubs of these models that run. Blocking, some ms.

    A stub's first argument is the path of its model.py; a process that has ended has none.
    """
    found = set()
    for entry in processes.glob("[0-9]*"):
        command = _command(entry)
        program, model_file, *_ = (*command.split("\0"), "")
        name = _model_of(Path(model_file), serving_repository)
        if program.endswith(_STUB) and name in triton_names:
            found.add(Stub(int(entry.name), name, command))
    return frozenset(found)


def count(stubs: Collection[Stub]) -> StubCounts:
    """How many of these each model has."""
    return Counter(stub.triton_name for stub in stubs)


def missing(expected: StubCounts, found: StubCounts) -> frozenset[str]:
    """The models of which fewer stubs run than there should."""
    return frozenset(name for name, count in expected.items() if found.get(name, 0) < count)


async def end_stubs(stubs: Collection[Stub]) -> None:
    """Return when these have ended. Those that do not do so by themselves are killed, and logged.

    For stubs of models that tritonserver was asked to unload and whose requests nobody waits for.
    """
    if left := await _left(stubs, _ENDING_S):
        names = ", ".join(sorted({stub.triton_name for stub in left}))
        _log.warning(
            "tritonserver keeps python stubs that serve nobody; ending those of: %s", names
        )
        kill_stubs(left)
        if immortal := await _left(left, _KILLED_S):
            _log.error("stubs do not end: %s", sorted(stub.pid for stub in immortal))


def kill_stubs(stubs: Collection[Stub]) -> None:
    """At once, and without looking whether they are gone."""
    for stub in stubs:
        with contextlib.suppress(OSError):
            os.kill(stub.pid, signal.SIGKILL)


async def _left(stubs: Collection[Stub], timeout_s: float) -> list[Stub]:
    """Those that still run when none does, or after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while left := [it for it in stubs if _runs(it, _PROCESSES / str(it.pid))]:
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(_LOOK_S)
    return left


def has_threads(stub: Stub, processes: Path = _PROCESSES) -> bool:
    """Whether it has begun the thread that tritonserver waits for first, without a limit.

    A load whose stub is killed before that never ends, nor does the thread that carries it out
    (seen on 2.36 and 2.51); 5 ms after that it ends.
    """
    try:
        fields = (processes / str(stub.pid) / "stat").read_text(errors="replace")
    except OSError:
        return False
    return int(fields.rpartition(") ")[2].split()[17]) > 1  # proc_pid_stat(5)


def _runs(stub: Stub, process: Path) -> bool:
    """Whether it is this stub and still holds what it held.

    A process that ends loses its words first, then gives back its memory, then is a zombie or gone.
    Its first thread is a zombie before that while others have not ended.
    """
    if (_command(process) or stub.command) != stub.command:
        return False
    try:
        fields = (process / "stat").read_text(errors="replace").rpartition(") ")[2].split()
    except OSError:
        return False
    state, threads = fields[0], int(fields[17])  # proc_pid_stat(5)
    return state not in "ZX" or threads > 1


def _command(process: Path) -> str:
    """Its words, each with a null after it; empty when it ends or has ended."""
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _model_of(model_file: Path, serving_repository: Path) -> str:
    if not model_file.is_relative_to(serving_repository):
        return ""
    return next(iter(model_file.relative_to(serving_repository).parts), "")
