"""What the tests of the process tree share: settings, places, and a real tritonserver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc.aio as triton_grpc

from container.addresses import Addresses, choose_addresses
from container.settings.reading import Settings, read_settings
from container.tritonserver.command import TritonCommand, build_command, name_shm_prefix
from container.tritonserver.features import METRICS_ADDRESS
from container.tritonserver.output import TritonOutput
from container.tritonserver.process import TritonProcess
from container.tritonserver.runtime import TritonRuntime, find_runtime, own_environment_bin
from tests.fakes import tritonserver as fake

ROOT = Path(__file__).parents[3]
WHEEL_2_36 = ROOT / ".triton/2.36/pytriton/tritonserver/bin/tritonserver"
LIVE_TIMEOUT_S = 120.0
WAIT_S = 60.0  # for anything that must happen; a failure, not a sleep


@dataclass(frozen=True)
class Stage:
    """Everything needed to run one tritonserver on an empty repository."""

    settings: Settings
    runtime: TritonRuntime
    addresses: Addresses
    repository: Path
    command: TritonCommand

    async def is_live(self) -> bool:
        async with self.client() as client:
            return bool(await client.is_server_live())

    def client(self) -> triton_grpc.InferenceServerClient:
        return triton_grpc.InferenceServerClient(self.addresses.grpc_target)

    def process(
        self,
        on_restarted: Callable[[], Awaitable[None]] | None = None,
        *,
        restart_limit: int = 3,
        restart_window_s: float = 600.0,
        start_timeout_s: float = LIVE_TIMEOUT_S,
        stop_timeout_s: float = 20.0,
        judge_death: Callable[[], int] = lambda: 0,
        output: TritonOutput | None = None,
    ) -> TritonProcess:
        return TritonProcess(
            self.command,
            is_live=self.is_live,
            on_restarted=on_restarted or nothing,
            restart_limit=restart_limit,
            restart_window_s=restart_window_s,
            start_timeout_s=start_timeout_s,
            stop_timeout_s=stop_timeout_s,
            judge_death=judge_death,
            output=output,
        )


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a thing that the operating system, or a process, does in its own time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)  # between two looks


async def nothing() -> None:
    """An on_restarted with nothing to load."""


def make_stage(
    tmp_path: Path,
    environment: Mapping[str, str],
    runtime: TritonRuntime | None = None,
    warm: Path | None = None,
) -> Stage:
    """A stage under the directory, for the settings in the environment.

    runtime: None for the one that is found, for which the models' Python is started once. warm:
    where models find warm interpreters.
    """
    settings = read_settings(environment)
    everything = {**os.environ, **environment}
    runtime = runtime or find_runtime(settings, tmp_path / "work", everything)
    repository = tmp_path / "repository"
    repository.mkdir()
    addresses = choose_addresses(settings, tmp_path)
    command = build_command(
        settings,
        runtime,
        addresses,
        repository,
        everything,
        gpu_count=0,
        shm_prefix=name_shm_prefix(os.getpid(), secrets.token_hex(4)),
        warm=warm,
    )
    return Stage(settings, runtime, addresses, repository, command)


def fake_stage(tmp_path: Path, **knobs: Any) -> Stage:
    """A stage whose tritonserver is the fake one, which has no models' Python to be asked."""
    program = fake.install(tmp_path / "tritonserver")
    backends = tmp_path / "backends"
    (backends / "pytorch").mkdir(parents=True)
    words = json.dumps({"record": str(tmp_path / "record"), **knobs})
    environment = {"SERVE_TRITON_SERVER": str(program), fake.VARIABLE: words}
    runtime = TritonRuntime(
        program,
        backends,
        None,
        None,
        None,
        own_environment_bin(),
        None,
        (),
        knows=frozenset({METRICS_ADDRESS}),
    )
    return make_stage(tmp_path, environment, runtime)


@contextlib.asynccontextmanager
async def running(process: TritonProcess) -> AsyncIterator[None]:
    """Runs it until it is live, and stops it at the end; what `run` raised is raised."""
    run = asyncio.create_task(process.run())
    live = asyncio.create_task(process.wait_live())
    try:
        await asyncio.wait({run, live}, return_when=asyncio.FIRST_COMPLETED)
        if run.done():
            run.result()
        yield
    finally:
        live.cancel()
        await process.stop()
        await run


@pytest.fixture(params=["2.51", "2.36"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """A stage with each real tritonserver in turn."""
    environment = {"SERVE_TRITON_SERVER": str(WHEEL_2_36)} if request.param == "2.36" else {}
    return make_stage(tmp_path, environment)


@pytest.fixture
def newest(tmp_path: Path) -> Stage:
    """A stage with the newest real tritonserver, the one that knows Python-based backends."""
    return make_stage(tmp_path, {})
