"""The servers that are compared, and how each is started.

ours    the container as a user starts it; asked at /models/NAME/invoke.
limit   a tritonserver with the arguments of the one inside ours, on ports, and nothing in front;
        asked at /v2/models/NAME/infer.
rival   the same tritonserver with its own SageMaker frontend, started as upstream's serve script
        (triton-inference-server/server, docker/sagemaker/serve) does; auto-completion is on, as
        there. Upstream's verbose log is off: it would only slow it.

Nothing of the container's code is used: how tritonserver is run on this machine (its program,
backends and search paths) is read from the one that the container started.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from bench.models import Archives
from bench.proc import die_with_parent
from bench.servers import (
    REGIONS,
    SHARED_MEMORY,
    BareTriton,
    Container,
    SageMakerServer,
    Server,
    find_free_port,
)

Started = TypeVar("Started", bound=Server)

_ROOT = Path(__file__).parents[1]

#: What the rival takes over from the container's tritonserver: where the parts of this machine's
#: tritonserver are, and the stubs' shared memory, whose sizes are upstream's defaults.
_TAKEN_OVER = ("--backend-directory=", "--cache-directory=", "--backend-config=python,shm-")
#: The settings of each form in which an export is served. apart: each model's processes import
#: their libraries themselves.
FORMS: Mapping[str, Mapping[str, str]] = {
    "executor": {"SERVE_REWRITE": "executor", "SERVE_COMPILE": "off"},
    "ensemble": {"SERVE_COMPILE": "off"},
    "compiled": {},
    "apart": {"SERVE_WARM": "off"},
}
_DEFAULTS: Mapping[str, str] = {}
#: In Triton's file, what is Triton's stands between these lines.
_TRITONS = re.compile("# --- Triton's\n(.*)# --- by the container", re.DOTALL)
#: Where the container's tritonserver listens, and with what repository.
_OWN = tuple(
    f"--{name}="
    for name in (
        "model-repository",
        "http-address",
        "grpc-address",
        "grpc-port",
        "metrics-address",
        "metrics-port",
    )
)
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
    _loaded: set[str] = field(default_factory=set)

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
        return self.undo.enter_context(self.start_ours())

    @cached_property
    def rival(self) -> SageMakerServer:
        """tritonserver's SageMaker frontend."""
        port = find_free_port()
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
            f"--model-repository={self._make_directory('rival')}",
            f"--sagemaker-port={port}",
            "--exit-timeout-secs=5",
        )
        server = self._start_triton(SageMakerServer, "rival", port, command, environment, self.undo)
        server.until_ready()
        return server

    @cached_property
    def bare(self) -> BareTriton:
        """The limit; it lives through the run."""
        server = self.undo.enter_context(self.start_bare())
        server.until_ready()
        return server

    @property
    def servers(self) -> Mapping[str, Server]:
        """Rival, limit and ours; all of them run from here on."""
        return {"rival": self.rival, "limit": self.bare, "ours": self.ours}

    def keep_loaded(self, *models: str) -> None:
        """In all three, until the run ends."""
        for model in models:
            if model not in self._loaded:
                self.bare.deliver(model)
                for server in self.servers.values():
                    server.load(model)
                self._loaded.add(model)

    @contextlib.contextmanager
    def start_ours(
        self, name: str = "ours", settings: Mapping[str, str] = _DEFAULTS, *, wait: bool = True
    ) -> Iterator[Container]:
        """Another container of that name, with these settings and otherwise default ones.

        But for tables of earlier loads, which it has none of unless the settings say so.
        """
        with ExitStack() as undo:
            port = find_free_port()
            environment = {
                **_without_settings(os.environ),
                "SAGEMAKER_MULTI_MODEL": "true",
                "SAGEMAKER_BIND_TO_PORT": str(port),
                "SERVE_BIND_ADDRESS": "127.0.0.1",
                "SERVE_MODEL_ROOT": str(self.archives.root),
                # Each load that is timed is a first one.
                "SERVE_TABLE_CACHE_MB": "0",
                # What is measured of the server's memory is shut to others with `clean`.
                "SERVE_MODEL_ENVIRONMENT": "all",
                # Its tritonserver is asked itself: an own restriction takes the place of ours.
                "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--http-restricted-api=logging:x-bench=1",
                **settings,
            }
            self.archives.root.mkdir(exist_ok=True)
            command = [sys.executable, "-m", "container", "serve"]
            server = self._start(Container, name, port, command, environment, undo)
            if wait:
                server.until_ready()
            yield server

    @contextlib.contextmanager
    def start_forms(self, *forms: str) -> Iterator[dict[str, Container]]:
        """A container for each form, which is its name, with its settings."""
        with ExitStack() as undo:
            yield {form: undo.enter_context(self.start_ours(form, FORMS[form])) for form in forms}

    @contextlib.contextmanager
    def start_bare(self, own_threads: bool = False) -> Iterator[BareTriton]:
        """Another tritonserver without anything in front; not awaited.

        own_threads: its Python models keep as many threads as tritonserver gives them.
        """
        left_out = (*_TAKEN_OVER, *_OWN, _THREADS) if own_threads else (*_TAKEN_OVER, *_OWN)
        with ExitStack() as undo:
            port, repository = find_free_port(), self._make_directory("bare")
            arguments = self.ours.triton.command[1:]
            command = [it for it in arguments if it and not it.startswith(left_out)]
            command += (
                f"--model-repository={repository}",
                "--http-address=127.0.0.1",
                f"--http-port={port}",
                f"--grpc-port={find_free_port()}",
                f"--metrics-port={find_free_port()}",
            )
            yield self._start_triton(
                BareTriton, "limit", port, command, {}, undo, repository=repository
            )

    @cached_property
    def _runtime(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Program and arguments taken over, and the environment, of the container's tritonserver.

        The backends that it made for itself are copied, without what it added to Triton's: they go
        when that container does.
        """
        program, *arguments = self.ours.triton.command
        taken = [it for it in arguments if it.startswith(_TAKEN_OVER) and "region-prefix" not in it]
        work = self.ours.repository.parent
        backends = Path(self.ours.triton_argument("backend-directory"))
        if work in backends.parents:
            top = work / backends.relative_to(work).parts[0]
            copied = self.directory / "runtime"
            shutil.copytree(top, copied, symlinks=True)
            own = {"--backend-directory": str(copied / backends.relative_to(top))}
            utils = copied / backends.relative_to(top) / "python/triton_python_backend_utils.py"
            if tritons := _TRITONS.search(utils.read_text()):
                utils.write_text(tritons[1])
            taken = [_replace_value(argument, own) for argument in taken]
        listed = Path(f"/proc/{self.ours.triton.pid}/environ").read_bytes().decode().split("\0")
        environment = dict(pair.split("=", 1) for pair in listed if "=" in pair)
        return (program, *taken), _without_settings(environment)

    def _start_triton(
        self,
        kind: type[Started],
        name: str,
        port: int,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        undo: ExitStack,
        **fields: Any,
    ) -> Started:
        (program, *taken), inherited = self._runtime
        prefix = f"bench_{os.getpid()}_{self._count}_"
        undo.callback(_remove_regions, prefix)
        command = [program, *arguments, *taken, f"{REGIONS}{prefix}"]
        everything = {**inherited, **environment}
        return self._start(kind, name, port, command, everything, undo, **fields)

    def _start(
        self,
        kind: type[Started],
        name: str,
        port: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        undo: ExitStack,
        **fields: Any,
    ) -> Started:
        """fields: the server's own."""
        self._count += 1
        log = self.directory / f"{name.replace(' ', '-')}-{self._count}.log"
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
        server = kind(name, port, process, log, self.archives, **fields)
        undo.callback(server.stop)
        return server

    def _make_directory(self, name: str) -> Path:
        self._count += 1
        directory = self.directory / f"{name}-{self._count}"
        directory.mkdir()
        return directory


def _replace_value(argument: str, values: Mapping[str, str]) -> str:
    """--name=value, with another value where there is one for the name."""
    name = argument.partition("=")[0]
    return f"{name}={values[name]}" if name in values else argument


def _without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    prefixes = ("SERVE_", "SAGEMAKER_", "MERLIN_")
    return {name: value for name, value in environment.items() if not name.startswith(prefixes)}


def _remove_regions(prefix: str) -> None:
    for region in SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)
