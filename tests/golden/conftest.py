"""The real tritonservers, each started once for all plans that are put into it."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tritonclient.grpc as triton_grpc

from container.addresses import choose_addresses
from container.settings.reading import read_settings
from container.tritonserver.command import build_command, name_shm_prefix
from container.tritonserver.runtime import find_runtime
from ensemble_tools.serving.plan import ServingPlan
from ensemble_tools.serving.publish import publish, retract
from tests.golden.archives import Tensors
from tests.support.tritons import NEWEST, TRITONS

LIVE_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
LOAD_TIMEOUT_S = 120.0
#: A wrongly wired ensemble never answers; a right one needs milliseconds.
ANSWER_TIMEOUT_S = 60.0
TYPES = {"int8": "INT8", "int32": "INT32", "int64": "INT64", "float32": "FP32", "float64": "FP64"}


class RealTriton:
    """A running tritonserver and its serving repository."""

    def __init__(self, client: triton_grpc.InferenceServerClient, repository: Path) -> None:
        self.client, self.repository = client, repository

    def load(self, plan: ServingPlan) -> None:
        """Publish and load; Triton loads an ensemble's steps with it. Raises its refusal."""
        publish(plan, self.repository)
        for called in plan.called:
            self.client.load_model(called, client_timeout=LOAD_TIMEOUT_S)
        self.client.load_model(plan.entry, client_timeout=LOAD_TIMEOUT_S)

    def unload(self, plan: ServingPlan) -> None:
        for name in (plan.entry, *reversed(plan.called)):
            self.client.unload_model(name, unload_dependents=True)
        retract(plan, self.repository)

    def held(self, plan: ServingPlan) -> dict[str, str]:
        """The plan's models that Triton has not let go of, with their states."""
        index = self.client.get_model_repository_index()
        names = set(plan.triton_names)
        return {
            model.name: model.state
            for model in index.models
            if model.name in names and model.state not in ("", "UNAVAILABLE")
        }

    def infer(self, model: str, request: Tensors) -> Tensors:
        """All outputs of the model for the request; raises Triton's error."""
        inputs = []
        for name, array in request.items():
            tensor = triton_grpc.InferInput(name, list(array.shape), TYPES[array.dtype.name])
            tensor.set_data_from_numpy(array)
            inputs.append(tensor)
        answer = self.client.infer(model, inputs, client_timeout=ANSWER_TIMEOUT_S)
        names = [output.name for output in answer.get_response().outputs]
        return {name: answer.as_numpy(name) for name in names}

    def answer(self, plan: ServingPlan, request: Tensors) -> Tensors:
        """Load, ask once, unload."""
        try:
            self.load(plan)
            return self.infer(plan.entry, request)
        finally:
            self.unload(plan)


@pytest.fixture(scope="session", params=[NEWEST])
def triton(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealTriton]:
    """A real tritonserver, started as the container starts it; BOTH has a test run with each."""
    work = tmp_path_factory.mktemp(f"triton-{request.param}")
    chosen = TRITONS[request.param]
    everything = {**os.environ, **chosen}
    settings = read_settings(chosen)
    repository = work / "serving"
    repository.mkdir()
    addresses = choose_addresses(settings, work)
    command = build_command(
        settings,
        find_runtime(settings, work / "runtime", everything),
        addresses,
        repository,
        everything,
        gpu_count=0,
        shm_prefix=name_shm_prefix(os.getpid(), secrets.token_hex(4)),
    )
    log = work / "tritonserver.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command.argv, env=command.env, stdout=output, stderr=output)
    client = triton_grpc.InferenceServerClient(addresses.grpc_target)
    try:
        wait_live(client, process, log)
        yield RealTriton(client, repository)
    finally:
        client.close()
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def wait_live(
    client: triton_grpc.InferenceServerClient, process: subprocess.Popen[bytes], log: Path
) -> None:
    """Until it says that it is live; fails with its log."""
    deadline = time.monotonic() + LIVE_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if client.is_server_live(client_timeout=1.0):
                return
        except triton_grpc.InferenceServerException:
            time.sleep(0.05)  # it refuses connections until it listens
    raise AssertionError(log.read_text())
