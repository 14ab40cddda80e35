"""A server that was started: asked, looked at from outside, stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

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


@dataclass
class Server:
    """One process that was started, in a session of its own."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    log: Path
    started: float = field(default_factory=time.monotonic)

    def ask(self, method: str, path: str, body: object = None) -> HttpAnswer:
        """One request on a connection of its own; body becomes JSON."""
        return ask(self.port, method, path, body)

    def demand(self, method: str, path: str, body: object = None) -> bytes:
        """The body of a 200. Raises AnswerWrong."""
        answer = self.ask(method, path, body)
        if answer.status != 200:
            found = f"{answer.status} {answer.body.decode(errors='replace')[:500]}"
            raise AnswerWrong(self.name, f"{method} {path}", found, "200")
        return answer.body

    def until_ready(self, path: str) -> float:
        """Returns the seconds from its start to the first 200 at path. Raises ServerFailed."""
        while time.monotonic() - self.started < _START_S:
            if self.process.poll() is not None:
                raise ServerFailed(self.name, f"exit code {self.process.returncode}", self._end())
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ask("GET", path).status == 200:
                    return time.monotonic() - self.started
            time.sleep(_LOOK_S)
        raise ServerFailed(self.name, f"no 200 at {path} in {_START_S:g} s", self._end())

    def stubs(self, model: str | None = None) -> list[Process]:
        """Python models' processes below it, of one model or of all."""
        below = list_descendants(self.process.pid)
        return [child for child in below if (child.serves(model) if model else child.is_stub)]

    @cached_property
    def _region_prefix(self) -> str:
        own = (child for child in list_processes() if child.pid == self.process.pid)
        commands = (child.command for child in (*own, *list_descendants(self.process.pid)))
        words = (word for command in commands for word in command)
        return next(word for word in words if word.startswith(REGIONS)).removeprefix(REGIONS)

    def regions(self) -> set[str]:
        """The shared memory of its Python models, by name."""
        prefix = self._region_prefix
        return {name for name in os.listdir(SHARED_MEMORY) if name.startswith(prefix)}

    def stop(self) -> None:
        """SIGTERM, and after a while SIGKILL to all of its session that is left."""
        below = [process.pid for process in list_descendants(self.process.pid)]
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in filter(is_alive, below):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


@dataclass
class SageMakerServer(Server):
    """Ours or the rival: SageMaker's multi-model contract."""

    archives: Archives = field(kw_only=True)

    def load(self, model: str, name: str | None = None) -> None:
        """POST /models, of an archive by its name; another model_name may be given."""
        body = {"model_name": name or model, "url": str(self.archives.path(model))}
        self.demand("POST", "/models", body)

    def unload(self, model: str) -> None:
        """DELETE /models/{model}."""
        self.demand("DELETE", f"/models/{model}")

    @contextlib.contextmanager
    def loaded(self, *models: str) -> Iterator[None]:
        """The models, for as long as the block lasts."""
        with ExitStack() as undo:
            for model in models:
                self.load(model)
                undo.callback(self.unload, model)
            yield


@dataclass
class Container(SageMakerServer):
    """Ours."""

    @cached_property
    def triton(self) -> Process:
        """Its tritonserver."""
        found = list_descendants(self.process.pid)
        return next(process for process in found if process.command[0].endswith("/tritonserver"))

    def triton_argument(self, name: str) -> str:
        """The value of an argument that its tritonserver was started with."""
        prefix = f"--{name}="
        arguments = self.triton.command
        return next(word.removeprefix(prefix) for word in arguments if word.startswith(prefix))

    @property
    def published(self) -> tuple[str, ...]:
        """What lies in the serving repository."""
        return tuple(os.listdir(self.triton_argument("model-repository")))

    def steps(self, model: str) -> list[Process]:
        """The processes of a model and of its steps, whose names are <model>.<step>."""
        marks = (f"/{model}/", f"/{model}.")
        return [stub for stub in self.stubs() if any(mark in stub.command[1] for mark in marks)]

    def measure_models_mb(self) -> float:
        """All that runs below it but its server and tritonserver: models, interpreters."""
        below = {child.pid for child in list_descendants(self.process.pid)}
        return read_proportional_mb(below - {self.triton.pid})

    def count_compiled(self, model: str) -> tuple[int, int]:
        """How many of a model's workflows are compiled, whole or in part, and how many it has."""
        workflows = [*Path(self.triton_argument("model-repository")).glob(f"{model}*/**/workflow")]
        return sum((found.parent / _COMPILED).exists() for found in workflows), len(workflows)

    def own_processes(self) -> list[int]:
        """All of it but tritonserver and what that started."""
        triton = self.triton.pid
        below = {triton, *(process.pid for process in list_descendants(triton))}
        everyone = {
            self.process.pid,
            *(process.pid for process in list_descendants(self.process.pid)),
        }
        return sorted(everyone - below)


@dataclass
class BareTriton(Server):
    """A tritonserver with a repository of its own."""

    repository: Path = field(kw_only=True)
    archives: Archives = field(kw_only=True)

    def deliver(self, model: str) -> None:
        """Copy an archive's model directories into the repository; loads nothing."""
        for directory in self.archives.path(model).iterdir():
            shutil.copytree(directory, self.repository / directory.name, dirs_exist_ok=True)

    def load(self, model: str) -> None:
        """Returns when it is ready."""
        self.demand("POST", f"/v2/repository/models/{model}/load")

    def unload(self, model: str) -> None:
        """Returns when it has been asked; tritonserver answers before it is done."""
        body = {"parameters": {"unload_dependents": True}}
        self.demand("POST", f"/v2/repository/models/{model}/unload", body)


@dataclass(frozen=True)
class Side:
    """One way to invoke models: whom, and in which words."""

    name: str
    port: int
    sagemaker: bool

    def path(self, model: str) -> str:
        """Where the model is invoked."""
        return f"/models/{model}/invoke" if self.sagemaker else f"/v2/models/{model}/infer"

    def check(self, model: str, payload: Payload, what: str) -> None:
        """One invocation whose answer is compared value by value. Raises AnswerWrong."""
        answer = self._invoked(model, payload, what)
        if fault := payload.fault(answer.headers, answer.body, exact=self.name == "ours"):
            raise AnswerWrong(self.name, what, fault, "the values that were computed beforehand")

    def answered(self, model: str, payload: Payload, tolerance: float, what: str) -> Payload:
        """One binary invocation, whose answer is taken as the right one. Raises AnswerWrong."""
        answer = self._invoked(model, payload, what)
        return payload.answered(answer.headers, answer.body, tolerance)

    def _invoked(self, model: str, payload: Payload, what: str) -> HttpAnswer:
        headers = payload.headers(self.sagemaker)
        answer = ask(self.port, "POST", self.path(model), payload.body, headers)
        if answer.status != 200:
            found = f"{answer.status} {answer.body.decode(errors='replace')[:500]}"
            raise AnswerWrong(self.name, what, found, "200")
        return answer

    def target(self, directory: Path, model: str, payload: Payload) -> Target:
        """The same invocation for wrk."""
        url = f"http://127.0.0.1:{self.port}{self.path(model)}"
        headers = payload.headers(self.sagemaker)
        name = f"{self.name.replace(' ', '-')}-{self.port}-{model}-{len(payload.body)}"
        return write_target(directory, name, url, payload.body, headers)


def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """One request on a connection of its own; a body that is no bytes becomes JSON."""
    payload = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_CALL_S)
    try:
        connection.request(
            method, path, payload, dict(headers or {"Content-Type": "application/json"})
        )
        response = connection.getresponse()
        named = {key.lower(): value for key, value in response.getheaders()}
        return HttpAnswer(response.status, named, response.read())
    finally:
        connection.close()


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
