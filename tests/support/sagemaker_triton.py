"""tritonserver with NVIDIA's own SageMaker frontend, as AWS's container starts it; none of ours.

The arguments are those of triton-inference-server/server, docker/sagemaker/serve, in multi-model
mode; auto-completion is on, as there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from container.addresses import choose_addresses
from container.settings.reading import read_settings
from container.tritonserver.command import build_command, name_shm_prefix
from container.tritonserver.process import remove_shared_memory
from container.tritonserver.runtime import find_runtime
from tests.support.container import CALL_TIMEOUT_S, STOP_TIMEOUT_S, free_port, until

#: What is ours in the command: where the wheel keeps its parts, and the stubs' shared memory.
_KEPT = ("--backend-directory=", "--cache-directory=", "--backend-config=python,shm-region")


@dataclass(frozen=True)
class SageMakerTriton:
    """One that runs; http speaks SageMaker's multi-model contract."""

    http: httpx.Client

    def load(self, name: str, url: Path) -> httpx.Response:
        """POST /models."""
        return self.http.post("/models", json={"model_name": name, "url": str(url)})

    def invoke(self, name: str, request: Mapping[str, object]) -> httpx.Response:
        """POST /models/{name}/invoke."""
        return self.http.post(f"/models/{name}/invoke", json=request)

    def unload(self, name: str) -> httpx.Response:
        """DELETE /models/{name}."""
        return self.http.delete(f"/models/{name}")


@dataclass(frozen=True)
class FrontendCommand:
    """How one is started, and what its stubs' shared memory is called."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    port: str
    shm_prefix: str


def frontend_command(directory: Path, port: str | None = None) -> FrontendCommand:
    """With an empty model repository in directory; on a free port, where none is given."""
    empty = directory / "empty"
    empty.mkdir(parents=True)
    settings = read_settings({})
    runtime = find_runtime(settings, directory / "work", os.environ)
    own_port = free_port()
    addresses = choose_addresses(settings, directory)
    prefix = name_shm_prefix(os.getpid(), secrets.token_hex(4))
    ours = build_command(
        settings, runtime, addresses, empty, os.environ, gpu_count=0, shm_prefix=prefix
    )
    argv = (
        str(runtime.executable),
        "--allow-sagemaker=true",
        "--allow-http=false",
        "--allow-grpc=false",
        "--allow-metrics=false",
        "--model-control-mode=explicit",
        "--model-namespacing=true",
        f"--model-repository={empty}",
        f"--sagemaker-port={port or own_port}",
        *(argument for argument in ours.argv if argument.startswith(_KEPT)),
    )
    environment = {
        **ours.env,
        "SAGEMAKER_TRITON_PING_MODE": "live",
        "SAGEMAKER_MULTI_MODEL": "true",
    }
    return FrontendCommand(argv, environment, port or str(own_port), prefix)


@contextlib.contextmanager
def sagemaker_triton(directory: Path) -> Iterator[SageMakerTriton]:
    """A server without models, until the end of the block; its log is directory/log."""
    frontend = frontend_command(directory)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            frontend.argv, env=frontend.environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{frontend.port}",
            timeout=2 * CALL_TIMEOUT_S,
            trust_env=False,
        ) as http:
            until(lambda: _is_live(http), "tritonserver's SageMaker frontend is live")
            yield SageMakerTriton(http)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        finally:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
            remove_shared_memory(frontend.shm_prefix)


def _is_live(http: httpx.Client) -> bool:
    try:
        return http.get("/ping").status_code == 200
    except httpx.TransportError:
        return False
