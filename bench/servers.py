"""Servers that are asked, looked at from outside, and stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from bench.errors import AnswerWrong, BenchError, ServerFailed
from bench.models import Archives
from bench.payloads import Payload
from bench.proc import (
    Process,
    is_alive,
    list_descendants,
    list_processes,
    read_proportional_mb,
)
from bench.wrk import Target, write_target

_START_S, _STOP_S, _CALL_S = 60.0, 30.0, 300.0
SHARED_MEMORY = Path("/dev/shm")
#: What a tritonserver is told to begin the names of its models' shared memory with.
REGIONS = "--backend-config=python,shm-region-prefix-name="
_LOOK_S = 0.002
#: Beside the file of a compiled workflow's model.
_COMPILED = "compiled_workflow"


@dataclass(frozen=True)
class HttpAnswer:
    """Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __str__(self) -> str:
        return f"{self.status} {self.body.decode(errors='replace')[:500]}"


@dataclass
class Endpoint:
    """Where models are invoked: by SageMaker's contract, or by Triton's own protocol."""

    name: str
    port: int

    sagemaker: ClassVar[bool] = False

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """A request on a connection of its own; a body other than bytes becomes JSON."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = dict(headers or {"Content-Type": "application/json"})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CALL_S)
        with contextlib.closing(connection):
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            named = {key.lower(): value for key, value in response.getheaders()}
            return HttpAnswer(response.status, named, response.read())

    def demand(self, method: str, path: str, body: object = None) -> bytes:
        """The body of a 200. Raises AnswerWrong."""
        answer = self.ask(method, path, body)
        if answer.status != 200:
            raise AnswerWrong(self.name, f"{method} {path}", f"{answer}", "200")
        return answer.body

    def check(self, model: str, payload: Payload, what: str) -> None:
        """Invoke the model once and compare its answer value by value. Raises AnswerWrong."""
        answer = self._invoke(model, payload, what)
        if fault := payload.find_fault(answer.headers, answer.body, exact=self.name == "ours"):
            raise AnswerWrong(self.name, what, fault, "the values that were computed beforehand")

    def take_answer(self, model: str, payload: Payload, tolerance: float, what: str) -> Payload:
        """The binary request with this server's answer as the right one. Raises AnswerWrong."""
        answer = self._invoke(model, payload, what)
        return payload.with_answer(answer.headers, answer.body, tolerance)

    def write_target(self, directory: Path, model: str, payload: Payload, what: str) -> Target:
        """The invocation for wrk, after its answer was compared. Raises AnswerWrong."""
        self.check(model, payload, what)
        started = time.perf_counter()
        self.check(model, payload, what)
        answer_s = time.perf_counter() - started
        url = f"http://127.0.0.1:{self.port}{self._path(model)}"
        headers = payload.headers(self.sagemaker)
        name = f"{self.name.replace(' ', '-')}-{self.port}-{model}-{len(payload.body)}"
        target = write_target(directory, name, url, payload.body, headers)
        return replace(target, answer_s=answer_s)

    def _path(self, model: str) -> str:
        return f"/models/{model}/invoke" if self.sagemaker else f"/v2/models/{model}/infer"

    def _invoke(self, model: str, payload: Payload, what: str) -> HttpAnswer:
        headers = payload.headers(self.sagemaker)
        answer = self.ask("POST", self._path(model), payload.body, headers)
        if answer.status != 200:
            raise AnswerWrong(self.name, what, f"{answer}", "200")
        return answer


@dataclass
class Server(Endpoint):
    """A process that was started, in a session of its own."""

    process: subprocess.Popen[bytes]
    log: Path
    archives: Archives
    started: float = field(default_factory=time.monotonic, kw_only=True)

    #: Where it says that it is ready.
    ready: ClassVar[str] = "/v2/health/ready"

    def load(self, model: str) -> None:
        """Return when the model of that name is ready."""
        raise NotImplementedError

    def unload(self, model: str) -> None:
        """Return when the server has answered."""
        raise NotImplementedError

    def until_ready(self) -> float:
        """The seconds from its start until it is ready. Raises ServerFailed."""
        while time.monotonic() - self.started < _START_S:
            if self.process.poll() is not None:
                raise self._failed(f"exit code {self.process.returncode}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", self.ready).status == 200:
                    return time.monotonic() - self.started
            time.sleep(_LOOK_S)
        raise self._failed(f"no 200 at {self.ready} in {_START_S:g} s")

    def _failed(self, found: str) -> ServerFailed:
        return ServerFailed(self.name, found, self.log.read_text(errors="replace")[-3000:])

    def list_stubs(self, model: str | None = None) -> list[Process]:
        """Python models' processes below it, of one model or of all."""
        below = list_descendants(self.process.pid)
        return [child for child in below if (child.serves(model) if model else child.is_stub)]

    @cached_property
    def _region_prefix(self) -> str:
        own = (child for child in list_processes() if child.pid == self.process.pid)
        commands = (child.command for child in (*own, *list_descendants(self.process.pid)))
        arguments = (argument for command in commands for argument in command)
        return next(it for it in arguments if it.startswith(REGIONS)).removeprefix(REGIONS)

    def list_regions(self) -> set[str]:
        """The shared memory of its Python models, by name."""
        prefix = self._region_prefix
        return {name for name in os.listdir(SHARED_MEMORY) if name.startswith(prefix)}

    def stop(self) -> None:
        """Send SIGTERM, and after a while SIGKILL to all of its session that is left."""
        stop_with_children(self.process, _STOP_S)

    @contextlib.contextmanager
    def loaded(self, *models: str) -> Iterator[None]:
        """Within the block the models are loaded."""
        with ExitStack() as undo:
            for model in models:
                self.load(model)
                undo.callback(self.unload, model)
            yield


@dataclass
class SageMakerServer(Server):
    """Ours or the rival: SageMaker's multi-model contract."""

    sagemaker: ClassVar[bool] = True
    ready: ClassVar[str] = "/ping"

    def load(self, model: str) -> None:
        """POST /models, of an archive by its name."""
        body = {"model_name": model, "url": str(self.archives.path(model))}
        self.demand("POST", "/models", body)

    def unload(self, model: str) -> None:
        """DELETE /models/{model}."""
        self.demand("DELETE", f"/models/{model}")


@dataclass
class Container(SageMakerServer):
    """Ours."""

    @cached_property
    def triton(self) -> Process:
        """Its tritonserver."""
        below = list_descendants(self.process.pid)
        return next(process for process in below if process.command[0].endswith("/tritonserver"))

    def triton_argument(self, name: str) -> str:
        """The value of an argument that its tritonserver was started with."""
        prefix = f"--{name}="
        return next(it.removeprefix(prefix) for it in self.triton.command if it.startswith(prefix))

    @property
    def repository(self) -> Path:
        """Where it publishes models."""
        return Path(self.triton_argument("model-repository"))

    def read_load_seconds(self, stage: str) -> float:
        """How long loads have been in that stage, all together."""
        page = self.demand("GET", "/metrics").decode()
        (seconds,) = re.findall(
            rf'^serve_load_seconds_sum{{stage="{stage}"}} (.*)', page, re.MULTILINE
        )
        return float(seconds)

    def list_steps(self, model: str) -> list[Process]:
        """The processes of a model and of its steps, whose names are <model>.<step>."""
        marks = (f"/{model}/", f"/{model}.")
        return [
            stub for stub in self.list_stubs() if any(mark in stub.command[1] for mark in marks)
        ]

    def measure_models_mb(self) -> float:
        """All that runs below it but its server and tritonserver: models, interpreters."""
        below = {child.pid for child in list_descendants(self.process.pid)}
        return read_proportional_mb(below - {self.triton.pid})

    def count_compiled(self, model: str) -> tuple[int, int]:
        """How many of a model's workflows are compiled, whole or in part, and how many it has."""
        workflows = [*self.repository.glob(f"{model}*/**/workflow")]
        return sum((it.parent / _COMPILED).exists() for it in workflows), len(workflows)

    def list_own_processes(self) -> list[int]:
        """All of it but tritonserver and what that started."""
        own, tritons = (
            {root, *(process.pid for process in list_descendants(root))}
            for root in (self.process.pid, self.triton.pid)
        )
        return sorted(own - tritons)


@dataclass
class BareTriton(Server):
    """A tritonserver with a repository of its own."""

    repository: Path

    def deliver(self, model: str) -> None:
        """Copy an archive's model directories into the repository; loads nothing."""
        for directory in self.archives.path(model).iterdir():
            shutil.copytree(directory, self.repository / directory.name, dirs_exist_ok=True)

    def load(self, model: str) -> None:
        """Return when it is ready."""
        self.demand("POST", f"/v2/repository/models/{model}/load")

    def unload(self, model: str) -> None:
        """Return when it has been asked; tritonserver answers before it is done."""
        body = {"parameters": {"unload_dependents": True}}
        self.demand("POST", f"/v2/repository/models/{model}/unload", body)


def stop_with_children(process: subprocess.Popen[bytes], seconds: float) -> None:
    """SIGTERM; SIGKILL to a process that has not ended after so long, and to its children."""
    below = [child.pid for child in list_descendants(process.pid)]
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in filter(is_alive, below):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def time_load(server: Server, model: str, payload: Payload) -> float:
    """Time a load, check it by an invocation, and undo it."""
    earlier = {stub.pid for stub in server.list_stubs()}
    started = time.perf_counter()
    server.load(model)
    seconds = time.perf_counter() - started
    server.check(model, payload, "after a load")
    own = {stub.pid for stub in server.list_stubs()} - earlier
    server.unload(model)
    wait_until(lambda: not any(map(is_alive, own)), f"{server.name}: {model}'s processes are gone")
    if isinstance(server, Container):  # the next load of that name would wait for it
        published = server.repository / model
        wait_until(lambda: not published.exists(), f"{server.name}: {model} is gone")
    return seconds


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Returns as soon as it holds, looking every half millisecond. Raises BenchError."""
    deadline = time.monotonic() + _CALL_S
    while not holds():
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not so after {_CALL_S:g} s")
        time.sleep(0.0005)


def find_free_port() -> int:
    """A port that nobody listens on, below the ephemeral ones, so that no client is given it."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            candidate = 10_000 + int.from_bytes(os.urandom(2), "big") % 20_000
            probe.bind(("127.0.0.1", candidate))
            return candidate
