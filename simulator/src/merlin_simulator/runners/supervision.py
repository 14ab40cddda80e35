"""What keeps a container going: health checks, restarts, and an end to what an earlier run left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil

from merlin_simulator.errors import ContainerFailed, PlatformFailed, SimulatorError
from merlin_simulator.instance.container_client import InstanceGone
from merlin_simulator.instance.instance import Instance
from merlin_simulator.instance.memory import MemoryGauge, NoGauge
from merlin_simulator.rules import Rules
from merlin_simulator.watch.state import InstanceState


def record_pid(folder: Path, pid: int) -> None:
    """Record a container that was started; pid: of it and of its process group."""
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        began = psutil.Process(pid).create_time()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(pid)).write_text(repr(began))


def kill_leftovers(folder: Path) -> int:
    """SIGKILL to each recorded process that still runs; how many. The records stay."""
    ended = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        # A pid may be another program's by now, which began at another time.
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, ValueError, OSError):
            pid = int(path.name)
            if psutil.Process(pid).create_time() == float(path.read_text()):
                os.killpg(pid, signal.SIGKILL)
                ended += 1
    return ended


#: Between two looks at a container in service after one that failed.
_AGAIN_S = 1.0
#: Between two looks at a container that does not serve yet, or no more.
_LOOK_S = 0.2


async def keep_watch(instance: Instance, rules: Rules, multi_model: bool) -> None:
    """Poll until the start-up window is over without success; else until cancelled."""
    start, failures = time.monotonic(), 0
    while not instance.stopped:
        instance.look.clear()
        trouble = await _trouble(instance, multi_model)
        if trouble is None:
            failures = 0
            instance.serve(time.monotonic() - start)
        elif instance.state is InstanceState.IN_SERVICE:
            failures += 1
            if failures >= rules.unhealthy_after:
                start = time.monotonic()
                instance.suspect(trouble)
        elif not instance.stopped and _late(start, rules):
            instance.fail(f"not healthy within {rules.startup_s:g} s: {trouble}")
            return
        await _until_next(instance, rules, failures)


def _late(start: float, rules: Rules) -> bool:
    """Whether the start-up window is over."""
    return time.monotonic() - start > rules.startup_s


async def _trouble(instance: Instance, multi_model: bool) -> str | None:
    if not await instance.client.is_well():
        return "GET /ping is not answered with 200 in time"
    if not multi_model:
        return None
    before = instance.holdings.loads()
    try:
        listed = await instance.client.loaded()
    except (ContainerFailed, InstanceGone) as error:
        return f"GET /models is not answered with a listing: {error}"
    if listed is not None:
        instance.holdings.reconcile(before, listed)
    return None


async def _until_next(instance: Instance, rules: Rules, failures: int) -> None:
    wait_s = rules.ping_every_s
    if instance.state is not InstanceState.IN_SERVICE:
        wait_s = _LOOK_S
    elif failures:
        wait_s = min(_AGAIN_S, wait_s)
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(instance.look.wait(), wait_s)


#: What is shown of a container's output when it ends by itself.
_LAST_WORDS = 2000
#: Before a container that ended is started again, times the number of its ends in a row.
_PAUSE_S = 0.5


class DoesNotStart(Exception):
    """The container cannot be started; the message says what was said."""


class RunningContainer(Protocol):
    """A container that was started."""

    @property
    def pid(self) -> int | None:
        """Of its first process, as this machine sees it; None where it is not known."""

    @property
    def gauge(self) -> MemoryGauge:
        """Reads its memory."""
        ...

    async def wait_for_end(self) -> str:
        """Until it has ended; how it did, such as "exit code 1"."""

    async def stop(self, seconds: float) -> None:
        """SIGTERM, and SIGKILL to the whole of it when it takes longer. It may have ended."""

    async def kill(self) -> None:
        """SIGKILL to whatever is left of it, now. Nothing of it remains."""


class Launcher(Protocol):
    """Starts an instance's containers, one after the other."""

    @property
    def log(self) -> Path:
        """The output of all of them."""
        ...

    async def prepare(self, instance: Instance) -> None:
        """Once, before the first. Raises SimulatorError where there can be none."""

    async def launch(self, instance: Instance) -> RunningContainer:
        """A container that was just started. Raises DoesNotStart."""
        ...


class SupervisedInstance:
    """An instance whose container is started here; run() until stop()."""

    def __init__(
        self, instance: Instance, launcher: Launcher, rules: Rules, multi_model: bool
    ) -> None:
        self.instance, self._launcher, self._rules = instance, launcher, rules
        self._multi_model = multi_model
        self._running: RunningContainer | None = None
        self._starting = asyncio.Lock()
        self._stopping = False

    async def run(self) -> None:
        """Start the container, again when it ends, until stopped or its restarts are used up.

        Raises PlatformFailed when it was never in service: the endpoint is not created, then. Or
        what prepare raises.
        """
        await self._prepare()
        ends, ever = 0, False
        while not self._stopping:
            served = await self._run_once()
            ends = 1 if served else ends + 1
            ever = ever or served
            if self._stopping:
                return
            if ends > self._rules.restarts:
                self._give_up(ends, ever)
                return
            self.instance.start()
            await asyncio.sleep(_PAUSE_S * ends)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to the whole of it when it takes longer than the platform waits."""
        self._stopping = True
        self.instance.stop()
        async with self._starting:
            running = self._running
        if running is not None:
            await running.stop(self._rules.stop_s)

    async def _prepare(self) -> None:
        try:
            await self._launcher.prepare(self.instance)
        except SimulatorError as error:
            self.instance.fail(str(error))
            raise

    def _give_up(self, ends: int, ever: bool) -> None:
        message = f"given up after {ends} ends in a row; the last: {self.instance.message}"
        self.instance.fail(message)
        if not ever:
            raise PlatformFailed(f"{self.instance.name} was never healthy: {message}")

    async def _run_once(self) -> bool:
        """From its start to its end, which is told; whether it was ever in service."""
        running, since = await self._launch(), time.monotonic()
        if running is None:
            return False
        instance = self.instance
        instance.holdings.memory.gauge = running.gauge
        instance.tell("instance_starting", pid=running.pid)
        watch = asyncio.create_task(keep_watch(instance, self._rules, self._multi_model))
        ended = asyncio.create_task(running.wait_for_end())
        try:
            await asyncio.wait({watch, ended}, return_when=asyncio.FIRST_COMPLETED)
            if watch.done() and (error := watch.exception()) is not None:
                instance.fail(f"it cannot be watched ({type(error).__name__}: {error})")
            served = instance.state in (InstanceState.IN_SERVICE, InstanceState.UNHEALTHY)
            late = instance.state is InstanceState.FAILED
            if late:
                await running.kill()
            how = await ended
        finally:
            watch.cancel()
            ended.cancel()
            instance.holdings.memory.gauge = NoGauge()
            # What is left of it: a process's children, or all of it when this was cancelled.
            await running.kill()
        if not late and not self._stopping:
            instance.fail(self._end(how, time.monotonic() - since))
        return served

    async def _launch(self) -> RunningContainer | None:
        """The container; None where it does not start, which is an event, or must not any more."""
        async with self._starting:
            if self._stopping:
                return None
            try:
                self._running = await self._launcher.launch(self.instance)
            except DoesNotStart as error:
                self.instance.fail(str(error))
                return None
            return self._running

    def _end(self, how: str, seconds: float) -> str:
        log = self._launcher.log
        last_words = _last_line(log) or "it wrote nothing"
        return f"the container ended with {how} after {seconds:.1f} s: {last_words} ({log})"


def _last_line(log: Path) -> str:
    """The last line that says something, of the end of a log that may be long."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_WORDS))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
