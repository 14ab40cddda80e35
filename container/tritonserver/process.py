"""Starts tritonserver, watches it, starts it again, stops it.

`run` is one loop over the lives of the child: start, wait until live, watch, clear away. It alone
starts and ends processes; `stop` only asks it to.

What a killed tritonserver leaves behind is cleared before the next life: its stubs (they are in
its process group, which is its own session's) and its regions in /dev/shm (by their prefix); its
sockets' files go when the next one starts. Stubs
that lost their parent become our children (PR_SET_CHILD_SUBREAPER; in the image we are process 1
anyway), so they are reaped here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from container.errors import (
    TritonArgumentsRefused,
    TritonCrashLoop,
    TritonNotLive,
    describe_status,
)
from container.machine.children import die_with_parent
from container.machine.descriptors import limit_descriptors
from container.tritonserver.command import TritonCommand
from container.tritonserver.hidden_arguments import hide_arguments
from container.tritonserver.output import TritonOutput
from serve.deadline import Deadline, within
from serve.threads import run_in_daemon_thread

T = TypeVar("T")
_Child: TypeAlias = "subprocess.Popen[bytes]"
log = logging.getLogger(__name__)

PROBE_INTERVAL_S = 0.05  # between two questions whether it lives; a start takes about 0.3 s
PROBE_TIMEOUT_S = 2.0  # for one of them
POLL_INTERVAL_S = 0.1  # between two looks at whether it runs, where no thread can wait for it
START_AGAIN_S = 1.0  # from a start that the system denied to the next try
GROUP_EXIT_TIMEOUT_S = 5.0  # for killed processes to be gone; longer only in uninterruptible sleep
GROUP_CHECK_INTERVAL_S = 0.01
SHARED_MEMORY = Path("/dev/shm")
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class _End(Enum):
    """Why waiting for something ended."""

    DONE = auto()
    DIED = auto()
    STOP = auto()
    TIMEOUT = auto()


async def _wait_for(child: _Child) -> int:
    """Its exit status, negative for a signal."""
    try:
        return await run_in_daemon_thread(child.wait, "tritonserver")
    except RuntimeError:  # there is no thread to be had
        while (status := child.poll()) is None:  # noqa: ASYNC110 (it has no event)
            await asyncio.sleep(POLL_INTERVAL_S)
        return status


def _unexplained() -> int:
    return 0


class TritonProcess:
    """A supervised tritonserver.

    `is_live` is asked until it says yes; what it raises counts as no. `on_restarted` is awaited
    after each start but the first, once it is live; it is cancelled when tritonserver dies under
    it, and what it raises ends `run`. `judge_death` is asked at each death before anything is
    started again, and says how many deaths, this one included, are explained: those are not counted
    towards the limit; 0 for a death that nobody can explain. descriptors: its limits of them,
    soft and hard; ours if None. output: what it prints to; what we print to if None. Construct it
    anywhere; `run` only once.
    """

    def __init__(
        self,
        command: TritonCommand,
        *,
        is_live: Callable[[], Awaitable[bool]],
        on_restarted: Callable[[], Awaitable[None]],
        restart_limit: int,
        restart_window_s: float,
        start_timeout_s: float,
        stop_timeout_s: float,
        judge_death: Callable[[], int] = _unexplained,
        descriptors: tuple[int, int] | None = None,
        output: TritonOutput | None = None,
    ) -> None:
        self._command, self._descriptors = command, descriptors
        self._output = output
        self._judge_death = judge_death
        self._is_live = is_live
        self._on_restarted = on_restarted
        self._restart_limit = restart_limit
        self._restart_window_s = restart_window_s
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._deaths: deque[float] = deque()
        self._stop_asked = asyncio.Event()
        self._live = asyncio.Event()
        self._finished = asyncio.Event()
        self._running = False
        self._child: _Child | None = None
        self._replaced: asyncio.Event | None = None
        self._explained = 0

    @property
    def pid(self) -> int | None:
        """tritonserver's process id; None while there is no such process."""
        return self._child.pid if self._child else None

    async def wait_live(self) -> None:
        """Returns once tritonserver is live; for ever blocked if it never is, so race it with run.

        After a restart it is live before `on_restarted` has run.
        """
        await self._live.wait()

    async def run(self) -> None:
        """Keeps tritonserver running until `stop`, then returns; nothing of it is left then.

        Raises TritonArgumentsRefused, TritonCrashLoop, TritonNotLive, OSError when it cannot be
        started at all, and what `on_restarted` raised.
        """
        self._running = True
        _adopt_orphans()
        try:
            first = True
            while not self._stop_asked.is_set():
                await self._live_once(first)
                first = False
        finally:
            self._finished.set()

    async def stop(self) -> None:
        """Asks tritonserver to end, kills it after `stop_timeout_s`; returns when all is cleared.

        Safe at any time and any number of times. `run` then returns, or never starts anything.
        """
        self._stop_asked.set()
        if self._running:
            await self._finished.wait()

    async def replace(self, timeout_s: float) -> None:
        """Kill tritonserver, which is then started again as after a death, and not counted.

        Returns when nothing of it is left, at once when there is none, after timeout_s in any case.
        """
        if self._child is None:
            return
        if self._replaced is None:
            self._replaced = asyncio.Event()
            log.error("tritonserver is killed, to be replaced", extra={"pid": self._child.pid})
            self._child.kill()
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._replaced.wait(), timeout_s)

    async def _live_once(self, first: bool) -> None:
        """A life, from start to nothing left. Raises when there is to be no next one."""
        child = await self._start_when_possible(first)
        if child is None:
            return
        exited = asyncio.ensure_future(_wait_for(child))
        try:
            end = await self._wait_until_live(exited)
            if end is _End.DONE:
                end = await self._while_live(exited, first)
            if end is _End.STOP:
                await self._end_orderly(child, exited)
        finally:
            self._live.clear()
            self._child = None
            await asyncio.shield(_clear_away(child.pid, exited, self._command.shm_prefix))
            if self._output is not None:  # its last words stand above ours about its end
                self._output.drain()
            self._tell_replaced()
        if end is _End.TIMEOUT:
            raise TritonNotLive(self._start_timeout_s)
        if end is _End.DIED:
            if self._output is not None and self._output.refusal:
                raise TritonArgumentsRefused(self._output.refusal)
            self._count_death(exited.result(), self._explained)

    def _tell_replaced(self) -> None:
        if self._replaced is not None:
            self._replaced.set()
            self._replaced = None

    async def _start_when_possible(self, first: bool) -> _Child | None:
        """A new child, as soon as the system lets one be started; None when it is to stop before.

        The first one is started at once or not at all.
        """
        while True:
            try:
                return self._start()
            except OSError as error:  # no process, no descriptor or no memory, for a while
                if first:
                    raise
                log.warning("tritonserver cannot be started yet", extra={"reason": str(error)})
            with contextlib.suppress(asyncio.TimeoutError):
                await within(self._stop_asked.wait(), START_AGAIN_S)
                return None

    def _start(self) -> _Child:
        """Start it with the standard library, in a session of its own.

        Not by asyncio: uvloop's fork runs Python in the child before the program, and a lock or a
        set that another thread was changing (gRPC has threads) makes that child spin for ever
        (seen). From this thread, which lives as long as we do; its stubs end with tritonserver.
        """
        argv = (*die_with_parent(), *self._command.argv)
        for left in self._command.socket_files:
            left.unlink(missing_ok=True)
        printing_to = self._output.descriptor if self._output else None
        if self._output is not None:
            self._output.begin_start(has_added=self._command.has_added)
        self._child = subprocess.Popen(
            argv,
            env=dict(self._command.env),
            stdin=subprocess.DEVNULL,
            stdout=printing_to,
            stderr=printing_to,
            start_new_session=True,
        )
        limit_descriptors(self._child.pid, self._descriptors)
        log.info("tritonserver started", extra={"pid": self._child.pid})
        return self._child

    async def _wait_until_live(self, exited: asyncio.Future[int]) -> _End:
        end = await self._during(self._probe(), exited, self._start_timeout_s)
        if end is _End.DONE:
            self._hide_secrets()
            self._live.set()
            if self._output is not None:
                self._output.end_start()
            log.info("tritonserver is live")
        return end

    def _hide_secrets(self) -> None:
        """Take off its command line what models are not to read there: it has been read."""
        secrets = self._command.secrets
        if secrets and self._child and not hide_arguments(self._child.pid, secrets):
            log.warning("what opens tritonserver's APIs stays readable on its command line")

    async def _while_live(self, exited: asyncio.Future[int], first: bool) -> _End:
        if not first:
            end = await self._during(_awaited(self._on_restarted()), exited)
            if end is not _End.DONE:
                return end
        return await self._during(asyncio.Event().wait(), exited)

    async def _probe(self) -> None:
        while True:
            if await self._is_answered():
                return
            await asyncio.sleep(PROBE_INTERVAL_S)

    async def _is_answered(self) -> bool:
        try:
            return await within(self._is_live(), PROBE_TIMEOUT_S)
        except Exception as error:  # refused, reset, timed out: whatever the client's library says
            log.debug("tritonserver does not answer yet", extra={"reason": repr(error)})
            return False

    async def _during(
        self,
        work: Coroutine[Any, Any, Any],
        exited: asyncio.Future[int],
        limit_s: float | None = None,
    ) -> _End:
        """Does the work as long as tritonserver runs and is to run; raises what the work raised."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop_asked.wait())
        try:
            await asyncio.wait(
                {task, stop, exited}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            if self._stop_asked.is_set():
                return _End.STOP
            if exited.done():  # judged before what is cancelled leaves the scene
                self._explained = 1 if self._replaced else self._judge_death()
                return _End.DIED
            if task.done():
                task.result()
                return _End.DONE
            return _End.TIMEOUT
        finally:
            await _cancel(task)
            await _cancel(stop)

    async def _end_orderly(self, child: _Child, exited: asyncio.Future[int]) -> None:
        if exited.done():
            return
        log.info("tritonserver is asked to stop")
        child.terminate()
        done, _ = await asyncio.wait({exited}, timeout=self._stop_timeout_s)
        if not done:
            log.warning("tritonserver is killed", extra={"waited_s": self._stop_timeout_s})

    def _count_death(self, status: int, explained: int) -> None:
        for _ in range(min(explained - 1, len(self._deaths))):
            self._deaths.pop()  # the same culprit's
        now = time.monotonic()
        if not explained:
            self._deaths.append(now)
        self._check_deaths(now, status)

    def _check_deaths(self, now: float, status: int) -> None:
        while self._deaths and now - self._deaths[0] > self._restart_window_s:
            self._deaths.popleft()
        if len(self._deaths) > self._restart_limit:
            raise TritonCrashLoop(status, len(self._deaths), self._restart_window_s)
        log.error(
            "tritonserver died and is started again",
            extra={"status": describe_status(status), "deaths": len(self._deaths)},
        )


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancels and waits for the end; what a cancelled task raised on its way out is logged."""
    while not task.done():  # a library below may lose a cancellation, as asyncio.wait_for does
        task.cancel()
        await asyncio.wait({task}, timeout=PROBE_INTERVAL_S)
    if not task.cancelled() and task.exception():
        log.debug("interrupted work failed", extra={"reason": repr(task.exception())})


async def _clear_away(group: int, exited: asyncio.Future[int], shm_prefix: str) -> None:
    """Ends whatever is left of a life, and removes its shared memory. Bounded."""
    deadline = Deadline(GROUP_EXIT_TIMEOUT_S)
    while _kill_group(group) and deadline.remaining:
        await asyncio.sleep(GROUP_CHECK_INTERVAL_S)
        if exited.done():
            _reap(group)
    await asyncio.wait({exited}, timeout=deadline.remaining)
    _reap(group)
    remove_shared_memory(shm_prefix)


def remove_shared_memory(prefix: str, directory: Path = SHARED_MEMORY) -> None:
    """Removes the regions whose names begin so; processes that map one keep what they map."""
    for path in directory.glob(f"{prefix}*"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _kill_group(group: int) -> bool:
    """Whether there was anyone to kill."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(group: int) -> None:
    """Buries members that became our children; tritonserver itself is asyncio's to bury."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


def _adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
