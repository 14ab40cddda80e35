"""Registry, lifecycle, revival and invocation joined as the container joins them, on a fake."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from container.triton_process import TritonProcess
from ensemble_tools import Limits
from serve.invoke.invocation import Invocation, Request
from serve.invoke.translation import Translation
from serve.models.admission import Admission, AdmissionSettings
from serve.models.lifecycle import Lifecycle, LifecycleSettings
from serve.models.registry import Registry
from serve.models.revival import Revival
from serve.threads import NoThread
from serve.triton.client import TritonClient
from serve.triton.hosting import Hosting
from serve.triton.trials import Trials
from tests.fakes import tritonserver as fake
from tests.unit.container.conftest import make_stage

#: For anything that must happen; a failure, not a sleep.
WAIT_S = 30.0
LOOK_S = 0.01
#: With so many instances that twenty callers reach tritonserver together.
CONFIG = """backend: "python"
instance_group { count: 20 kind: KIND_CPU }
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
"""
ENSEMBLE = """platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling { step { model_name: "step" model_version: -1
  input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }
"""
DEAD = {"status": 500, "message": "Stub process 'm_0_0' is not healthy."}


@dataclass
class Joined:
    """Everything between the routes and a fake tritonserver."""

    root: Path
    repository: Path
    record: Path
    process: TritonProcess
    registry: Registry
    triton: TritonClient
    hosting: Hosting
    revival: Revival
    lifecycle: Lifecycle
    invocation: Invocation

    def archive(self, name: str = "m", config: str | None = CONFIG) -> str:
        """An archive with an ensemble of one step; its url."""
        step = self.root / name / "model/step"
        (step / "1").mkdir(parents=True)
        (step / "1/model.py").write_text("")
        if config is not None:
            (step / "config.pbtxt").write_text(config)
        (self.root / name / "model/entry/1").mkdir(parents=True)
        (self.root / name / "model/entry/config.pbtxt").write_text(ENSEMBLE)
        return f"{self.root}/{name}/model"

    async def load(self, name: str = "m") -> None:
        await asyncio.wait_for(self.lifecycle.load(name, self.archive(name)), WAIT_S)

    async def invoke(self, name: str = "m", body: bytes = b'{"inputs":[]}') -> bytes:
        answer = await asyncio.wait_for(self.invocation.forward(name, Request([], [body])), WAIT_S)
        return b"".join(answer.body)

    def events(self, *kinds: str) -> list[str]:
        """What the fake was asked, of these kinds, in order."""
        seen = fake.read_record(self.record)
        return [event["event"] for event in seen if event["event"] in kinds]

    async def held(self) -> list[str]:
        """What tritonserver holds."""
        index = await self.triton._control.get_model_repository_index()
        return [model.name for model in index.models if model.state in {"READY", "LOADING"}]

    async def assert_empty(self) -> None:
        """No model in the registry, nothing on disk, nothing in tritonserver, no room held."""
        assert self.registry._models == {}
        assert self.lifecycle._admission._ledger.loading == []
        assert list(self.repository.iterdir()) == []
        assert await self.held() == []


def no_descriptor(*_: object, **__: object) -> Any:
    """In the place of what opens files: no more can be opened."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def no_thread(*_: object) -> Any:
    """In the place of what works in a thread: there is none."""
    raise NoThread("can't start new thread")


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is true."""

    async def looking() -> None:
        while not true():  # noqa: ASYNC110 # a process or a thread makes it true
            await asyncio.sleep(LOOK_S)

    await asyncio.wait_for(looking(), WAIT_S)


@contextlib.asynccontextmanager
async def joined(
    tmp_path: Path,
    *,
    start_timeout_s: float = WAIT_S,
    load_timeout_s: float = WAIT_S,
    unload_timeout_s: float = WAIT_S,
    invoke_timeout_s: float = WAIT_S,
    memory_reserve_bytes: int = 1,
    operation: str = "infer",
    start: bool = True,
    **knobs: Any,
) -> AsyncIterator[Joined]:
    """All of it on a running fake tritonserver with these knobs."""
    program = fake.install(tmp_path / "tritonserver")
    (tmp_path / "backends/pytorch").mkdir(parents=True)
    words = json.dumps({"record": str(tmp_path / "record"), **knobs})
    stage = make_stage(tmp_path, {"SERVE_TRITON_SERVER": str(program), fake.VARIABLE: words})
    root = tmp_path / "models"
    root.mkdir()
    registry = Registry()
    trials = Trials()
    triton = TritonClient("127.0.0.1", stage.ports.http, stage.ports.grpc, trials=trials)

    async def replace(timeout_s: float) -> None:
        await process.replace(timeout_s)

    def judge_death() -> int:
        judgement = trials.suspects.died()
        return judgement.deaths if judgement else 0

    hosting = Hosting(triton, stage.repository, load_timeout_s, trials, replace)
    revival = Revival(registry, hosting, stage.repository, unload_timeout_s)
    settings = LifecycleSettings(
        root, stage.repository, start_timeout_s, load_timeout_s, unload_timeout_s,
        limits=Limits(instances=20),
    )  # fmt: skip
    admission = Admission(registry, AdmissionSettings(stage.repository, memory_reserve_bytes))
    process = TritonProcess(
        stage.command, is_live=triton.is_live, on_restarted=revival.revive_all, restart_limit=5,
        restart_window_s=60, start_timeout_s=WAIT_S, stop_timeout_s=WAIT_S,
        judge_death=judge_death,
    )  # fmt: skip
    all_joined = Joined(
        root, stage.repository, tmp_path / "record", process, registry, triton, hosting,
        revival,
        Lifecycle(registry, triton, hosting, settings, admission),
        Invocation(registry, triton, revival, operation, invoke_timeout_s, Translation(1 << 14)),
    )  # fmt: skip
    run = asyncio.ensure_future(process.run())
    try:
        if start:
            await triton.until_live(WAIT_S)
        yield all_joined
    finally:
        await triton.close()
        await process.stop()
        await run
