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

from simulator.health import keep_watch
from simulator.instance import Instance
from simulator.memory import NoGauge, ProcessTreeGauge
from simulator.rules import Rules
from simulator.view import InstanceState

#: This project's own container, as `docker run IMAGE serve` starts it.
OUR_CONTAINER = (sys.executable, "-m", "container", "serve")
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
        self._stopping = False

    async def run(self) -> None:
        """Start the container, again when it ends, until stopped or its restarts are used up."""
        ends = 0
        while not self._stopping:
            message, served = await self._one_life()
            ends = 1 if served else ends + 1
            if self._stopping:
                return
            if ends > self._rules.restarts:
                self.instance.end(message, InstanceState.FAILED)
                return
            self.instance.end(message, InstanceState.STARTING)
            await asyncio.sleep(_PAUSE_S * ends)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to the whole of it when it takes longer than the platform waits."""
        self._stopping = True
        self.instance.stop()
        if self._process is None or self._process.returncode is not None:
            return
        self._signal(signal.SIGTERM, group=False)
        try:
            await asyncio.wait_for(self._process.wait(), self._rules.stop_s)
        except asyncio.TimeoutError:
            self._signal(signal.SIGKILL, group=True)
            await self._process.wait()

    async def _one_life(self) -> tuple[str, bool]:
        """From its start to its end: why it ended, and whether it was ever in service."""
        try:
            self._process = await self._started()
        except OSError as error:
            return f"{self._launch.command[0]} does not start: {error}", False
        instance, since = self.instance, time.monotonic()
        instance.start()
        instance.holdings.gauge = ProcessTreeGauge(self._process.pid)
        instance.tell("instance_starting", pid=self._process.pid)
        watch = asyncio.create_task(keep_watch(instance, self._rules, self._multi_model))
        over = asyncio.create_task(self._process.wait())
        await asyncio.wait({watch, over}, return_when=asyncio.FIRST_COMPLETED)
        served = instance.state in (InstanceState.IN_SERVICE, InstanceState.UNHEALTHY)
        if not over.done():  # the start-up window is over
            self._signal(signal.SIGKILL, group=True)
        watch.cancel()
        code = await over
        instance.holdings.gauge = NoGauge()
        self._signal(signal.SIGKILL, group=True)
        return self._end(code, time.monotonic() - since), served

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

    def _signal(self, number: signal.Signals, *, group: bool) -> None:
        """A process of the group may be left when its leader is gone, a stub for instance."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)

    def _end(self, code: int, seconds: float) -> str:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        words = self._launch.log.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
        last = words.splitlines()[-1] if words else "it wrote nothing"
        return f"the container ended with {how} after {seconds:.1f} s: {last} ({self._launch.log})"
