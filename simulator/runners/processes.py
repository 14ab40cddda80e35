"""Containers as processes of this machine: started, watched, started again, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import PlatformFailed
from simulator.instance.instance import Instance
from simulator.instance.memory import NoGauge, ProcessTreeGauge
from simulator.rules import Rules
from simulator.runners.health import keep_watch
from simulator.watch.view import InstanceState

#: This project's own container, as `docker run IMAGE serve` starts it.
OUR_CONTAINER = (sys.executable, "-m", "container", "serve")
_ABOVE = Path(__file__).parents[2]
#: Where `python -m` finds our packages; None where they are installed, and found from anywhere.
#: Models search their container's directory, and site-packages have other packages than theirs.
CHECKOUT = _ABOVE if (_ABOVE / "pyproject.toml").is_file() else None
#: What is shown of a container's output when it ends by itself.
_LAST_WORDS = 2000
#: Before a container that ended is started again, times the number of its ends in a row.
_PAUSE_S = 0.5


@dataclass(frozen=True)
class Launch:
    """How a container is started: its command, what its environment has beside ours, its log."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path | None
    log: Path


class ProcessInstance:
    """An instance whose container is a process here; run() until stop()."""

    def __init__(self, instance: Instance, launch: Launch, rules: Rules, multi_model: bool) -> None:
        self.instance, self._launch, self._rules = instance, launch, rules
        self._multi_model = multi_model
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._stopping = False

    async def run(self) -> None:
        """Start the container, again when it ends, until stopped or its restarts are used up.

        Raises PlatformFailed when it was never in service: the endpoint is not created, then.
        """
        ends, ever = 0, False
        while not self._stopping:
            served = await self._one_life()
            ends = 1 if served else ends + 1
            ever = ever or served
            if self._stopping:
                return
            if ends > self._rules.restarts:
                self._given_up(ends, ever)
                return
            self.instance.start()
            await asyncio.sleep(_PAUSE_S * ends)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to the whole of it when it takes longer than the platform waits."""
        self._stopping = True
        self.instance.stop()
        async with self._starting:
            process = self._process
        if process is None or process.returncode is not None:
            return
        self._signal(process, signal.SIGTERM, group=False)
        try:
            await asyncio.wait_for(process.wait(), self._rules.stop_s)
        except asyncio.TimeoutError:
            self._signal(process, signal.SIGKILL, group=True)
            await process.wait()

    def _given_up(self, ends: int, ever: bool) -> None:
        message = f"given up after {ends} ends in a row; the last: {self.instance.message}"
        self.instance.fail(message)
        if not ever:
            raise PlatformFailed(f"{self.instance.name} was never healthy: {message}")

    async def _one_life(self) -> bool:
        """From its start to its end, which is told; whether it was ever in service."""
        process, since = await self._begun(), time.monotonic()
        if process is None:
            return False
        instance = self.instance
        instance.holdings.memory.gauge = ProcessTreeGauge(process.pid)
        instance.tell("instance_starting", pid=process.pid)
        watch = asyncio.create_task(keep_watch(instance, self._rules, self._multi_model))
        try:
            over = asyncio.create_task(process.wait())
            await asyncio.wait({watch, over}, return_when=asyncio.FIRST_COMPLETED)
            served = instance.state in (InstanceState.IN_SERVICE, InstanceState.UNHEALTHY)
            late = instance.state is InstanceState.FAILED
            if late:
                self._signal(process, signal.SIGKILL, group=True)
            code = await over
        finally:
            watch.cancel()
            instance.holdings.memory.gauge = NoGauge()
            # What is left of it: stubs, or all of it when this was cancelled.
            self._signal(process, signal.SIGKILL, group=True)
        if not late and not self._stopping:
            instance.fail(self._end(code, time.monotonic() - since))
        return served

    async def _begun(self) -> asyncio.subprocess.Process | None:
        """The process; None where it does not start, which is told, or is not to start any more."""
        async with self._starting:
            if self._stopping:
                return None
            try:
                self._process = await self._started()
            except OSError as error:
                self.instance.fail(f"{self._launch.command[0]} does not start: {error}")
                return None
            return self._process

    async def _started(self) -> asyncio.subprocess.Process:
        with self._launch.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._launch.command,
                cwd=self._launch.directory,
                env={**os.environ, **self._launch.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is ours: the container is stopped in its turn.
                start_new_session=True,
            )

    @staticmethod
    def _signal(
        process: asyncio.subprocess.Process, number: signal.Signals, *, group: bool
    ) -> None:
        """A process of the group may be left when its leader is gone, a stub for instance."""
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)

    def _end(self, code: int, seconds: float) -> str:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        message = f"the container ended with {how} after {seconds:.1f} s: "
        return (
            message
            + (_last_line(self._launch.log) or "it wrote nothing")
            + f" ({self._launch.log})"
        )


def _last_line(log: Path) -> str:
    """The last line that says something, of the end of a log that may be long."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_WORDS))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
