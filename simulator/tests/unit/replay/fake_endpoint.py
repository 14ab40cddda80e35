"""An endpoint without containers: the runtime API, the events and the state, answered at once.

    python -m simulator.tests.unit.replay.fake_endpoint --port 0 --room 3

It keeps the last `room` models that were asked for, as an LRU, and answers as the replay's own
model does: NAME is the target model without .tar.gz. Knobs say for which request it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import secrets
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from merlin_simulator.watch.events import EventLog, Value
from merlin_simulator.watch.page_routes import make_page_routes
from merlin_simulator.watch.state import (
    EndpointView,
    InstanceState,
    InstanceView,
    ModelState,
    ModelView,
)
from tests.support.prompt_server import PromptServer

#: What each model is said to take, bytes.
EACH = 40 * 2**20


@dataclass
class FakeEndpoint:
    """fails_at and lies_at are ids' first numbers; stalls_at holds that request for stall_s."""

    room: int = 1000
    load_s: float = 0.0
    name: str = "replay"
    fails_at: frozenset[int] = frozenset()
    lies_at: frozenset[int] = frozenset()
    stalls_at: frozenset[int] = frozenset()
    stall_s: float = 0.0
    state: InstanceState = InstanceState.IN_SERVICE
    log: EventLog = field(default_factory=EventLog)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[tuple[str, int]] = field(default_factory=list)
    callers: set[object] = field(default_factory=set)
    _loaded: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _loading: dict[str, asyncio.Lock] = field(default_factory=dict)

    def view(self) -> EndpointView:
        """One instance with the loaded models."""
        models = tuple(
            ModelView(name, name, ModelState.LOADED, EACH, 1000, 0, 0, None)
            for name in self._loaded
        )
        instance = InstanceView(
            "one",
            "http://none",
            self.state,
            "",
            EACH * (1 + len(models)),
            EACH * (self.room + 2),
            1000,
            None,
            0,
            models,
        )
        return EndpointView(self.name, True, "nowhere", "Enabled", self.log.last, (instance,))

    def app(self) -> Starlette:
        """The routes."""
        invoke = Route("/endpoints/{name}/invocations", self._invoke, methods=["POST"])
        return Starlette(routes=[invoke, *make_page_routes(self, self.log, self.ending)])

    async def _invoke(self, request: Request) -> Response:
        target = request.headers["X-Amzn-SageMaker-Target-Model"]
        body = json.loads(await request.body())
        self.callers.add(request.client)
        ids = body["inputs"][0]["data"]
        self.asked.append((target, ids[0]))
        request_id = secrets.token_hex(8)
        began = asyncio.get_running_loop().time()
        cold = await self._bring(target)
        if ids[0] in self.stalls_at:
            await asyncio.sleep(self.stall_s)
        seconds = asyncio.get_running_loop().time() - began
        facts: dict[str, Value] = {
            "target_model": target,
            "seconds": seconds,
            "cold": cold,
            "request_id": request_id,
        }
        headers = {"x-amzn-RequestId": request_id}
        if ids[0] in self.fails_at:
            self.log.tell(
                "invocation_failed", "one", status=424, error="ModelError", message="no", **facts
            )
            headers["x-amzn-errortype"] = "ModelError:http://internal/coral"
            return JSONResponse({"Message": f"request {ids[0]} fails"}, 424, headers)
        self.log.tell("invoked", "one", status=200, **facts)
        name = "another" if ids[0] in self.lies_at else target.removesuffix(".tar.gz")
        outputs = [
            {"name": "NAME", "datatype": "BYTES", "shape": [1], "data": [name]},
            {"name": "ECHO", "datatype": "INT64", "shape": [2], "data": ids},
        ]
        return JSONResponse({"model_name": "x", "outputs": outputs}, 200, headers)

    async def _bring(self, target: str) -> bool:
        """Whether the caller had to wait for the model."""
        if target in self._loaded:
            self._loaded.move_to_end(target)
            return False
        async with self._loading.setdefault(target, asyncio.Lock()):
            if target not in self._loaded:
                await self._load(target)
        return True

    async def _load(self, target: str) -> None:
        while len(self._loaded) >= self.room:
            gone, _ = self._loaded.popitem(last=False)
            self.log.tell("unloaded", "one", target_model=gone, seconds=0.001, reason="memory")
        self.log.tell("load_started", "one", target_model=target)
        await asyncio.sleep(self.load_s)
        self._loaded[target] = None
        self.log.tell("loaded", "one", target_model=target, seconds=self.load_s, memory=EACH)


@contextlib.asynccontextmanager
async def serving(endpoint: FakeEndpoint) -> AsyncIterator[str]:
    """The endpoint's URL, in this event loop, on a free port."""
    server = PromptServer(_config(endpoint, 0))
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:  # uvicorn has no event for it
            assert not task.done(), "the fake endpoint did not start"
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        endpoint.ending.set()
        server.should_exit = True
        await task


def _config(endpoint: FakeEndpoint, port: int) -> uvicorn.Config:
    return uvicorn.Config(
        endpoint.app(),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
    )


def main() -> None:
    """A process of its own, as `python -m simulator up` is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--room", type=int, default=1000)
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--fails-at", type=int, action="append", default=[])
    parser.add_argument("--lies-at", type=int, action="append", default=[])
    parser.add_argument("--stalls-at", type=int, action="append", default=[])
    parser.add_argument("--stall", type=float, default=0.0)
    parser.add_argument("--lingers", type=float, default=0.0)
    options = parser.parse_args()
    endpoint = FakeEndpoint(
        options.room,
        options.load,
        fails_at=frozenset(options.fails_at),
        lies_at=frozenset(options.lies_at),
        stalls_at=frozenset(options.stalls_at),
        stall_s=options.stall,
    )

    def linger(*_: object) -> None:
        print("lingering", flush=True)
        time.sleep(options.lingers)
        sys.exit(0)

    signal.signal(signal.SIGTERM, linger)  # uvicorn hands the signal on when it has stopped
    uvicorn.Server(_config(endpoint, options.port)).run()


if __name__ == "__main__":
    main()
