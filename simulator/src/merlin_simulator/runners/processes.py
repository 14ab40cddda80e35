"""Containers as processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from merlin_simulator.instance.instance import Instance
from merlin_simulator.instance.memory import ProcessTreeGauge
from merlin_simulator.runners.supervision import DoesNotStart

#: This project's own container, as `docker run IMAGE serve` starts it.
OUR_CONTAINER = (sys.executable, "-m", "container", "serve")
_REPOSITORY = Path(__file__).parents[4]
#: The repository that holds the container, too; None where the container is an installed package.
#: Models search their container's directory, and site-packages have other packages than theirs.
CHECKOUT = _REPOSITORY if (_REPOSITORY / "container/__main__.py").is_file() else None


def find_missing_container() -> str | None:
    """Why OUR_CONTAINER cannot be started, and what to do; None where it can."""
    if CHECKOUT is not None or find_spec("container") is not None:
        return None
    return (
        "no container to start: found no package `container`, neither in a checkout around the "
        "simulator nor installed; give a command by --container, or install this project's: "
        "pip install '.[server]' at the root of a checkout"
    )


@dataclass(frozen=True)
class ProcessLauncher:
    """How a process is started: its command, what its environment has beside ours, its log."""

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path | None
    log: Path

    async def prepare(self, _: Instance) -> None:
        """A process needs nothing that is not here."""

    async def launch(self, _: Instance) -> ContainerProcess:
        """Its process, with a group of its own. Raises DoesNotStart."""
        try:
            with self.log.open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *self.command,
                    cwd=self.directory,
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C is ours: the container is stopped in its turn.
                    start_new_session=True,
                )
        except OSError as error:
            raise DoesNotStart(f"{self.command[0]} does not start: {error}") from error
        return ContainerProcess(process)


class ContainerProcess:
    """A process that was started, with all that it starts."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process, self.pid = process, process.pid
        self.gauge = ProcessTreeGauge(process.pid)

    async def wait_for_end(self) -> str:
        """Until the process has ended; others that it started may be left."""
        code = await self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def stop(self, seconds: float) -> None:
        """SIGTERM to the process, and SIGKILL to its group after these seconds."""
        process = self._process
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except asyncio.TimeoutError:
            await self.kill()
            await process.wait()

    async def kill(self) -> None:
        """A process of the group may be left when its leader is gone, a stub for instance."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
