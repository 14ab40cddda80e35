"""What the tests of the stand-in backends share: a tritonserver to load into, and one to refuse."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from container.tritonserver.process import remove_shared_memory
from container.tritonserver.runtime import STAND_INS
from container.warm.interpreters import Surroundings, WarmInterpreters
from tests.unit.container.conftest import ROOT, make_stage

#: The models' Python with tensorflow, xgboost and lightgbm, made by `make setup`.
FRAMEWORKS_PYTHON = ROOT / ".venv-frameworks/bin/python"
#: The models' Python without them.
MERLIN_PYTHON = ROOT / ".venv-merlin/bin/python"
LIVE_TIMEOUT_S = 120.0
MAKE_TIMEOUT_S = 600.0
INITIALIZE_TIMEOUT_S = 600.0

# All in one process, since importing a framework takes seconds. What Triton's module gives there
# is only a place to warn.
_INITIALIZE = """
import importlib.util, json, sys, types
class Logger:
    log_warn = staticmethod(lambda words: None)
utils = sys.modules["triton_python_backend_utils"] = types.ModuleType("utils")
utils.Logger = Logger
spec = importlib.util.spec_from_file_location("model", sys.argv[1])
model = importlib.util.module_from_spec(spec)
spec.loader.exec_module(model)
for args in json.load(sys.stdin):
    try:
        model.TritonPythonModel().initialize(args)
    except Exception as refused:
        if type(refused).__name__ != "Refused":
            raise
        print("SAID", json.dumps(str(refused)))
    else:
        print("SAID", json.dumps("it was served"))
"""


@dataclass(frozen=True)
class StandInServer:
    """One tritonserver for all tests of a file, with its repository and our backends."""

    repository: Path
    client: Any
    stand_ins: tuple[str, ...]

    def load(self, name: str, config: str, content: Path, file: str) -> None:
        """Publishes `content` as version 1's `file` and loads it; raises what Triton answers."""
        version = self.repository / name / "1"
        version.mkdir(parents=True)
        (version / file).symlink_to(content)
        (version.parent / "config.pbtxt").write_text(config)
        self.client.load_model(name)

    def infer(self, name: str, **arrays: Any) -> Any:
        """The whole answer."""
        inputs = []
        for key, array in arrays.items():
            one = triton_grpc.InferInput(key, array.shape, np_to_triton_dtype(array.dtype))
            one.set_data_from_numpy(array)
            inputs.append(one)
        return self.client.infer(name, inputs)


@contextlib.contextmanager
def stand_in_server(directory: Path, python: Path) -> Iterator[StandInServer]:
    """The newest tritonserver with our backends, running; models get the packages of `python`.

    They run in children of warm interpreters: each would import its library for seconds.
    """
    warm = WarmInterpreters(directory / "warm")
    warm.listen()
    stage = make_stage(directory, {"SERVE_BACKEND_PYTHON": str(python)}, warm=warm.folder)
    process = subprocess.Popen(stage.command.argv, env=stage.command.env)
    utils = stage.runtime.backend_directory / "python/triton_python_backend_utils.py"
    try:
        with (
            _started(warm, Surroundings(python, utils, stage.command.env)),
            triton_grpc.InferenceServerClient(stage.addresses.grpc_target) as client,
        ):
            _wait_live(client, process)
            yield StandInServer(stage.repository, client, stage.runtime.stand_ins)
    finally:
        process.terminate()
        process.wait(LIVE_TIMEOUT_S)
        remove_shared_memory(stage.command.shm_prefix)


@contextlib.contextmanager
def _started(warm: WarmInterpreters, surroundings: Surroundings) -> Iterator[None]:
    """In an event loop of their own, in a thread."""
    is_over, loop = asyncio.Event(), asyncio.new_event_loop()

    async def keep() -> None:
        warm.start(surroundings)
        await is_over.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        warm.end()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(keep(),))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(is_over.set)
        thread.join()
        loop.close()


def make(maker: Path, directory: Path) -> Path:
    """Runs a script that writes models into the directory, with the frameworks' Python."""
    done = subprocess.run(
        [FRAMEWORKS_PYTHON, maker, directory],
        capture_output=True,
        text=True,
        check=False,
        timeout=MAKE_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return directory


def initialize_each(python: Path, backend: str, cases: Sequence[dict[str, Any]]) -> list[str]:
    """For each case, arguments of `initialize`, what the backend refuses it with."""
    done = subprocess.run(
        [python, "-c", _INITIALIZE, STAND_INS / backend / "model.py"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=INITIALIZE_TIMEOUT_S,
        env={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    prefix = "SAID "
    lines = [line for line in done.stdout.splitlines() if line.startswith(prefix)]
    return [json.loads(line.removeprefix(prefix)) for line in lines]


def initialize_groups(
    python: Path, backend: str, cases: Mapping[str, Sequence[dict[str, Any]]]
) -> dict[str, list[str]]:
    """The same for each group of cases, all of them in one process."""
    everything = [one for group in cases.values() for one in group]
    said = iter(initialize_each(python, backend, everything))
    return {group: [next(said) for _ in members] for group, members in cases.items()}


def arguments(config: dict[str, Any], model: Path, kind: str = "CPU") -> dict[str, Any]:
    """What tritonserver would call `initialize` with; `model` is the directory above 1/."""
    return {
        "model_name": "m",
        "model_config": json.dumps(config),
        "model_repository": str(model),
        "model_version": "1",
        "model_instance_kind": kind,
        "model_instance_device_id": "0",
    }


def _wait_live(client: Any, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIVE_TIMEOUT_S
    while True:
        try:
            if client.is_server_live():
                return
        except InferenceServerException:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)  # the interval between two questions
