"""A fake tritonserver in the test's own event loop: no process, so nothing kills it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from container.tritonserver.command import TritonCommand
from tests.fakes import tritonserver as fake


class FakeInLoop:
    """In the place of a TritonProcess, for what is asked of a tritonserver that lives.

    command: as a process would get it, with the knobs in its environment.
    """

    pid = None

    def __init__(self, command: TritonCommand) -> None:
        self._arguments = fake.read_arguments(list(command.argv[1:]))
        self._knobs = json.loads(command.env[fake.VARIABLE])
        assert not self._knobs.keys() & {"lives", "die_after_requests", "exit_at_start"}
        self._stop, self._live, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Serves until `stop`."""
        try:
            await self._serve()
        finally:
            self._over.set()

    async def _serve(self) -> None:
        server = fake.Fake(self._knobs, Path(self._arguments["model-repository"]))
        server.record("start", pid=os.getpid())
        if self._knobs.get("never_live"):
            await self._stop.wait()
            return
        closing = await fake.listen(server, self._arguments)
        self._live.set()
        await self._stop.wait()
        for listening in server.listening:
            listening.close()
        for connected in server.connected:
            connected.cancel()
        for close in closing:
            await close()
        if server.connected:
            await asyncio.wait(server.connected)

    async def wait_live(self) -> None:
        """Returns once it is live."""
        await self._live.wait()

    async def stop(self) -> None:
        """Asks it to end; returns when it has, and when it never ran."""
        self._stop.set()
        if self._live.is_set():
            await self._over.wait()

    async def replace(self, timeout_s: float) -> None:
        """Nobody can kill it."""
        raise AssertionError("a tritonserver that is replaced is a process: dies=True")
