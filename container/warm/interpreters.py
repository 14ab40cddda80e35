"""Starts warm interpreters when a stub asks for one, and again when one has died.

Each library has a Unix socket that listens from the start. Whoever connects first has its
interpreter started, which takes the socket over as its standard input: connections wait meanwhile,
and no one is lost where an interpreter dies. Children live on without it.

    WORK_DIR/warm/code           what runs in the models' Python (models_side)
    WORK_DIR/warm/torch.sock     one socket for each library
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import ensemble_tools
from container.background import restart_for_ever
from container.machine.children import die_with_parent
from container.machine.descriptors import limit_descriptors
from container.warm.libraries import LIBRARIES, Library

log = logging.getLogger(__name__)

CODE = Path(__file__).parent / "models_side"
#: What is published beside each compiled workflow, as compiled_workflow.
RUNTIME = Path(ensemble_tools.__file__).parent / "workflows" / "runtime"
_BACKLOG = 512
#: CUDA does not survive a fork: what an interpreter imports sees no GPU, nor do its children.
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
#: Children write their model's path over their command line, and need room for it.
_PADDING = "-" * 4096
#: How often an interpreter is looked at, and how long one rests that ended at once, in seconds.
_LOOK_S, _REST_S = 0.2, 5.0
#: What it says of its imports has fewer bytes; a pipe takes them at once.
_SAID = 64 * 1024


@dataclass(frozen=True)
class Surroundings:
    """The surroundings that interpreters run in."""

    #: The models' interpreter.
    python: Path
    #: Triton's own file for Python models.
    utils: Path
    #: The environment of tritonserver's models.
    environment: Mapping[str, str]
    #: Their soft and hard limits.
    descriptors: tuple[int, int] | None = None
    #: Where interpreters print.
    output: int | None = None


class WarmInterpreters:
    """The interpreters of a container; `folder` is made by `listen`."""

    def __init__(self, folder: Path, libraries: Mapping[str, Library] = LIBRARIES) -> None:
        self.folder, self._libraries = folder, libraries
        #: How often each library's was started.
        self.starts = Counter(dict.fromkeys(libraries, 0))
        self._listening: dict[str, socket.socket] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._keeping: list[asyncio.Future[None]] = []

    def listen(self) -> None:
        """Make the folder, its sockets in it."""
        self.folder.mkdir()
        (self.folder / "code").symlink_to(CODE)
        within = os.open(self.folder, os.O_PATH)  # a socket's path may have 107 bytes
        try:
            for name in self._libraries:
                listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                listening.bind(f"/proc/self/fd/{within}/{name}.sock")
                listening.listen(_BACKLOG)
                self._listening[name] = listening
        finally:
            os.close(within)

    def start(self, surroundings: Surroundings, preload: Iterable[str] = ()) -> None:
        """Keep them from now on, those to preload at once; in the event loop."""
        preloaded = set(preload)
        for library in self._libraries.values():
            keep = partial(self._keep, library, surroundings, library.name in preloaded)
            self._keeping.append(asyncio.ensure_future(restart_for_ever("warm interpreters", keep)))

    def end(self) -> None:
        """Kill those that run, with what they have forked, and close the sockets.

        What one has forked that died before ends with its stub.
        """
        for keeping in self._keeping:
            keeping.cancel()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its children are in its group
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        for listening in self._listening.values():
            listening.close()

    async def _keep(self, library: Library, surroundings: Surroundings, at_once: bool) -> None:
        listening = self._listening[library.name]
        while True:
            if not at_once:
                await _wait_until_readable(listening)
            at_once = False
            began = time.monotonic()
            try:
                process, imported = self._start(library, surroundings, listening)
            except OSError as error:
                log.error("no interpreter can be started: %s", error, extra=_describe(library))
            else:
                self.starts[library.name] += 1
                telling = asyncio.ensure_future(_tell_when_ready(library, imported, began))
                try:
                    while process.poll() is None:  # noqa: ASYNC110 (no event, no thread for it)
                        await asyncio.sleep(_LOOK_S)
                finally:
                    telling.cancel()
                self._processes.pop(library.name)  # its number may be another one's soon
                log.warning(
                    "an interpreter died; the next model starts it again",
                    extra={**_describe(library), "status": process.returncode},
                )
            await asyncio.sleep(max(0.0, began + _REST_S - time.monotonic()))

    def _start(
        self, library: Library, surroundings: Surroundings, listening: socket.socket
    ) -> tuple[subprocess.Popen[bytes], int]:
        """The process, and the end of a pipe that says what it could not import."""
        imported, ready = os.pipe()
        try:
            process = subprocess.Popen(
                [
                    *die_with_parent(),
                    str(surroundings.python),
                    "-B",
                    str(CODE / "start.py"),
                    str(surroundings.utils),
                    str(ready),
                    library.name,
                    str(RUNTIME) if library.runs_workflows else "",
                    _PADDING,
                    *library.modules,
                ],
                env={**surroundings.environment, **_NO_GPU},
                stdin=listening.fileno(),
                stdout=surroundings.output,
                stderr=surroundings.output,
                start_new_session=True,
                pass_fds=(ready,),
            )
        except BaseException:
            os.close(imported)
            raise
        finally:
            os.close(ready)
        self._processes[library.name] = process
        limit_descriptors(process.pid, surroundings.descriptors)
        return process, imported


async def _wait_until_readable(listening: socket.socket | int) -> None:
    """Until somebody has connected, who is left where he is, or written."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listening)


async def _tell_when_ready(library: Library, imported: int, began: float) -> None:
    """Log that the interpreter has imported its library, or that there is none; closes `said`."""
    try:
        await _wait_until_readable(imported)
        report = os.read(imported, _SAID)
    finally:
        os.close(imported)
    if not report:
        return  # it died
    lacking: dict[str, str] = json.loads(report)
    facts: dict[str, object] = {**_describe(library), "seconds": round(time.monotonic() - began, 3)}
    if lacking:
        facts["lacking"] = "; ".join(f"{module}: {why}" for module, why in lacking.items())
    if library.is_lacking(lacking):
        log.warning("interpreter started, and its library cannot be imported", extra=facts)
    else:
        log.info("interpreter started", extra=facts)


def _describe(library: Library) -> dict[str, object]:
    return {"library": library.name}
