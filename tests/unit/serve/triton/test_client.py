"""The seam to tritonserver: whatever goes wrong behind it, what comes out is ours."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import resource
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
import httptools
import pytest
from tritonclient.grpc import aio as triton_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from ensemble_tools import Form, ServingPlan
from ensemble_tools.serving.plan import PublishedModel
from serve.deadline import Deadline
from serve.errors import ModelUnusable, ServeError, TritonTimeout, TritonUnavailable
from serve.limit import TimeLimit
from serve.threads import run_in_daemon_thread
from serve.triton.access import TritonAccess
from serve.triton.client import TritonClient
from serve.triton.connection import Answer
from serve.triton.http import TritonHttp
from serve.triton.trials import Trials
from tests.support.clock import Clock
from tests.unit.serve.fake_server import WAIT_S, Peer, Script, answer, fake_server, saying

PLAN = ServingPlan(
    "m",
    Form.AS_DELIVERED,
    "m",
    (PublishedModel("m.s", "s", None), PublishedModel("m", "m", None)),
)
T = TypeVar("T")
#: Where nobody listens.
NOWHERE, NO_GRPC = Path("/nowhere/http"), "unix:/nowhere/grpc"
CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
UNREACHABLE = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED]


async def hangs(peer: Any) -> None:
    await peer.closed()
    await peer.closed()
    await asyncio.Event().wait()


LIVE = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


class Control(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc] # untyped
    """Model control of one that lives: it answers every call with one status, or never."""

    def __init__(self, code: grpc.StatusCode | None, message: str) -> None:
        self.code, self.message = code, message

    async def ServerLive(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerLiveResponse(live=True)

    async def _fail(self, request: Any, context: Any) -> Any:
        if self.code is None:
            await asyncio.Event().wait()
        await context.abort(self.code, self.message)

    RepositoryModelLoad = RepositoryModelUnload = RepositoryIndex = _fail


@contextlib.asynccontextmanager
async def control(
    code: grpc.StatusCode | None,
    message: str = "no",
    health: Script | None = LIVE,
    http: TritonHttp | None = None,
) -> AsyncIterator[TritonClient]:
    """A client of a tritonserver whose model control is like that; no health: nobody is there.

    http: in the place of what asks for its health.
    """
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Control(code, message), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with fake_server(health or LIVE) as stage:
            nobody = TritonHttp(NOWHERE)
            http = http or (nobody if health is None else stage.http)
            client = TritonClient(NOWHERE, f"127.0.0.1:{port}", http=http)
            try:
                yield client
            finally:
                await client.close()
    finally:
        await server.stop(0)


class Answering(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc] # untyped
    """Model control that does what it is asked for, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ServerLive(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerLiveResponse(live=True)

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
        self.asked.append(f"load {request.model_name}")
        return service_pb2.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:
        self.asked.append(f"unload {request.model_name}")
        return service_pb2.RepositoryModelUnloadResponse()

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:
        return service_pb2.RepositoryIndexResponse()

    async def ServerMetadata(self, request: Any, context: Any) -> Any:
        return service_pb2.ServerMetadataResponse(version="2.51.0")


class Guarded(Answering):
    """Model control that tells what opened it."""

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if not name.startswith(("Repository", "Server")):
            return method

        async def noted(request: Any, context: Any) -> Any:
            metadata = dict(context.invocation_metadata())
            self.asked.append(f"{name} {metadata.get('triton-grpc-protocol-access')}")
            return await method(request, context)

        return noted


async def test_model_control_carries_its_secret() -> None:
    """Each call over gRPC has the secret of model control; over HTTP goes the other one alone."""
    server, servicer = grpc.aio.server(), Guarded()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    heads = []

    async def script(peer: Peer) -> None:
        heads.append((await peer.request())[0])
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    access = TritonAccess("c0ntrol", "inf3rence")
    async with fake_server(script) as stage:
        client = TritonClient(stage.path, f"127.0.0.1:{port}", access)
        await client.control.request_load(PLAN, Deadline(WAIT_S))
        await client.control.request_unload(PLAN, Deadline(WAIT_S))
        await client.control.learn_version()
        assert client.control.version == "2.51.0"
        assert await client.is_live()
        await client.close()
    await server.stop(0)
    calls = [said.split()[0] for said in servicer.asked if said.endswith(" c0ntrol")]
    assert {*calls} == {
        "ServerLive",
        "RepositoryModelLoad",
        "RepositoryModelUnload",
        "RepositoryIndex",
        "ServerMetadata",
    }
    assert b"x-serve-access: inf3rence" in heads[0]
    assert b"c0ntrol" not in heads[0]
    make_secret = TritonAccess.make_secret(), TritonAccess.make_secret()
    assert len({secret for each in make_secret for secret in (each.control, each.inference)}) == 4


@pytest.mark.parametrize(
    ("version", "restarts"),
    [("", True), ("2.36.0", True), ("2.46.0", True), ("2.47.0", False), ("3.1", False)],
)
def test_who_starts_dead_stubs_again(version: str, restarts: bool) -> None:
    """Up to 24.05; who is not known may."""
    client = TritonClient(NOWHERE, NO_GRPC)
    client.control.version = version
    assert client.control.restarts_stubs is restarts


@contextlib.asynccontextmanager
async def answering(address: str) -> AsyncIterator[Answering]:
    """It, at an address of gRPC's."""
    server, servicer = grpc.aio.server(), Answering()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    server.add_insecure_port(address)
    await server.start()
    try:
        yield servicer
    finally:
        await server.stop(0)


@contextlib.asynccontextmanager
async def held_back(
    directory: Path, delay_s: float
) -> AsyncIterator[tuple[TritonClient, Answering]]:
    """A client of one that lives, and says nothing on a new connection for so long."""

    async def relay(peer: Peer) -> None:
        await asyncio.sleep(delay_s)
        there, back = await asyncio.open_unix_connection(path)
        try:
            await asyncio.gather(pump(peer.reader, back), pump(there, peer.writer))
        finally:
            back.close()
            await back.wait_closed()

    path = directory / "grpc"
    async with (
        answering(f"unix:{path}") as servicer,
        fake_server(LIVE) as http,
        fake_server(relay) as slow,
    ):
        client = TritonClient(NOWHERE, f"unix:{slow.path}", http=http.http)
        try:
            yield client, servicer
        finally:
            await client.close()


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """No file or socket can be opened."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(2**16):
        writer.write(piece)


@pytest.mark.parametrize("code", CODES, ids=str)
@pytest.mark.parametrize("message", ["no", "", "a\nb\n\nAt:\n x"])
async def test_every_status_of_a_load_is_translated(code: grpc.StatusCode, message: str) -> None:
    """Into one sentence: the server's absence, its lateness, or the model's fault."""
    async with control(code, message) as client:
        with pytest.raises(ServeError) as raised:
            await client.control.request_load(PLAN, Deadline(WAIT_S))
        assert "\n" not in str(raised.value)
        expected = {
            grpc.StatusCode.DEADLINE_EXCEEDED: TritonTimeout,
            **dict.fromkeys(UNREACHABLE, TritonUnavailable),
        }.get(code, ModelUnusable)
        assert type(raised.value) is expected


@pytest.mark.parametrize("code", CODES, ids=str)
async def test_every_status_of_an_unload_is_translated(code: grpc.StatusCode) -> None:
    """A server that is not there holds nothing; any other failure is told."""
    async with control(code, health=None) as client:
        if code in UNREACHABLE:
            await client.control.request_unload(PLAN, Deadline(WAIT_S))
        else:
            with pytest.raises(TritonUnavailable, match="no"):
                await client.control.request_unload(PLAN, Deadline(WAIT_S))


@pytest.mark.parametrize("health", [LIVE, hangs], ids=["lives", "is late"])
@pytest.mark.parametrize("code", UNREACHABLE, ids=str)
async def test_an_unload_that_did_not_arrive_is_no_unload(
    code: grpc.StatusCode, health: Script
) -> None:
    """One that is there is asked until it has answered, or the time is over."""
    async with control(code, health=health) as client:
        with pytest.raises(TritonTimeout, match=r"1\.2 s$"):
            await client.control.request_unload(PLAN, Deadline(1.2))


async def test_a_connection_that_takes_long(tmp_path: Path) -> None:
    """A busy tritonserver is one that a load and an unload wait for."""
    async with held_back(tmp_path, 0.5) as (client, server):
        await client.control.request_unload(PLAN, Deadline(WAIT_S))
        assert server.asked == ["unload m"]
    async with held_back(tmp_path, 0.5) as (client, server):
        await client.control.request_load(PLAN, Deadline(WAIT_S))
        assert server.asked == ["load m"]


async def test_a_load_just_after_tritonserver_has_come_up() -> None:
    """gRPC found nobody a moment ago, and does not look again at once."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = TritonClient(NOWHERE, f"127.0.0.1:{port}")
    await client.control.request_unload(PLAN, Deadline(WAIT_S))  # nobody is there
    loading = asyncio.ensure_future(client.control.request_load(PLAN, Deadline(WAIT_S)))
    await asyncio.sleep(0.05)
    assert not loading.done()
    async with answering(f"127.0.0.1:{port}") as server:
        await loading
        assert server.asked == ["load m"]
    await client.close()


async def test_a_load_is_all_in_one_tritonserver() -> None:
    """One that dies between what is called and the model itself takes the first with it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    calling = replace(PLAN, called=("m.s",))

    class Dying(triton_grpc.InferenceServerClient):  # type: ignore[misc] # untyped
        async def load_model(self, name: str, **options: Any) -> None:
            if name == "m":
                await first.aclose()
            await super().load_model(name, **options)

    client = TritonClient(NOWHERE, f"127.0.0.1:{port}", connect=Dying)
    async with contextlib.AsyncExitStack() as first:
        server = await first.enter_async_context(answering(f"127.0.0.1:{port}"))
        loading = asyncio.ensure_future(client.control.request_load(calling, Deadline(WAIT_S)))
        with pytest.raises(TritonUnavailable, match="went away during the load"):
            await loading
        assert server.asked == ["load m.s"]
    await client.close()


async def test_an_answer_at_the_moment_of_the_limit() -> None:
    """The limit holds also when it falls on the answer to a question that was asked meanwhile."""

    class Http(TritonHttp):
        """Its first answer comes exactly then."""

        asked = 0

        async def request(self, *_: Any, **__: Any) -> Answer:
            self.asked += 1
            if self.asked == 1:
                come: asyncio.Future[None] = loop.create_future()
                loop.call_at(limit, come.set_result, None)
                await come
            return Answer(status=200)

    loop = asyncio.get_running_loop()
    async with control(grpc.StatusCode.UNAVAILABLE, http=Http(NOWHERE)) as client:
        limit = loop.time() + 0.3
        with pytest.raises(TritonTimeout):
            await asyncio.wait_for(client.control.request_unload(PLAN, Deadline(0.3)), WAIT_S)


async def test_who_cannot_ask_does_not_know() -> None:
    """A lack of our own is no sign that tritonserver is gone."""
    async with control(grpc.StatusCode.UNAVAILABLE) as client:
        with no_descriptors(), pytest.raises(TritonTimeout):
            await client.control.request_unload(PLAN, Deadline(0.3))


async def test_control_that_never_answers() -> None:
    """Bounded by the caller's limits; the message names the setting of one that has a setting."""
    async with control(None) as client:
        with pytest.raises(TritonTimeout, match=r"0\.2 s; raise SERVE_LOAD_TIMEOUT"):
            await client.control.request_load(PLAN, Deadline(TimeLimit(0.2, "SERVE_LOAD_TIMEOUT")))
        with pytest.raises(TritonTimeout, match=r"0\.2 s$"):
            await client.control.request_unload(PLAN, Deadline(0.2))


async def test_control_that_is_closed_meanwhile() -> None:
    """The container stops: a load that waits ends with an error of ours, or as cancelled."""
    async with control(None) as client:
        loading = asyncio.ensure_future(client.control.request_load(PLAN, Deadline(WAIT_S)))
        await asyncio.sleep(0.1)
        await client.close()
        done, _ = await asyncio.wait({loading}, timeout=WAIT_S)
        assert done
        assert loading.cancelled() or isinstance(loading.exception(), ServeError)


async def test_control_that_is_closed_before() -> None:
    """Nobody waits for a new connection: whoever comes too late is told at once."""
    async with control(None) as client:
        await client.close()
        for call in (client.control.request_load, client.control.request_unload):
            with pytest.raises(TritonUnavailable, match="the connection is closed"):
                await call(PLAN, Deadline(WAIT_S))
        with pytest.raises(TritonUnavailable, match="the connection is closed"):
            await client.control.states(PLAN)
        await client.control.learn_version()
        assert await client.control.answers_load("m", WAIT_S)


async def test_nobody_is_there() -> None:
    """Health is no, control and inference say that it cannot be reached."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = TritonClient(NOWHERE, f"127.0.0.1:{port}")
    assert not await client.is_live()
    assert not await client.is_model_ready("m")
    with pytest.raises(TritonUnavailable):
        await client.infer(b"/x", [], [b"x"], WAIT_S)
    with pytest.raises(TritonUnavailable):
        await client.infer(b"/x", [], [b"x"], WAIT_S, streams=True)
    with pytest.raises(TritonUnavailable, match="nobody is there"):
        await client.control.request_load(PLAN, Deadline(0.2))
    await client.control.request_unload(PLAN, Deadline(WAIT_S))
    with pytest.raises(TritonUnavailable, match=r"not live within 0\.1 s"):
        await client.wait_until_live(0.1)
    await client.close()


async def resets(peer: Any) -> None:
    await peer.request()
    peer.writer.transport.abort()


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BROKEN: list[tuple[str, Script]] = [
    ("closes", saying()),
    ("resets", resets),
    ("hangs", hangs),
    ("garbage", saying(b"\0\xff\r\n\r\n")),
    ("bad status", saying(b"HTTP/1.1 abc\r\n\r\n")),
    ("bad version", saying(b"HTTP/9.9.9 200 OK\r\n\r\n")),
    ("upgrade", saying(b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")),
    ("bad length", saying(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")),
    ("half a body", saying(HEAD + b"5\r\nab")),
    ("bad chunk", saying(HEAD, b"zz\r\n")),
]


async def read_stream(client: TritonClient, timeout_s: float) -> None:
    answer = await client.infer(b"/x", [], [b"x"], timeout_s, streams=True)
    pieces = answer.rest
    assert pieces is not None
    async for _ in pieces:
        pass


async def read_answer(client: TritonClient, timeout_s: float) -> None:
    await client.infer(b"/x", [], [b"x"], timeout_s)


@pytest.mark.parametrize(
    "script", [script for _, script in BROKEN], ids=[name for name, _ in BROKEN]
)
@pytest.mark.parametrize("call", [read_answer, read_stream])
async def test_every_broken_answer_is_translated(
    script: Script, call: Callable[[TritonClient, float], Awaitable[None]]
) -> None:
    """Whole answers and streams, at the head and behind it; and health is simply no."""
    async with fake_server(script) as stage:
        client = TritonClient(stage.path, NO_GRPC)
        with pytest.raises((TritonUnavailable, TritonTimeout)) as raised:
            await call(client, 0.5)
        assert "\n" not in str(raised.value)
        await client.close()


@pytest.mark.parametrize("threads", [True, False])
async def test_who_leaves_does_not_have_the_loop_hash(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, threads: bool
) -> None:
    """What he sent is hashed beside it, and is then kept no more."""
    hashed: list[threading.Thread] = []
    asked: list[str] = []

    async def in_thread(work: Callable[[], T], name: str) -> T:
        def hashing() -> T:
            hashed.append(threading.current_thread())
            return work()

        asked.append(name)
        return await run_in_daemon_thread(hashing, name)

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    if not threads:
        monkeypatch.setattr(threading.Thread, "start", no_thread)

    async def reads(peer: Peer) -> None:
        await peer.request()
        clock.advance(WAIT_S + 1)
        await peer.closed()

    async with fake_server(reads) as stage:
        trials = Trials()
        book = trials.suspects
        client = TritonClient(stage.path, NO_GRPC, trials=trials, in_thread=in_thread)
        body = [b"x" * 5_000_000]
        with pytest.raises(TritonTimeout):
            await client.infer(b"/x", [], body, WAIT_S)
        assert asked == []
        assert book.unhashed is not None
        while book.unhashed is not None:  # noqa: ASYNC110 # a thread makes it so
            await asyncio.sleep(0.01)
        assert asked == ["hash"]
        assert [thread is threading.main_thread() for thread in hashed] == [False] * threads
        assert len(book.lost_sight_of.entries) == 1
        references = sys.getrefcount(body[0])
        assert references == 2
        await client.close()


async def test_a_body_is_kept_by_no_connection() -> None:
    """Neither one that waits for the next request nor one that was closed."""
    bodies = [[b"x" * size] for size in (1_000_000, 1_000_001)]

    def grown(size: int) -> int:
        raise LookupError(bodies)

    async def ask(body: list[bytes]) -> None:
        await client.infer(b"/x", [], body, WAIT_S, grown=grown)

    async with fake_server(saying_each(b"", b"x" * 100_000)) as stage:
        client = TritonClient(stage.path, NO_GRPC)
        await ask(bodies[0])
        references = [sys.getrefcount(bodies[0][0])]
        with pytest.raises(LookupError):
            await ask(bodies[1])
        references.append(sys.getrefcount(bodies[1][0]))
        assert references == [2, 2]
        await client.close()


def saying_each(*bodies: bytes) -> Script:
    """One answer after the other."""

    async def script(peer: Peer) -> None:
        for body in bodies:
            await peer.request()
            await peer.send(answer(body))
        await peer.closed()

    return script


def test_every_parser_error_is_known() -> None:
    """Those that httptools exports are the two kinds that the connection catches."""
    exported = [getattr(httptools, name) for name in httptools.__all__]
    errors = [it for it in exported if inspect.isclass(it) and issubclass(it, Exception)]
    assert len(errors) >= 6
    for error in errors:
        assert issubclass(error, (httptools.HttpParserError, httptools.HttpParserUpgrade))
