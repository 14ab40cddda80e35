"""The runtime API over real sockets, before a plain endpoint that answers what it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette

from merlin_simulator.api.runtime_api import make_runtime_routes
from merlin_simulator.errors import EndpointNotFound
from merlin_simulator.incoming import StrictProtocol
from merlin_simulator.instance.requests import ContainerAnswer, Invocation, StreamedAnswer
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import Event, EventLog
from tests.support.prompt_server import PromptServer

WAIT_S = 60.0  # for what is a matter of milliseconds on an idle machine


@dataclass
class FakeEndpoint:
    """An endpoint with plain attributes; everything is set and read between requests.

    An exception in `answer` or among the parts is raised. `held` keeps the end of an answer back
    until `let_go`.
    """

    endpoint_name: str = "ranker"
    multi_model: bool = True
    variant_names: tuple[str, ...] = ("AllTraffic",)
    rules: Rules = field(default_factory=Rules)
    log: EventLog = field(default_factory=EventLog)
    answer: ContainerAnswer | Exception = field(
        default_factory=lambda: ContainerAnswer(
            200, b'{"ok": true}', {"content-type": "application/json"}
        )
    )
    parts: Sequence[bytes | Exception] = (b"one", b"two")
    part_headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/plain"})
    asked: list[Invocation] = field(default_factory=list)
    streaming: AsyncGenerator[bytes, None] | None = None
    held: bool = False
    began: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)
    finished: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)

    def find(self, endpoint_name: str) -> FakeEndpoint:
        if endpoint_name != self.endpoint_name:
            raise EndpointNotFound(endpoint_name, self.endpoint_name)
        return self

    async def invoke(self, invocation: Invocation) -> ContainerAnswer:
        self.asked.append(invocation)
        self.began.set()
        if self.held:
            await _wait(self.let_go)
        self.finished.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def invoke_stream(self, invocation: Invocation) -> StreamedAnswer:
        self.asked.append(invocation)
        if isinstance(self.answer, Exception):
            raise self.answer
        self.streaming = self._parts()  # kept, so that nothing but closing it ends it
        return StreamedAnswer(200, self.streaming, self.part_headers)

    async def _parts(self) -> AsyncGenerator[bytes, None]:
        try:
            for part in self.parts:
                if isinstance(part, Exception):
                    raise part
                yield part
                self.began.set()
            if self.held:
                await _wait(self.let_go)
        finally:
            self.closed.set()


async def _wait(event: threading.Event) -> None:
    """Wait for what another thread does."""
    await asyncio.to_thread(event.wait, WAIT_S)


@dataclass(frozen=True)
class Served:
    """A running API: its address, what is behind it, what it told and what it logged."""

    port: int
    endpoint: FakeEndpoint
    log: EventLog
    logged: list[logging.LogRecord]

    @property
    def url(self) -> str:
        """The endpoint_url that clients get."""
        return f"http://127.0.0.1:{self.port}"

    def refusals(self) -> list[Event]:
        """The events told so far."""
        return [event for event in self.log.since(0) if event.kind == "invocation_failed"]

    def connect(self) -> socket.socket:
        """A connection for what no HTTP client would send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)


class _Kept(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.WARNING)
        self.records = records

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextlib.contextmanager
def serving(endpoint: FakeEndpoint, rules: Rules | None = None) -> Iterator[Served]:
    """This endpoint's runtime API on a free port until the block ends; uvicorn as ours is run."""
    events, records = endpoint.log, list[logging.LogRecord]()
    endpoint.rules = rules or endpoint.rules
    app = Starlette(routes=[*make_runtime_routes(endpoint)])
    config = uvicorn.Config(
        app,
        http=StrictProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    server = PromptServer(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    kept = _Kept(records)
    logging.getLogger().addHandler(kept)
    thread.start()
    try:
        yield Served(listening.getsockname()[1], endpoint, events, records)
    finally:
        endpoint.let_go.set()
        server.should_exit = True
        thread.join(WAIT_S)
        logging.getLogger().removeHandler(kept)
        listening.close()
    assert not thread.is_alive(), f"the server did not end within {WAIT_S} s"
