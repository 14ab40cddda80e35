"""Finds python stubs, and ends those that tritonserver keeps for nobody.

And of what they have started, which would live on: it becomes the container's own child when its
parent ends. Told by parents' ids, so it is looked for while the stub lives. Not found is whoever's
parent had ended before the look: one that was started by a double fork, or whose stub was dead, as
that of a model that raised while it was loaded.

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
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from serve.deadline import Deadline
from serve.resources.processes import (
    FORKED,
    PROC,
    STUB,
    find_children,
    find_family,
    list_ids,
    list_processes,
    name_model,
    read_command,
    read_process,
)
from serve.threads import run_in_daemon_thread

_LOOK_S = 0.02

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stub:
    """A python stub: another one than that which is started in its place when it dies.

    Its command names its region of shared memory, and so no other process.
    """

    pid: int
    triton_name: str
    command: str

    @property
    def runs_python_file(self) -> bool:
        """Whether it runs a model.py.

        That of a stand-in backend is given the model's own file; where the config names none, a
        model.py that is not there.
        """
        file = self.command.split("\0")[1]
        return file.endswith(".py") and os.path.exists(file)


@dataclass(frozen=True)
class Descendant:
    """A process that a stub has started, or that one of those has.

    started: in clock ticks since the machine's start; ids are used again.
    """

    pid: int
    started: int


@dataclass(frozen=True)
class Patience:
    """How long processes are waited for that are to end, in seconds."""

    #: Stubs of unloaded models, by themselves. Those of a model that was loaded again end beside
    #: those of the newer one; up to 0.3 s after them was seen.
    ending_s: float = 3.0
    killed_s: float = 5.0
    #: What a stub had started, by itself after it. Some clear up when they see that they are alone,
    #: as the tracker of multiprocessing does with shared memory.
    alone_s: float = 1.0


PATIENCE = Patience()


def find_stubs(
    serving_repository: Path, triton_names: Collection[str], proc: str = PROC
) -> frozenset[Stub]:
    """The stubs of these models that run. Blocking, some ms.

    A stub's first argument is the path of its model.py; a process that has ended has none. Raises
    OSError where processes cannot be looked at.
    """
    stubs = set()
    for pid in list_ids(proc):
        command = read_command(pid, proc)
        program, model_file, *_ = (*command.split("\0"), "")
        name = name_model(model_file, serving_repository)
        if program.endswith(STUB) and name in triton_names:
            stubs.add(Stub(pid, name, command))
    return frozenset(stubs)


def find_forked(
    serving_repository: Path, triton_names: Collection[str], proc: str = PROC
) -> frozenset[Descendant]:
    """Processes that run these models for their stubs, and are no stub's children. As find_stubs.

    They were forked from a warm interpreter, end when their stub does, and write over their command
    whose they are (FORKED, and the folder of the model's version).
    """
    forked = set()
    for pid in list_ids(proc):
        program, folder, *_ = (*read_command(pid, proc).split("\0"), "")
        if program == FORKED and name_model(folder, serving_repository) in triton_names:
            process = read_process(pid, proc)
            if process is not None:
                forked.add(Descendant(pid, process.started))
    return frozenset(forked)


def find_descendants(of: Collection[Stub | Descendant], proc: str = PROC) -> frozenset[Descendant]:
    """Processes that these have started, directly or not, in one look. Blocking, some ms.

    Also what has ended and was not waited for, which keeps its id.
    """
    if not of:
        return frozenset()
    children = find_children(proc)
    # Looked at once more, after all: so the ids that parents were told by were theirs.
    parents = [it.pid for it in of if _is_it(it, proc)]
    first = [child for pid in parents for child in children.get(pid, ())]
    families = (find_family(child, children) for child in first)
    return frozenset(Descendant(it.pid, it.started) for family in families for it in family)


def find_dead_children(proc: str = PROC) -> frozenset[Descendant]:
    """Our own children that have ended and that nobody has asked for. Blocking, some ms."""
    us = os.getpid()
    processes = list_processes(proc)
    dead = (it for it in processes if it.parent == us and it.state == "Z")
    return frozenset(Descendant(it.pid, it.started) for it in dead)


async def end_stubs(ending: Collection[Stub | Descendant], patience: Patience = PATIENCE) -> None:
    """Return when these have ended. Those that do not do so by themselves are killed, and logged.

    For stubs of models that tritonserver was asked to unload and whose requests nobody waits for,
    and for what they have started, which ends after them.
    """
    descendants = frozenset(it for it in ending if isinstance(it, Descendant))
    forked = {it.pid for it in descendants}  # with the very command of their stub
    stubs = [it for it in ending if isinstance(it, Stub) and it.pid not in forked]
    if left := await _wait_for_end(stubs, patience.ending_s):
        names = ", ".join(sorted({stub.triton_name for stub in left}))
        _log.warning(
            "tritonserver keeps python stubs that serve nobody; ending those of: %s", names
        )
        try:
            descendants |= find_descendants(left)
        except OSError as error:  # no descriptor
            _log.warning("what python stubs have started cannot be looked for: %s", error)
        kill_stubs(left)
        if immortal := await _wait_for_end(left, patience.killed_s):
            _log.error("stubs do not end: %s", sorted(stub.pid for stub in immortal))
    if descendants:
        try:
            await run_in_daemon_thread(lambda: _end_descendants(descendants, patience), "stubs")
        except RuntimeError:  # no thread is to be had: these may have them all
            _kill_descendants(descendants)


def kill_stubs(stubs: Collection[Stub]) -> None:
    """At once, and without looking whether they are gone."""
    for stub in stubs:
        with contextlib.suppress(OSError):
            os.kill(stub.pid, signal.SIGKILL)


async def _wait_for_end(stubs: Collection[Stub], timeout_s: float) -> list[Stub]:
    """Those that still run when none does, or after timeout_s."""
    deadline = Deadline(timeout_s)
    while left := [it for it in stubs if _runs(it)]:
        if not deadline.remaining:
            break
        await asyncio.sleep(_LOOK_S)
    return left


def _end_descendants(descendants: frozenset[Descendant], patience: Patience) -> None:
    """Return when these have ended, and what they start meanwhile. Blocking, bounded."""
    alone_until, killing = time.monotonic() + patience.alone_s, False
    while left := [it for it in descendants if _runs(it)]:
        if (late_s := time.monotonic() - alone_until) > patience.killed_s:
            _log.error("processes of stubs do not end: %s", sorted(it.pid for it in left))
            break
        if late_s > 0:
            if not killing:
                _log.info("ending processes that stubs had started: %d", len(left))
            killing = True
            descendants |= find_descendants(left)
            _kill_descendants(descendants)
        time.sleep(_LOOK_S)
    for it in descendants:  # our children by now (container.tritonserver.process): ours to bury
        if _is_it(it):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(it.pid, os.WNOHANG)


def _kill_descendants(descendants: Collection[Descendant]) -> None:
    """At once: those that still run."""
    for it in descendants:
        if _runs(it):
            with contextlib.suppress(OSError):
                os.kill(it.pid, signal.SIGKILL)


def has_threads(stub: Stub) -> bool:
    """Whether it has begun the thread that tritonserver waits for first, without a limit.

    A load whose stub is killed before that never ends, nor does the thread that carries it out
    (seen on 2.36 and 2.51); 5 ms after that it ends.
    """
    process = read_process(stub.pid)
    return process is not None and process.threads > 1


def _runs(it: Stub | Descendant) -> bool:
    """Whether it is this one and still holds what it held.

    A process that ends loses its words first, then gives back its memory, then is a zombie or gone.
    Its first thread is a zombie before that while others have not ended.
    """
    try:
        if isinstance(it, Stub) and (read_command(it.pid) or it.command) != it.command:
            return False
        process = read_process(it.pid)
    except OSError:  # no descriptor: as far as is known
        return True
    if process is None or (isinstance(it, Descendant) and process.started != it.started):
        return False
    return process.state not in "ZX" or process.threads > 1


def _is_it(it: Stub | Descendant, proc: str = PROC) -> bool:
    """Whether the process with its id is this one; not told of a stub that is ending."""
    if isinstance(it, Stub):
        return read_command(it.pid, proc) == it.command
    process = read_process(it.pid, proc)
    return process is not None and process.started == it.started
