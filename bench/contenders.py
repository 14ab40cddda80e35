"""The servers that are compared, and how each is started.

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
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bench.models import Archives
from bench.proc import die_with_parent
from bench.servers import (
    REGIONS,
    SHARED_MEMORY,
    BareTriton,
    Container,
    SageMakerServer,
    Server,
    Side,
    find_free_port,
)

_ROOT = Path(__file__).parents[1]

#: What the rival takes over from the container's tritonserver: where the parts of this machine's
#: tritonserver are, and the stubs' shared memory, whose sizes are upstream's defaults.
_KEPT = ("--backend-directory=", "--cache-directory=", "--backend-config=python,shm-")
#: The settings of each form in which an export is served. apart: each model's processes import
#: their libraries themselves.
FORMS: Mapping[str, Mapping[str, str]] = {
    "executor": {"SERVE_REWRITE": "executor", "SERVE_COMPILE": "off"},
    "ensemble": {"SERVE_COMPILE": "off"},
    "compiled": {},
    "apart": {"SERVE_WARM": "off"},
}
#: What the container sets and tritonserver by itself would not.
_THREADS = "--backend-config=python,thread-pool-size="


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
        name, port = "rival", find_free_port()
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
            port = find_free_port()
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
    def fresh_forms(self, *forms: str) -> Iterator[dict[str, Container]]:
        """A container for each form, with its settings."""
        with ExitStack() as undo:
            yield {form: undo.enter_context(self.fresh_ours(True, **FORMS[form])) for form in forms}

    @contextlib.contextmanager
    def fresh_bare(self, own_threads: bool = False) -> Iterator[BareTriton]:
        """Another tritonserver without anything in front; not awaited.

        own_threads: its Python models keep as many threads as tritonserver gives them.
        """
        left_out = (*_KEPT, _THREADS) if own_threads else _KEPT
        with ExitStack() as undo:
            name, port = "limit", find_free_port()
            repository = self._scratch("bare")
            own = {
                "--model-repository": str(repository),
                "--http-port": str(port),
                "--grpc-port": str(find_free_port()),
                "--metrics-port": str(find_free_port()),
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
        region = f"{REGIONS}{prefix}"
        command = [program, *arguments, *kept, region]
        return self._start(name, command, {**inherited, **environment}, undo)

    def _start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], undo: ExitStack
    ) -> tuple[subprocess.Popen[bytes], Path]:
        self._count += 1
        log = self.directory / f"{name}-{self._count}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                die_with_parent(command),
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
        directory = self.directory / f"{name}-{self._count}"
        directory.mkdir()
        return directory


def _with_value(word: str, own: Mapping[str, str]) -> str:
    """--name=value, with another value where own has one for the name."""
    name = word.partition("=")[0]
    return f"{name}={own[name]}" if name in own else word


def _is_setting(name: str) -> bool:
    return name.startswith(("SERVE_", "SAGEMAKER_", "MERLIN_"))


def _remove_regions(prefix: str) -> None:
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)
