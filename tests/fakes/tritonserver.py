"""A tritonserver that misbehaves on demand: the part of its protocols that the container uses.

It takes tritonserver's arguments, serves `/v2` over HTTP and model control over gRPC, and echoes
inference requests. What it does wrong stands in the environment variable FAKE_TRITON, as JSON:

    record              file that gets one JSON line for each thing that happened
    say                 words that it writes at its start, as they are, `say_times` (1)
    exit_at_start       exit code: ends at once
    never_live          true: listens on nothing
    ignore_sigterm      true
    die_after_requests  number of inference requests after which it exits with `die_code` (9)
    load                {model or "*": {...}}   delay_s, until (a file: no answer before it is
                        there), hang, message, code (a grpc.StatusCode's name, INTERNAL), after
                        (how many loads go well first; 0), times (how many loads this holds for
                        then; always)
    unload              {model or "*": {...}}   ready_for_s (seconds it stays READY; -1: for ever)
    infer               {model or "*": {...}}   status, message, times, delay_s, until, together
                        (no answer before so many requests have come), hang, close_mid_answer,
                        garbage, chunked
    computes            true: answers `IN` plus the model's parameter `addend`, or what its steps
                        make of it, in the place of an echo; FP32, as JSON
    dead_stubs          [model, ...]  whose Python stubs are dead once they are loaded: the server
                        is not ready, as from 26.04 on, and says so of inference
    refuses_names       true: as the Python backend from 25.08 on, and tritonserver 26.03
    lives               [{...}, ...]  each life's own knobs over the common ones; the last repeats

Lives are counted in the record file. `install` writes a launcher that runs it under this Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

Knobs = Mapping[str, Any]
VARIABLE = "FAKE_TRITON"
UNIX = "unix:"
_LOOK_S = 0.005
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def install(path: Path) -> Path:
    """Writes an executable at the path that runs this program whatever PATH says.

    It says, as a real one does, which newer option it knows.
    """
    path.write_text(
        f'#!/bin/sh\n# --metrics-address\nexec {sys.executable} {Path(__file__).resolve()} "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def read_record(path: Path) -> list[dict[str, Any]]:
    """What happened so far, each with its `event`."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass
class Fake:
    """One life of the server: its knobs, its models, and what happened."""

    knobs: Knobs
    repository: Path
    states: dict[str, tuple[str, str]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    unloaded_at: dict[str, float] = field(default_factory=dict)
    requests: int = 0
    listening: list[asyncio.Server] = field(default_factory=list)
    connected: set[asyncio.Task[None]] = field(default_factory=set)

    def record(self, event: str, **facts: object) -> None:
        if self.knobs.get("record"):
            with Path(self.knobs["record"]).open("a") as file:
                file.write(json.dumps({"event": event, **facts}) + "\n")

    def behaviour(self, kind: str, model: str) -> Knobs:
        """The knobs for this call; {} before their `after` and once their `times` are used up."""
        table = self.knobs.get(kind, {})
        key = model if model in table else "*"
        wrong: Knobs = table.get(key, {})
        self.counts[f"{kind} {key}"] += 1
        nth = self.counts[f"{kind} {key}"] - wrong.get("after", 0)
        return wrong if 0 < nth <= wrong.get("times", sys.maxsize) else {}

    def members(self, model: str) -> list[str]:
        """The model and, for an ensemble, its steps."""
        config = self.repository / model / "config.pbtxt"
        words = config.read_text() if config.is_file() else ""
        steps = re.findall(r'model_name\s*:\s*"([^"]+)"', words)
        return [model, *(name for step in steps for name in self.members(step))]

    def addend(self, model: str) -> float:
        """What it adds, with its steps, if it has any."""
        words = (self.repository / model / "config.pbtxt").read_text()
        found = re.search(r'"addend"[^"]*string_value\s*:\s*"([^"]+)"', words)
        steps = [name for name in self.members(model) if name != model]
        return float(found[1]) if found else sum(map(self.addend, steps))

    def is_ready(self, model: str) -> bool:
        self.settle()
        return self.states.get(model, ("", ""))[0] == "READY"

    def has_dead_stub(self) -> bool:
        return any(self.is_ready(model) for model in self.knobs.get("dead_stubs", ()))

    def refused_name(self, model: str) -> str:
        """Why a model is not loaded for its name or that of a group of its instances; "" if it is.

        Of a stub: python_backend r25.08, src/pb_utils.h; of any model: core r26.03,
        ValidateModelName.
        """
        if not self.knobs.get("refuses_names"):
            return ""
        if ".." in model:
            return f"invalid model name '{model}', model name must not contain path traversal"
        for name in self.members(model):
            words = (self.repository / name / "config.pbtxt").read_text()
            groups = re.findall(r'instance_group\s*\{[^}]*name\s*:\s*"([^"]*)"', words)
            python = re.search(r'backend\s*:\s*"python"', words)
            if python and set("".join((name, *groups))) & _REFUSED:
                return "Invalid stub name: contains invalid characters"
        return ""

    def settle(self) -> None:
        """Ends the unloads whose time has come."""
        for model, when in list(self.unloaded_at.items()):
            if time.monotonic() >= when:
                del self.unloaded_at[model]
                self.states[model] = ("UNAVAILABLE", "unloaded")

    def index(self) -> list[tuple[str, str, str]]:
        """(name, state, reason) of everything in the repository or ever loaded."""
        self.settle()
        folders = [p.name for p in self.repository.iterdir()] if self.repository.is_dir() else []
        names = sorted({*folders, *self.states})
        return [(name, *self.states.get(name, ("", ""))) for name in names]

    def unload(self, model: str, dependents: bool) -> None:
        wait = self.behaviour("unload", model).get("ready_for_s", 0)
        when = time.monotonic() + wait if wait >= 0 else float("inf")
        for name in self.members(model) if dependents else [model]:
            if name in self.states:
                self.unloaded_at[name] = when


#: Of a stub's name (python_backend r25.08, src/pb_utils.h).
_REFUSED = set(";|&$`<>()[]{}\\\"'*?~#!")


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


async def wait(wrong: Knobs) -> None:
    """As long as the knobs say."""
    await asyncio.sleep(wrong.get("delay_s", 0))
    file = Path(wrong.get("until", "/"))
    while not file.exists():  # noqa: ASYNC110, ASYNC240 # a test makes it
        await asyncio.sleep(_LOOK_S)


async def load(fake: Fake, model: str) -> None:
    """Loads as the knobs say; raises Refusal."""
    wrong = fake.behaviour("load", model)
    if wrong.get("hang"):
        fake.states[model] = ("LOADING", "")
        await asyncio.Event().wait()
    await wait(wrong)
    if "message" in wrong:
        fake.states[model] = ("UNAVAILABLE", wrong["message"])
        raise Refusal(wrong.get("code", "INTERNAL"), wrong["message"])
    if not (fake.repository / model).is_dir():
        raise Refusal("INTERNAL", f"failed to load '{model}', failed to poll from model repository")
    if refused := fake.refused_name(model):
        raise Refusal("INVALID_ARGUMENT", refused)
    config = fake.repository / model / "config.pbtxt"
    if config.is_file() and 'backend: "serve_canary"' in config.read_text():
        raise Refusal("INVALID_ARGUMENT", "unable to find backend library for 'serve_canary'")
    for name in fake.members(model):
        fake.unloaded_at.pop(name, None)
        fake.states[name] = ("READY", "")


# HTTP: written by hand, since a well-made server would not misbehave.


async def serve_http(
    fake: Fake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection, kept alive until either side closes it."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while head := await _read_head(reader):
            method, path, headers = head
            body = await _read_body(reader, headers)
            if not await _answer(fake, writer, method, path, headers, body):
                break
    writer.close()


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str]] | None:
    line = (await reader.readline()).decode("latin-1").split()
    if len(line) < 2:
        return None
    headers: dict[str, str] = {}
    while (row := (await reader.readline()).decode("latin-1").strip()) != "":
        name, _, value = row.partition(":")
        headers[name.strip().lower()] = value.strip()
    return line[0], line[1], headers


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


async def _answer(
    fake: Fake,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
) -> bool:
    """Whether the connection goes on."""
    model = re.fullmatch(
        r"/v2/models/([^/]+)(?:/versions/[^/]+)?/(infer|ready|generate|generate_stream)", path
    )
    if path == "/v2/health/ready":
        return await _send(writer, 503 if fake.has_dead_stub() else 200, b"")
    if path == "/v2/health/live":
        return await _send(writer, 200, b"")
    if model and model[2] == "ready":
        is_dead = model[1] in fake.knobs.get("dead_stubs", ())
        ready = fake.is_ready(model[1]) and not is_dead
        return await _send(writer, 200 if ready else 400, b"")
    if not model or method != "POST":
        return await _send(writer, 404, _error(f"no such path: {method} {path}"))
    fake.record("infer", model=model[1], verb=model[2], headers=dict(headers), size=len(body))
    fake.requests += 1
    if fake.requests > fake.knobs.get("die_after_requests", sys.maxsize):
        os._exit(fake.knobs.get("die_code", 9))
    return await _infer(fake, writer, model[1], model[2], headers, body)


async def _infer(
    fake: Fake,
    writer: asyncio.StreamWriter,
    model: str,
    verb: str,
    headers: Mapping[str, str],
    body: bytes,
) -> bool:
    wrong = fake.behaviour("infer", model)
    if wrong.get("hang"):
        await asyncio.Event().wait()
    await wait(wrong)
    while fake.requests < wrong.get("together", 0):  # noqa: ASYNC110 # they come
        await asyncio.sleep(_LOOK_S)
    if wrong.get("garbage"):
        writer.write(b"\x00\xffthis is not HTTP\r\n\r\n")
        await writer.drain()
        return False
    if "status" in wrong or "message" in wrong:
        message = wrong.get("message", f"status {wrong.get('status')}")
        return await _send(writer, wrong.get("status", 500), _error(message))
    if model in fake.knobs.get("dead_stubs", ()) and fake.is_ready(model):
        dead = f"Stub process '{model}_0_0' is not healthy."
        return await _send(writer, 500, _error(dead))
    if not fake.is_ready(model):
        return await _send(
            writer, 400, _error(f"Request for unknown model: '{model}' is not found")
        )
    return await _echo(fake, writer, wrong, model, verb, headers, body)


def _computed(fake: Fake, model: str, body: bytes) -> bytes:
    """What the models of tests/support/models.py answer: sums."""
    (given,) = json.loads(body)["inputs"]
    values = [value + fake.addend(model) for value in given["data"]]
    output = {"name": "OUT", "datatype": "FP32", "shape": [len(values)], "data": values}
    return json.dumps({"model_name": model, "outputs": [output]}).encode()


async def _echo(
    fake: Fake,
    writer: asyncio.StreamWriter,
    wrong: Knobs,
    model: str,
    verb: str,
    headers: Mapping[str, str],
    body: bytes,
) -> bool:
    if verb == "generate_stream":
        event = json.dumps({"model_name": model, "text_output": body.decode(errors="replace")})
        events = f"data: {event}\n\n".encode() * 2
        return await _send(writer, 200, events, {"Content-Type": "text/event-stream"}, chunked=True)
    size = headers.get("inference-header-content-length")
    if size is not None:  # binary in, binary out: the same bytes with the same header size
        extra = {
            "Inference-Header-Content-Length": size,
            "Content-Type": "application/octet-stream",
        }
        return await _send(writer, 200, body, extra)
    if fake.knobs.get("computes"):
        answer = _computed(fake, model, body)
    else:
        answer = json.dumps({"model_name": model, "echo": body.decode(errors="replace")}).encode()
    if wrong.get("close_mid_answer"):
        writer.write(_head(200, {"Content-Length": str(len(answer))}) + answer[: len(answer) // 2])
        await writer.drain()
        return False
    return await _send(writer, 200, answer, chunked=bool(wrong.get("chunked")))


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    *,
    chunked: bool = False,
) -> bool:
    kind = {"Content-Type": "application/json", **(headers or {})}
    if chunked:
        half = len(body) // 2
        parts = [part for part in (body[:half], body[half:]) if part]
        frames = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        writer.write(
            _head(status, {**kind, "Transfer-Encoding": "chunked"}) + frames + b"0\r\n\r\n"
        )
    else:
        writer.write(_head(status, {**kind, "Content-Length": str(len(body))}) + body)
    await writer.drain()
    return True


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    rows = [f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}"]
    rows += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(rows) + "\r\n\r\n").encode("latin-1")


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


# gRPC: the calls of model control.


def _pass_over_the_client() -> None:
    """tritonclient.grpc is its protobufs then, without its clients, which take 0.2 s to import."""
    for name in ("tritonclient", "tritonclient.grpc"):
        if name not in sys.modules:
            within = getattr(sys.modules.get("tritonclient"), "__path__", None)
            found = PathFinder.find_spec(name, within)
            assert found is not None, "tritonclient is not installed"
            package = ModuleType(name)
            package.__path__ = list(found.submodule_search_locations or ())
            sys.modules[name] = package


def grpc_server(fake: Fake, address: str) -> Any:
    """A server that is bound and not yet started."""
    import grpc

    _pass_over_the_client()
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    class Service(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc] # untyped
        async def ServerLive(self, request: Any, context: Any) -> Any:
            return service_pb2.ServerLiveResponse(live=True)

        async def ServerReady(self, request: Any, context: Any) -> Any:
            return service_pb2.ServerReadyResponse(ready=True)

        async def ModelReady(self, request: Any, context: Any) -> Any:
            return service_pb2.ModelReadyResponse(ready=fake.is_ready(request.name))

        async def RepositoryIndex(self, request: Any, context: Any) -> Any:
            fake.record("index")
            answer = service_pb2.RepositoryIndexResponse()
            for name, state, reason in fake.index():
                if state == "READY" or not request.ready:
                    answer.models.add(name=name, version="1", state=state, reason=reason)
            return answer

        async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:
            fake.record("load", model=request.model_name)
            try:
                await load(fake, request.model_name)
            except Refusal as refused:
                await context.abort(getattr(grpc.StatusCode, refused.code), refused.message)
            return service_pb2.RepositoryModelLoadResponse()

        async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:
            dependents = request.parameters["unload_dependents"].bool_param
            fake.record("unload", model=request.model_name, unload_dependents=dependents)
            fake.unload(request.model_name, dependents)
            return service_pb2.RepositoryModelUnloadResponse()

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Service(), server)
    server.add_insecure_port(address)
    return server


def metrics_text(fake: Fake) -> bytes:
    """A page as tritonserver's metrics port gives it."""
    name = "nv_inference_request_success"
    rows = [f"# HELP {name} Number of successful inference requests", f"# TYPE {name} counter"]
    ready = [model for model in fake.states if fake.is_ready(model)]
    rows += [f'{name}{{model="{model}",version="1"}} {fake.requests}' for model in ready]
    return ("\n".join(rows) + "\n").encode()


async def serve_metrics(
    fake: Fake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One request a connection."""
    with contextlib.suppress(ConnectionError):
        await _read_head(reader)
        page = metrics_text(fake)
        await _send(writer, 200, page, {"Content-Type": "text/plain", "Connection": "close"})
    writer.close()


def read_arguments(argv: list[str]) -> dict[str, str]:
    """`--name=value` and `--name value`; a name alone is "true". The last of equal names counts."""
    found: dict[str, str] = {}
    rest = list(argv)
    while rest:
        name, equals, value = rest.pop(0).removeprefix("--").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        found[name] = value
    return found


def read_knobs(raw: str) -> Knobs:
    """The knobs of this life."""
    knobs: dict[str, Any] = json.loads(raw or "{}")
    lives = knobs.get("lives")
    if not lives:
        return knobs
    past = sum(e["event"] == "start" for e in read_record(Path(knobs["record"])))
    return {**knobs, **lives[min(past, len(lives) - 1)]}


async def main(argv: list[str], knobs: Knobs) -> int:
    """Serves until SIGTERM; the exit code."""
    arguments = read_arguments(argv)
    fake = Fake(knobs, Path(arguments.get("model-repository", "/nonexistent")))
    fake.record("start", pid=os.getpid(), argv=argv)
    for _ in range(knobs.get("say_times", 1)):
        os.write(2, knobs.get("say", "").encode())
    if "exit_at_start" in knobs:
        return int(knobs["exit_at_start"])
    stop = asyncio.Event()
    on_term: Callable[[], object] = (lambda: None) if knobs.get("ignore_sigterm") else stop.set
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, on_term)
    closing: list[Callable[[], Awaitable[Any]]] = []
    if not knobs.get("never_live"):
        closing = await listen(fake, arguments)
    await stop.wait()
    for close in closing:
        await close()
    fake.record("stop")
    return 0


async def listen(fake: Fake, arguments: Mapping[str, str]) -> list[Callable[[], Awaitable[Any]]]:
    """Listens where the arguments say; what closes gRPC's."""
    closing: list[Callable[[], Awaitable[Any]]] = []
    http_address = arguments.get("http-address", "127.0.0.1")

    async def listen_at(serve: Any, address: str, port: str) -> None:
        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            serving = asyncio.ensure_future(serve(fake, reader, writer))
            fake.connected.add(serving)
            try:
                await asyncio.wait({serving})
            finally:
                fake.connected.discard(serving)
                writer.transport.abort() if serving.cancelled() else writer.close()

        if address.startswith(UNIX):
            server = await asyncio.start_unix_server(connect, address.removeprefix(UNIX))
        else:
            server = await asyncio.start_server(connect, address, int(port))
        fake.listening.append(server)

    # gRPC first, as tritonserver does: who finds the HTTP port open finds all of them.
    if arguments.get("allow-grpc") != "false":
        address = arguments.get("grpc-address", "127.0.0.1")
        server = grpc_server(fake, f"{address}:{arguments.get('grpc-port', '8001')}")
        await server.start()
        closing.append(lambda: server.stop(0))
    if arguments.get("allow-metrics") == "true":
        address = arguments.get("metrics-address", http_address)
        await listen_at(serve_metrics, address, arguments.get("metrics-port", "8002"))
    await listen_at(serve_http, http_address, arguments.get("http-port", "8000"))
    return closing


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:], read_knobs(os.environ.get(VARIABLE, "")))))
