"""A tritonserver without the container: what serves an export as Merlin wrote it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import tritonclient.grpc as triton_grpc

from container.addresses import choose_addresses
from container.settings.reading import read_settings
from container.tritonserver.command import TritonCommand, build_command, name_shm_prefix
from container.tritonserver.process import remove_shared_memory
from container.tritonserver.runtime import find_runtime
from tests.support.container import CALL_TIMEOUT_S, STOP_TIMEOUT_S, until


@dataclass(frozen=True)
class PlainTriton:
    """One that runs: its HTTP side for inference."""

    http: httpx.Client

    def infer(self, model: str, request: Mapping[str, object]) -> httpx.Response:
        """POST /v2/models/{model}/infer."""
        return self.http.post(f"/v2/models/{model}/infer", json=request)


@contextlib.contextmanager
def plain_triton(
    directory: Path, repository: Path, models: Sequence[str], **environment: str
) -> Iterator[PlainTriton]:
    """tritonserver on a copy of the repository, the models loaded in that order.

    The runtime is the container's own, so that the python stub and the stand-in backends are there;
    `environment` holds the container's settings.
    """
    copied = directory / "repository"
    shutil.copytree(repository, copied)
    settings = read_settings(environment)
    runtime = find_runtime(settings, directory / "work", os.environ)
    addresses = choose_addresses(settings, directory)
    prefix = name_shm_prefix(os.getpid(), secrets.token_hex(4))
    command = build_command(
        settings, runtime, addresses, copied, os.environ, gpu_count=0, shm_prefix=prefix
    )
    with (
        _started(command, directory / "log"),
        httpx.Client(
            base_url="http://tritonserver",
            transport=httpx.HTTPTransport(uds=str(addresses.http)),
            timeout=CALL_TIMEOUT_S,
        ) as http,
    ):
        until(lambda: _is_live(http), "tritonserver is live")
        with triton_grpc.InferenceServerClient(addresses.grpc_target) as control:
            for model in models:
                control.load_model(model, client_timeout=CALL_TIMEOUT_S)
        yield PlainTriton(http)


@contextlib.contextmanager
def _started(command: TritonCommand, log_path: Path) -> Iterator[None]:
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command.argv, env=dict(command.env), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        finally:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
            remove_shared_memory(command.shm_prefix)


def _is_live(http: httpx.Client) -> bool:
    with warnings.catch_warnings(), contextlib.suppress(httpx.TransportError):
        # httpcore leaves a Unix socket to the garbage where nobody listens yet.
        warnings.simplefilter("ignore", ResourceWarning)
        return http.get("/v2/health/live").status_code == 200
    return False
