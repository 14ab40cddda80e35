"""The servers that are compared: started, asked, looked at from outside, stopped.

ours    the container as a user starts it; asked at /models/NAME/invoke.
limit   the HTTP port of the tritonserver inside it; asked at /v2/models/NAME/infer.
rival   the same tritonserver with its own SageMaker frontend, started as upstream's serve script
        (triton-inference-server/server, docker/sagemaker/serve) does; auto-completion is on, as
        there. Upstream's verbose log is off: it would only slow it.
bare    a tritonserver with the arguments of the one inside ours and nothing in front: the limit
        for loads and starts.

Nothing of the container's code is used: how tritonserver is run on this machine (its program,
backends and search paths) is read from the one that the container started.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bench.errors import AnswerWrong, BenchError, ServerFailed
from bench.models import Archives
from bench.payloads import Payload
from bench.proc import Process, descendants, is_alive, tied
from bench.wrk import Target, write_target

_ROOT = Path(__file__).parents[1]
_START_S, _STOP_S, _CALL_S = 60.0, 30.0, 300.0
_LOOK_S = 0.002
_SHARED_MEMORY = Path("/dev/shm")

#: What the rival takes over from the container's tritonserver: where the parts of this machine's
#: tritonserver are, and the stubs' shared memory, whose sizes are upstream's defaults.
_KEPT = ("--backend-directory=", "--cache-directory=", "--backend-config=python,shm-")
#: What the container sets and tritonserver by itself would not.
_THREADS = "--backend-config=python,thread-pool-size="


@dataclass(frozen=True)
class Answer:
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

    def ask(self, method: str, path: str, body: object = None) -> Answer:
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
        found = descendants(self.process.pid)
        return [one for one in found if (one.serves(model) if model else one.is_stub)]

    def stop(self) -> None:
        """SIGTERM, and after a while SIGKILL to all of its session that is left."""
        below = [process.pid for process in descendants(self.process.pid)]
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
        found = descendants(self.process.pid)
        return next(one for one in found if one.command[0].endswith("/tritonserver"))

    def triton_argument(self, name: str) -> str:
        """The value of an argument that its tritonserver was started with."""
        prefix = f"--{name}="
        arguments = self.triton.command
        return next(one.removeprefix(prefix) for one in arguments if one.startswith(prefix))

    @property
    def published(self) -> tuple[str, ...]:
        """What lies in the serving repository."""
        return tuple(os.listdir(self.triton_argument("model-repository")))

    def own_processes(self) -> list[int]:
        """All of it but tritonserver and what that started."""
        triton = self.triton.pid
        below = {triton, *(process.pid for process in descendants(triton))}
        everyone = {self.process.pid, *(one.pid for one in descendants(self.process.pid))}
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

    def _invoked(self, model: str, payload: Payload, what: str) -> Answer:
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


@dataclass
class Contenders:
    """All servers of one run, each started when it is first asked for.

    Use it as a context: all that it started ends with it.
    """

    directory: Path
    undo: ExitStack = field(default_factory=ExitStack)
    _count: int = 0
    _kept: set[str] = field(default_factory=set)

    def __enter__(self) -> Contenders:
        return self

    def __exit__(self, *reason: object) -> None:
        self.undo.close()

    @cached_property
    def archives(self) -> Archives:
        """What they load."""
        return Archives(self.directory / "models")

    @cached_property
    def ours(self) -> Container:
        """The container that lives through the run."""
        return self.undo.enter_context(self.fresh_ours())

    @cached_property
    def rival(self) -> SageMakerServer:
        """tritonserver's SageMaker frontend."""
        name, port = "rival", free_port()
        environment = {
            "SAGEMAKER_MULTI_MODEL": "true",
            "SAGEMAKER_TRITON_PING_MODE": "live",  # upstream's, in multi-model mode
        }
        command = (
            "--allow-sagemaker=true",
            "--allow-http=false",
            "--allow-grpc=false",
            "--allow-metrics=false",
            "--model-control-mode=explicit",
            "--model-namespacing=true",
            f"--model-repository={self._scratch(name)}",
            f"--sagemaker-port={port}",
            "--exit-timeout-secs=5",
        )
        process, log = self._start_triton(name, command, environment, self.undo)
        server = SageMakerServer(name, process, port, log, archives=self.archives)
        server.until_ready("/ping")
        return server

    @cached_property
    def bare(self) -> BareTriton:
        """The limit for loads; it lives through the run."""
        server = self.undo.enter_context(self.fresh_bare())
        server.until_ready("/v2/health/ready")
        return server

    @cached_property
    def sides(self) -> tuple[Side, Side, Side]:
        """Rival, limit and ours, for invocations; all of them run from here on."""
        limit = int(self.ours.triton_argument("http-port"))
        return (
            Side("rival", self.rival.port, True),
            Side("limit", limit, False),
            Side("ours", self.ours.port, True),
        )

    def keep_loaded(self, *models: str) -> None:
        """In the rival and in ours, whose tritonserver is the limit, until the run ends."""
        for model in models:
            if model not in self._kept:
                self.rival.load(model)
                self.ours.load(model)
                self._kept.add(model)

    @contextlib.contextmanager
    def fresh_ours(self, wait: bool = True, **settings: str) -> Iterator[Container]:
        """Another container, with default settings but for those that are given."""
        with ExitStack() as undo:
            port = free_port()
            inherited = {k: v for k, v in os.environ.items() if not _is_setting(k)}
            environment = {
                **inherited,
                "SAGEMAKER_MULTI_MODEL": "true",
                "SAGEMAKER_BIND_TO_PORT": str(port),
                "SERVE_BIND_ADDRESS": "127.0.0.1",
                "SERVE_MODEL_ROOT": str(self.archives.root),
                # What is measured of the server's memory is shut to others with `clean`.
                "SERVE_MODEL_ENVIRONMENT": "all",
                # Its tritonserver is asked itself: an own restriction takes the place of ours.
                "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--http-restricted-api=logging:x-bench=1",
                **settings,
            }
            self.archives.root.mkdir(exist_ok=True)
            command = [sys.executable, "-m", "container", "serve"]
            process, log = self._start("ours", command, environment, undo)
            server = Container("ours", process, port, log, archives=self.archives)
            if wait:
                server.until_ready("/ping")
            yield server

    @contextlib.contextmanager
    def fresh_bare(self, own_threads: bool = False) -> Iterator[BareTriton]:
        """Another tritonserver without anything in front; not awaited.

        own_threads: its Python models keep as many threads as tritonserver gives them.
        """
        left_out = (*_KEPT, _THREADS) if own_threads else _KEPT
        with ExitStack() as undo:
            name, port = "limit", free_port()
            repository = self._scratch("bare")
            own = {
                "--model-repository": str(repository),
                "--http-port": str(port),
                "--grpc-port": str(free_port()),
            }
            command = (
                _with_value(word, own)
                for word in self.ours.triton.command[1:]
                if word and not word.startswith(left_out)
            )
            process, log = self._start_triton(name, tuple(command), {}, undo)
            yield BareTriton(
                name, process, port, log, repository=repository, archives=self.archives
            )

    @cached_property
    def _runtime(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Program and kept arguments, and the environment, of the container's tritonserver.

        The backends that it made for itself are copied: they go when that container does.
        """
        ours = self.ours
        words = ours.triton.command
        kept = [word for word in words if word.startswith(_KEPT) and "region-prefix" not in word]
        work = Path(ours.triton_argument("model-repository")).parent
        backends = Path(ours.triton_argument("backend-directory"))
        if work in backends.parents:
            top = work / backends.relative_to(work).parts[0]
            copied = self.directory / "runtime"
            shutil.copytree(top, copied, symlinks=True)
            place = f"--backend-directory={copied / backends.relative_to(top)}"
            kept = [place if w.startswith("--backend-directory=") else w for w in kept]
        listed = Path(f"/proc/{ours.triton.pid}/environ").read_bytes().decode().split("\0")
        environment = dict(pair.split("=", 1) for pair in listed if "=" in pair)
        clean = {key: value for key, value in environment.items() if not _is_setting(key)}
        return (words[0], *kept), clean

    def _start_triton(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], undo: ExitStack
    ) -> tuple[subprocess.Popen[bytes], Path]:
        (program, *kept), inherited = self._runtime
        prefix = f"bench_{os.getpid()}_{self._count}_"
        undo.callback(_remove_regions, prefix)
        region = f"--backend-config=python,shm-region-prefix-name={prefix}"
        command = [program, *arguments, *kept, region]
        return self._start(name, command, {**inherited, **environment}, undo)

    def _start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], undo: ExitStack
    ) -> tuple[subprocess.Popen[bytes], Path]:
        self._count += 1
        log = self.directory / f"{name}-{self._count}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                tied(command),
                cwd=_ROOT,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process: it stops them in order
            )
        undo.callback(Server(name, process, 0, log).stop)
        return process, log

    def _scratch(self, name: str) -> Path:
        self._count += 1
        made = self.directory / f"{name}-{self._count}"
        made.mkdir()
        return made


def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own; a body that is no bytes becomes JSON."""
    payload = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_CALL_S)
    try:
        connection.request(
            method, path, payload, dict(headers or {"Content-Type": "application/json"})
        )
        response = connection.getresponse()
        named = {key.lower(): value for key, value in response.getheaders()}
        return Answer(response.status, named, response.read())
    finally:
        connection.close()


def until(holds: Callable[[], object], what: str) -> None:
    """Returns as soon as it holds, looking every half millisecond. Raises BenchError."""
    deadline = time.monotonic() + _CALL_S
    while not holds():
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not so after {_CALL_S:g} s")
        time.sleep(0.0005)


def free_port() -> int:
    """A port that nobody listens on, below the ephemeral ones, so that no client is given it."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            candidate = 10_000 + int.from_bytes(os.urandom(2), "big") % 20_000
            probe.bind(("127.0.0.1", candidate))
            return candidate


def _with_value(word: str, own: Mapping[str, str]) -> str:
    """--name=value, with another value where own has one for the name."""
    name = word.partition("=")[0]
    return f"{name}={own[name]}" if name in own else word


def _is_setting(name: str) -> bool:
    return name.startswith(("SERVE_", "SAGEMAKER_"))


def _remove_regions(prefix: str) -> None:
    for region in _SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)
