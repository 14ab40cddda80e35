"""uvicorn as tests run it: it ends at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn


class PromptServer(uvicorn.Server):
    """uvicorn's own looks every 0.1 s whether to exit, and then takes 0.1 s at least."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to pytest."""
        yield

    async def main_loop(self) -> None:
        """Until it is to exit."""
        await self.on_tick(0)
        while not self.should_exit:  # noqa: ASYNC110 # uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's own, where a connection is left."""
        if self.server_state.connections:
            await super().shutdown(sockets)
        for server in self.servers:
            server.close()
