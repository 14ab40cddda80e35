"""The endpoint as a process of this machine, for as long as a replay lasts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from merlin_simulator.interrupts import hold_signals
from merlin_simulator.replay.settings import Settings
from merlin_simulator.runners.processes import CHECKOUT

#: Its containers have 30 s to end (contract.md), one beside the other.
STOP_S = 45.0
#: util-linux.
_SETPRIV = Path("/usr/bin/setpriv")
#: How much of its output stands in a message.
_TAIL = 3000


class LocalEndpoint:
    """A running endpoint. Its own output is in log."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self._process, self.url, self._log = process, url, log

    def gone(self) -> str | None:
        """Why it does not run any more; None while it does."""
        code = self._process.poll()
        if code is None:
            return None
        tail = self._log.read_text(errors="replace")[-_TAIL:]
        return (
            f"the endpoint's process ended with exit code {code}; its log and its containers' are "
            f"in {self._log.parent}; it said:\n{tail}"
        )


@dataclass(frozen=True)
class Scratch:
    """Where the archives lie, and where the endpoint works and its containers' logs are."""

    archives: Path
    work: Path


def make_up_command(settings: Settings, scratch: Scratch, port: int) -> list[str]:
    """`python -m simulator up` for a folder of archives."""
    options = {
        "--models": str(scratch.archives),
        "--work-dir": str(scratch.work),
        "--endpoint-name": settings.endpoint_name,
        "--port": str(port),
        "--instances": str(settings.instances),
        "--memory": settings.memory,
        "--disk": settings.disk,
        "--cache": settings.cache,
    }
    arguments = [
        word for name, value in options.items() if value is not None for word in (name, value)
    ]
    return [sys.executable, "-m", "merlin_simulator", "up", *arguments]


@contextmanager
def start_endpoint(command: Sequence[str], port: int, log: Path) -> Iterator[LocalEndpoint]:
    """The command's process; it and everything in its group has ended when the block is left."""
    release = hold_signals()
    try:
        process = _start(command, log)
    except BaseException:
        release()
        raise
    try:
        release()
        yield LocalEndpoint(process, f"http://127.0.0.1:{port}", log)
    finally:
        release = hold_signals()
        try:
            _end(process)
        finally:
            release()


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            # Who starts it may be killed, and then has no time to end it.
            _die_with_parent(command),
            env=_finding_us(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for the replay, which then stops the endpoint in order.
            start_new_session=True,
        )


def _die_with_parent(command: Sequence[str]) -> list[str]:
    """The command, ended by the kernel when this process is killed, if setpriv is there."""
    return [*([str(_SETPRIV), "--pdeathsig", "TERM"] if _SETPRIV.exists() else []), *command]


def _finding_us(environment: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH begins with this package's folder, and with the checkout if there is one."""
    ours = [str(Path(__file__).parents[2]), *([str(CHECKOUT)] if CHECKOUT else [])]
    theirs = environment.get("PYTHONPATH")
    return {**environment, "PYTHONPATH": os.pathsep.join([*ours, *([theirs] if theirs else [])])}


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM and its time; SIGKILL for the group after that, and for what the group left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
