"""Starts one tritonserver for a verification, as the container starts its own, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from container.addresses import choose_addresses
from container.constants import Constants
from container.errors import ContainerError
from container.machine.cuda_libraries import arrange_cuda_compat, count_gpus
from container.settings.reading import Settings
from container.tritonserver.command import TritonCommand, build_command, name_shm_prefix
from container.tritonserver.process import TritonProcess
from container.tritonserver.runtime import TritonRuntime
from serve.triton.client import TritonClient
from verification.errors import TritonLost

#: Of its log, what a message shows: the end is where the reason stands.
_LAST_WORDS = 1000
_STOP_TIMEOUT_S = 10.0
#: A model that has not answered by then will not answer the next request either: a wrongly wired
#: ensemble never does.
ANSWER_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Server:
    """A running tritonserver."""

    client: TritonClient
    #: The repository that it looks into.
    serving: Path
    log: Path

    def read_last_words(self) -> str:
        """The end of what it and the models have said, on one line."""
        return read_last_words(self.log)


def read_last_words(log: Path) -> str:
    """The end of a log, on one line."""
    if not log.exists():
        return ""
    return " ".join(log.read_text(errors="replace")[-_LAST_WORDS:].split())


@contextlib.contextmanager
def make_directory() -> Iterator[Path]:
    """A directory for all that is written; gone at the end."""
    directory = Path(tempfile.mkdtemp(prefix="verify-")).resolve()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.asynccontextmanager
async def run_tritonserver(
    settings: Settings, runtime: TritonRuntime, environment: Mapping[str, str], directory: Path
) -> AsyncIterator[Server]:
    """Start one and wait until it is live; at the end nothing of it is left, however that comes.

    Its output goes to a file in the directory. Raises TritonLost, ContainerError.
    """
    serving, log = directory / "serving", directory / "tritonserver.log"
    serving.mkdir()
    addresses = choose_addresses(settings, directory)
    constants, gpus = Constants(), count_gpus()
    command = build_command(
        settings,
        runtime,
        addresses,
        serving,
        environment,
        gpu_count=gpus,
        shm_prefix=name_shm_prefix(os.getpid(), secrets.token_hex(4)),
        cuda_compat=arrange_cuda_compat(settings.cuda_compat, environment, Path("/")),
    )
    client = TritonClient(addresses.http, addresses.grpc_target)
    process = TritonProcess(
        _log_to(log, command),
        is_live=client.is_live,
        on_restarted=_wait_for_ever,
        restart_limit=0,
        restart_window_s=constants.restart_window_s,
        start_timeout_s=constants.start_timeout(gpus),
        stop_timeout_s=_STOP_TIMEOUT_S,
    )
    running = asyncio.ensure_future(process.run())
    try:
        await _wait_until_live(process, running, log)
        yield Server(client, serving, log)
    except BaseException:
        _kill(process)  # who breaks off does not wait until models are unloaded
        raise
    finally:
        await client.close()  # tritonserver waits for connections that are open
        await process.stop()
        with contextlib.suppress(ContainerError):
            await running


async def _wait_until_live(
    process: TritonProcess, running: asyncio.Future[None], log: Path
) -> None:
    live = asyncio.ensure_future(process.wait_live())
    try:
        await asyncio.wait({live, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            try:
                running.result()
            except ContainerError as error:
                raise TritonLost(
                    f"tritonserver did not start ({error})", read_last_words(log)
                ) from error
    finally:
        live.cancel()


def _kill(process: TritonProcess) -> None:
    if process.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


async def _wait_for_ever() -> None:
    raise AssertionError("it is not started again")


def _log_to(log: Path, command: TritonCommand) -> TritonCommand:
    """The same process with its output in a file; exec keeps its number."""
    script = f'exec "$@" >"{log}" 2>&1'
    return replace(command, argv=("/bin/sh", "-c", script, "sh", *command.argv))
