"""An endpoint to look at: plain data, a real event log, and the page's routes on a real server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette

from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.page_routes import HEARTBEAT_S, make_page_routes
from merlin_simulator.watch.state import (
    EndpointView,
    InstanceState,
    InstanceView,
    ModelState,
    ModelView,
)

#: How long a server may take to begin, and to end with streams open; seconds.
START_S = 60.0
STOP_S = 60.0


@dataclass
class PlayedEndpoint:
    """What the page is told: its attributes, changed by the test at will.

    sequence is the event up to which instances are right; None: they are right at any time.
    """

    log: EventLog = field(default_factory=EventLog)
    endpoint_name: str = "shop"
    multi_model: bool = True
    models: str = "s3://models/shop/"
    instances: list[InstanceView] = field(default_factory=list)
    sequence: int | None = None

    def view(self) -> EndpointView:
        """The attributes as a view."""
        sequence = self.log.last if self.sequence is None else self.sequence
        return EndpointView(
            self.endpoint_name,
            self.multi_model,
            self.models,
            "Enabled",
            sequence,
            tuple(self.instances),
        )

    def put(self, instance: InstanceView) -> None:
        """Adds the instance, or puts it in the place of the one of its name."""
        others = [one for one in self.instances if one.name != instance.name]
        self.instances = sorted([*others, instance], key=lambda one: one.name)


def an_instance(name: str = "instance-1", *models: ModelView) -> InstanceView:
    """An instance in service with those models, 4 GiB of memory and 20 GiB of disk."""
    known = sum(model.memory or 0 for model in models)
    return InstanceView(
        name,
        "http://127.0.0.1:1",
        InstanceState.IN_SERVICE,
        "",
        300 * 2**20 + known,
        4 * 2**30,
        sum(model.disk for model in models),
        20 * 2**30,
        0,
        models,
    )


def a_model(target_model: str, state: ModelState = ModelState.LOADED) -> ModelView:
    """A model of 100 MiB; its memory is known when it is loaded."""
    memory = 100 * 2**20 if state is ModelState.LOADED else None
    return ModelView(target_model, "m", state, memory, 80 * 2**20, 0, 0, None)


def invoked(
    log: EventLog, target_model: str, *, cold: bool = False, instance: str = "instance-1"
) -> None:
    """An invocation that was answered; a cold one waited for a load, and a little for a turn."""
    waited = 2.0 if cold else 0.0
    spent = {"room": 0.0, "turn": 0.4, "download": 0.05, "extraction": 0.05, "load": 1.5}
    parts = {**spent, "answer": 0.02} if cold else {}
    log.tell(
        "invoked",
        instance,
        target_model=target_model,
        status=200,
        seconds=waited + 0.02,
        cold=cold,
        cold_seconds=waited,
        waiting_seconds=waited,
        request_id=f"r{log.last}",
        **{f"{part}_seconds": seconds for part, seconds in parts.items()},
    )


class PageServer(uvicorn.Server):
    """uvicorn, whose streams are told when it begins to stop."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event) -> None:
        super().__init__(config)
        self._ending = ending
        self.accepting = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins, and says so."""
        await super().startup(sockets)
        self.accepting.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then the server."""
        self._ending.set()
        await super().shutdown(sockets)


def page_app(endpoint: PlayedEndpoint, heartbeat_s: float = HEARTBEAT_S) -> Starlette:
    """The page's routes alone; its streams end when its state's ending is set."""
    ending = asyncio.Event()
    app = Starlette(
        routes=make_page_routes(endpoint, endpoint.log, ending=ending, heartbeat_s=heartbeat_s)
    )
    app.state.ending = ending
    return app


@asynccontextmanager
async def served(app: Starlette, port: int = 0, graceful_s: int = 2) -> AsyncIterator[str]:
    """The app's address while it is served in this event loop.

    graceful_s: how long its end waits for streams that do not end.
    """
    app.state.ending.clear()
    config = uvicorn.Config(
        app, log_level="critical", lifespan="off", timeout_graceful_shutdown=graceful_s
    )
    server = PageServer(config, app.state.ending)
    with _listening(port) as listener:
        serving = asyncio.ensure_future(server.serve([listener]))
        try:
            await asyncio.wait_for(server.accepting.wait(), START_S)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, STOP_S)


def _listening(port: int) -> socket.socket:
    """A socket of ours, so that the same port can be had again at once."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener
