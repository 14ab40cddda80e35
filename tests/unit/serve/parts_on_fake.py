"""Registry, lifecycle, revival and invocation joined as the container joins them, on a fake."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tritonclient.grpc import aio as triton_grpc

from container.tritonserver.command import TritonCommand
from container.tritonserver.process import TritonProcess
from ensemble_tools import Choices, Limits, ServingPlan
from serve.invoke.bodies import Bodies
from serve.invoke.failures import Failures
from serve.invoke.invocation import Invocation
from serve.invoke.request import Passage, Request
from serve.invoke.translation import Translation
from serve.limit import TimeLimit
from serve.models.admission import Admission, AdmissionSettings, Reservation, Snapshot
from serve.models.health import Health
from serve.models.lifecycle import Lifecycle, LifecycleSettings
from serve.models.registry import Model, Registry, State
from serve.models.request_queue import RequestQueues
from serve.models.revival import Revival
from serve.resources.footprints import Footprints, StubSettings
from serve.resources.ledger import Ledger
from serve.threads import InThread, NoThread, run_in_daemon_thread
from serve.triton.client import TritonClient
from serve.triton.connection import Answer, AnswerStream
from serve.triton.control import ModelControl
from serve.triton.hosting import Hosting, HostingSettings
from serve.triton.http import TritonHttp
from serve.triton.stubs import Stub, find_stubs
from serve.triton.trials import Trials
from tests.fakes import tritonserver as fake
from tests.unit.container.conftest import fake_stage
from tests.unit.serve.fake_in_loop import FakeInLoop

#: For anything that must happen; a failure, not a sleep.
WAIT_S = 60.0
LOOK_S = 0.01
UNHEALTHY_AFTER_S = 120.0
T = TypeVar("T")
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
#: As the container chooses.
CHOICES = Choices(answers_parts=True, limits=Limits(instances=20))
DEAD = {"status": 500, "message": "Stub process 'm_0_0' is not healthy."}


def stepping(**instead: Callable[[Callable[[], Any]], Any]) -> InThread:
    """Threads in whose steps a test takes part: `instead` is given a step's work, by its name."""

    async def in_thread(work: Callable[[], T], name: str) -> T:
        step = functools.partial(instead[name], work) if name in instead else work
        return await run_in_daemon_thread(step, name)

    return in_thread


class HookedControl(ModelControl):
    """Control in whose calls a test takes part: `instead` has what comes in a method's place."""

    instead: Mapping[str, Callable[..., Awaitable[Any]]]

    async def request_load(self, *arguments: Any) -> None:
        """As told, or as it is."""
        await self.instead.get("request_load", super().request_load)(*arguments)

    async def request_unload(self, *arguments: Any, **named: Any) -> None:
        """As told, or as it is."""
        await self.instead.get("request_unload", super().request_unload)(*arguments, **named)


class HookedClient(TritonClient):
    """The same of a client, and of its control."""

    def __init__(self, socket_path: Path, grpc_target: str, **named: Any) -> None:
        super().__init__(socket_path, grpc_target, **named)
        self.instead: dict[str, Callable[..., Awaitable[Any]]] = {}
        self.control = control = HookedControl(grpc_target, {}, self._is_gone)
        control.instead = self.instead

    async def wait_until_live(self, *arguments: Any) -> None:
        """As told, or as it is."""
        await self.instead.get("wait_until_live", super().wait_until_live)(*arguments)

    async def infer(self, *arguments: Any, **named: Any) -> Answer:
        """As told, or as it is."""
        answer: Answer = await self.instead.get("infer", super().infer)(*arguments, **named)
        return answer

    def itself(self, name: str) -> Callable[..., Awaitable[Any]]:
        """The method as it is."""
        if name in ("request_load", "request_unload"):
            return functools.partial(getattr(ModelControl, name), self.control)
        return functools.partial(getattr(TritonClient, name), self)


class HookedAdmission(Admission):
    """Refuses what a test wants to be refused: `lacks` may raise."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.lacks: Callable[[], object] = lambda: None
        self.seen: Snapshot | None = None
        self.looks = 0

    async def look(self) -> Snapshot:
        """As a test has it, or as it is."""
        self.looks += 1
        return self.seen or await super().look()

    async def reserve(self, plan: ServingPlan, *, spare: bool = False) -> Reservation:
        """As it is, unless something lacks."""
        self.lacks()
        return await super().reserve(plan, spare=spare)


class NotedRevival(Revival):
    """Tells when a model is asked to come back."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.on_revive: Callable[[], object] = lambda: None

    async def revive(self, model: Model, generation: int) -> None:
        """As it is."""
        self.on_revive()
        await super().revive(model, generation)


@dataclass
class PartsOnFake:
    """Everything between the routes and a fake tritonserver."""

    root: Path
    repository: Path
    record: Path
    process: TritonProcess | FakeInLoop
    registry: Registry
    triton: HookedClient
    http: TritonHttp
    control: triton_grpc.InferenceServerClient
    ledger: Ledger
    admission: HookedAdmission
    hosting: Hosting
    health: Health
    revival: NotedRevival
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

    async def stream(self, name: str = "m") -> AnswerStream:
        """What comes of an answer behind its head, of an endpoint that streams."""
        answer = await self.invocation.forward(name, Request([], [b'{"say":"hi"}']))
        assert answer.rest is not None
        return answer.rest

    def events(self, *kinds: str) -> list[str]:
        """What the fake was asked, of these kinds, in order."""
        seen = fake.read_record(self.record)
        return [event["event"] for event in seen if event["event"] in kinds]

    async def held(self) -> list[str]:
        """What tritonserver holds."""
        index = await self.control.get_model_repository_index()
        return [model.name for model in index.models if model.state in {"READY", "LOADING"}]

    async def assert_empty(self) -> None:
        """No model in the registry, nothing on disk, nothing in tritonserver, no room held."""
        assert self.registry.count(*State) == 0
        assert self.ledger.loading == []
        assert list(self.repository.iterdir()) == []
        assert await self.held() == []


def no_descriptor(*_: object, **__: object) -> Any:
    """In the place of what opens files: no more can be opened."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@dataclass
class Lacking:
    """In the place of what looks for stubs and of what works in a thread: perhaps it cannot."""

    descriptors: bool = False
    threads: bool = False

    def find_stubs(self, serving: Path, names: Collection[str]) -> frozenset[Stub]:
        """As it is, but without descriptors."""
        if self.descriptors:
            no_descriptor()
        return find_stubs(serving, names)

    async def in_thread(self, work: Callable[[], T], name: str) -> T:
        """As it is, but without threads."""
        if self.threads:
            raise NoThread("can't start new thread")
        return await run_in_daemon_thread(work, name)

    @property
    def hosting(self) -> HostingSettings:
        """With these."""
        return HostingSettings(find_stubs=self.find_stubs, in_thread=self.in_thread)


def invocation_of(model: Model) -> Passage:
    """One in flight for as long as the block lasts."""
    return Passage(model, Request([], []), WAIT_S)


async def until(true: Callable[[], bool]) -> None:
    """Wait until it is true."""

    async def looking() -> None:
        while not true():  # noqa: ASYNC110 # a process or a thread makes it true
            await asyncio.sleep(LOOK_S)

    await asyncio.wait_for(looking(), WAIT_S)


@contextlib.asynccontextmanager
async def parts_on_fake(
    tmp_path: Path,
    *,
    start_timeout_s: float = WAIT_S,
    load_timeout_s: float = WAIT_S,
    unload_timeout_s: float = WAIT_S,
    invoke_timeout_s: float = WAIT_S,
    memory_reserve_bytes: int = 1,
    operation: str = "infer",
    start: bool = True,
    hosting: HostingSettings | None = None,
    replaceable: bool = True,
    queues: RequestQueues | None = None,
    health_clock: Callable[[], float] = time.monotonic,
    lifecycle: Mapping[str, Any] | None = None,
    lifecycle_class: type[Lifecycle] = Lifecycle,
    dies: bool = False,
    **knobs: Any,
) -> AsyncIterator[PartsOnFake]:
    """All of it on a running fake tritonserver with these knobs.

    dies: tritonserver is a process, as TritonProcess keeps it; else it is in the test's own.
    """
    stage = fake_stage(tmp_path, **knobs)
    root = tmp_path / "models"
    root.mkdir()
    registry = Registry(queues)
    trials = Trials()
    addresses = stage.addresses
    http = TritonHttp(addresses.http)
    triton = HookedClient(addresses.http, addresses.grpc_target, trials=trials, http=http)
    control = triton_grpc.InferenceServerClient(addresses.grpc_target)

    async def replace(timeout_s: float) -> None:
        await process.replace(timeout_s)

    load_limit = TimeLimit(load_timeout_s, "SERVE_LOAD_TIMEOUT")
    invoke_limit = TimeLimit(invoke_timeout_s, "SERVE_INVOKE_TIMEOUT")
    hosts = Hosting(
        triton, stage.repository, load_limit, trials, replace if replaceable else None, hosting
    )
    health = Health(
        UNHEALTHY_AFTER_S,
        lambda: registry.brought + invocation.answered,
        registry.may_serve,
        health_clock,
    )
    revival = NotedRevival(registry, hosts, stage.repository, unload_timeout_s, health)
    invocation = Invocation(
        registry,
        triton,
        revival,
        operation,
        invoke_limit,
        Bodies(operation == "infer", Translation(1 << 14)),
        Failures(registry, revival, operation, triton.memory),
    )
    settings = LifecycleSettings(
        **{
            "model_root": root,
            "serving_repository": stage.repository,
            "start_timeout_s": start_timeout_s,
            "load_timeout_s": load_limit,
            "unload_timeout_s": unload_timeout_s,
            "choices": lambda: CHOICES,
            **(lifecycle or {}),
        }
    )
    ledger = Ledger(Footprints(StubSettings()))
    kept = AdmissionSettings(stage.repository, memory_reserve_bytes)
    admission = HookedAdmission(registry, kept, ledger=ledger)
    process = _kept(stage.command, triton, revival, trials) if dies else FakeInLoop(stage.command)
    parts = PartsOnFake(
        root,
        stage.repository,
        tmp_path / "record",
        process,
        registry,
        triton,
        http,
        control,
        ledger,
        admission,
        hosts,
        health,
        revival,
        lifecycle_class(registry, triton, hosts, settings, admission),
        invocation,
    )
    run = asyncio.ensure_future(process.run())
    try:
        if start:
            await triton.wait_until_live(WAIT_S)
        yield parts
    finally:
        await control.close()
        await triton.close()
        await process.stop()
        await run


def _kept(
    command: TritonCommand, triton: TritonClient, revival: Revival, trials: Trials
) -> TritonProcess:
    """A process of its own that is started again when it dies."""

    def judge_death() -> int:
        judgement = trials.suspects.died()
        return judgement.deaths if judgement else 0

    return TritonProcess(
        command,
        is_live=triton.is_live,
        on_restarted=revival.revive_all,
        restart_limit=5,
        restart_window_s=600,
        start_timeout_s=WAIT_S,
        stop_timeout_s=WAIT_S,
        judge_death=judge_death,
    )
