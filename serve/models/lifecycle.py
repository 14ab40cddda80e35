"""Load and unload: each a straight line, the one read backwards is the other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from ensemble_tools import (
    Choices,
    EnsembleToolsError,
    IllegalName,
    ModelRepository,
    Namespace,
    ServingPlan,
    TableWriter,
    WorkflowsUnusable,
    count_requests_at_once,
    is_candidate,
    limit_requests_at_once,
    plan_archive,
    publish,
    read_executor_graph,
    read_repository,
    retract,
    write_tables,
)
from ensemble_tools.archive.executor_graph import ExecutorGraph
from serve.deadline import Deadline
from serve.errors import (
    CallerError,
    ResourceExhausted,
    ServeError,
    TritonUnavailable,
)
from serve.models.admission import Admission, Reservation
from serve.models.archive_errors import archive_errors
from serve.models.departures import Departures
from serve.models.model_url import check_source_directory, identify_archive
from serve.models.registry import Model, Registry, State
from serve.models.request_queue import UNORDERED
from serve.telemetry.load_record import LoadRecord
from serve.telemetry.telemetry import Telemetry
from serve.threads import InThread, NoThread, run_in_daemon_thread
from serve.triton.client import TritonClient
from serve.triton.hosting import Hosting, Processes

_log = logging.getLogger(__name__)

#: To load a model is no advice to who wants it gone.
_NOTHING_TO_UNLOAD = "is not loaded, so nothing is unloaded; GET /models lists what is"
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class LifecycleSettings:
    """Paths and limits of loading. Times in seconds; TimeLimits, where messages name settings."""

    model_root: Path
    serving_repository: Path
    start_timeout_s: float
    load_timeout_s: float
    unload_timeout_s: float
    choices: Callable[[], Choices] = Choices  # how archives are served
    write_tables: TableWriter = write_tables  # of compiled workflows
    counts: Path | None = None  # of compiled workflows' columns, as publish takes it
    runtime: Path | None = None  # of compiled workflows, as publish takes it
    gpus: int = 0  # that the machine has
    root_setting: str = ""  # what sets the model root, as a message names it
    thread_s: float = 5.0  # for a thread whose load is given up
    unwanted_s: float = 10.0  # for a candidate's load when its model is unloaded
    in_thread: InThread = run_in_daemon_thread


class Archive(NamedTuple):
    """An archive as it was read."""

    repository: ModelRepository
    graph: ExecutorGraph | None
    identity: str  # tells it from another archive

    def with_unusable(self, reasons: Mapping[str, str]) -> Archive:
        """The same archive, of which these workflows have turned out unusable."""
        return self._replace(repository=self.repository.with_unusable(reasons))


class Lifecycle:
    """Brings models into tritonserver and out of it."""

    def __init__(
        self,
        registry: Registry,
        triton: TritonClient,
        hosting: Hosting,
        settings: LifecycleSettings,
        admission: Admission,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._registry, self._triton, self._hosting = registry, triton, hosting
        self._settings, self._admission = settings, admission
        self._loads: set[asyncio.Task[object]] = set()
        self._departures = Departures(registry, hosting, self._retract, settings.unload_timeout_s)
        self._stopping = False

    def stop(self) -> None:
        """Give up the loads that are under way, and refuse others: the container is stopping."""
        self._stopping = True
        for task in self._loads:
            task.cancel()
        self._departures.stop()

    async def load(
        self, name: str, url: str, entry: str | None = None, target: str = ""
    ) -> ServingPlan:
        """Make the model invocable, or leave no trace of the attempt.

        entry names the model that is meant in an archive of several. target: the archive's name,
        as the platform says it. Raises BadRequest,
        ModelAlreadyLoaded, ModelUnusable, ResourceExhausted, TritonUnavailable, TritonTimeout.
        """
        record = LoadRecord(name, target)
        try:
            with self._until_stopped(), archive_errors(record):
                plan = await self._load(name, url, entry, record)
        except BaseException as error:
            self._telemetry.loaded(record, error)
            raise
        self._telemetry.loaded(record)
        return plan

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """A load, which is given up when the container stops; its caller is told so."""
        if self._stopping:
            raise _stopping_now()
        task = asyncio.current_task()
        assert task is not None
        self._loads.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if self._stopping:
                raise _stopping_now() from None
            raise
        finally:
            self._loads.discard(task)

    async def _load(
        self, name: str, url: str, entry: str | None, record: LoadRecord
    ) -> ServingPlan:
        """Read, decide, make room, publish, host, finish."""
        started = time.monotonic()
        self._check_name(name)
        async with AsyncExitStack() as undo:
            model = self._registry.begin_load(name, url)
            undo.callback(self._registry.forget, model)
            limit = Deadline(self._settings.load_timeout_s)
            with record.stage("read"):
                archive = await self._read(name, url, entry, limit)
            plan, reservation = await self._decide_and_publish(archive, name, limit, record, undo)
            with record.stage("tritonserver"):
                await self._until_live(limit)
                undo.push_async_callback(self._undo_load, plan)
                stubs = await self._hosting.host(plan, archive.identity, limit)
            with record.stage("decide"):
                facts = await self._in_thread("configs", _read_configs, plan, self._settings.gpus)
            self._telemetry.begin_model(record)
            self._registry.finish_load(
                model,
                plan.without_values(),
                stubs,
                facts.places,
                archive.identity,
                most_places=facts.most_places,
                fails_in_part=facts.fails_in_part,
            )
            undo.pop_all()  # the load is complete: nothing is undone from here on
            reservation.settle()
        _log_event("model loaded", model, started, **_describe(plan))
        if archive.repository.candidate is not None:
            self._note_candidate(model, archive.repository.candidate)
        return plan

    def _check_name(self, name: str) -> None:
        """Raise CallerError for a name that no model may have."""
        try:
            Namespace(name)
            if is_candidate(name):
                raise IllegalName(name, "it is that of a model's candidate")
        except EnsembleToolsError as error:
            raise CallerError(str(error)) from error

    def _note_candidate(self, model: Model, directory: Path) -> None:
        """The archive of a model that was loaded has a candidate there."""
        facts = {"model_name": model.name}
        _log.info("candidate/ is not loaded: candidates are off", extra=facts)

    async def _read(self, name: str, url: str, entry: str | None, limit: Deadline) -> Archive:
        settings = self._settings

        def read() -> Archive:
            directory = check_source_directory(url, settings.model_root, settings.root_setting)
            repository = read_repository(directory, entry)
            return Archive(repository, read_executor_graph(repository), identify_archive(url))

        reading = settings.in_thread(read, "read")
        return await limit.bound(reading, f"reading the archive of the model {name}")

    async def _decide_and_publish(
        self,
        archive: Archive,
        name: str,
        limit: Deadline,
        record: LoadRecord,
        undo: AsyncExitStack,
    ) -> tuple[ServingPlan, Reservation]:
        """The plan as it is published, and the reservation of its memory.

        It is made once more where category files turn out to be unusable, and then asks for room
        once more: NVTabular takes more than a program does.
        """
        while True:
            with record.stage("decide"):
                plan = await self._decide(archive, name, limit)
            async with AsyncExitStack() as attempt:
                with record.stage("room"):
                    reserving = self._reserve(plan)
                    reservation = await limit.bound(
                        reserving, f"finding room for the model {plan.model_name}"
                    )
                attempt.push(reservation.failed)
                attempt.push_async_callback(self._retract, plan)
                try:
                    with record.stage("publish"):
                        await self._in_thread("publish", self._publish, plan, record)
                except WorkflowsUnusable as error:
                    archive = archive.with_unusable(error.reasons)
                    continue
                undo.push_async_exit(attempt.pop_all())
                return plan, reservation

    async def _decide(self, archive: Archive, name: str, limit: Deadline) -> ServingPlan:
        """Beside a predecessor that leaves, its Triton names have a number, if they have room."""
        settings = self._settings

        async def decide(namespace: Namespace) -> ServingPlan:
            deciding = settings.in_thread(
                lambda: plan_archive(
                    archive.repository, archive.graph, namespace, settings.choices()
                ),
                "decide",
            )
            return await limit.bound(deciding, f"reading the archive of the model {name}")

        try:
            return await decide(self._departures.free_namespace(name))
        except IllegalName:  # perhaps with a number only
            namespace = Namespace(name)
            before = f"unloading what the name {name} stood for before"
            await limit.bound(self._departures.wait_until_free(namespace), before)
            return await decide(namespace)

    async def _reserve(self, plan: ServingPlan) -> Reservation:
        """Memory for it, if need be when tritonserver is done with models that have left."""
        while True:
            leaving = self._departures.under_way
            try:
                return await self._admission.reserve(plan)
            except ResourceExhausted:  # theirs in /dev/shm is free when tritonserver has let it go
                if not leaving:
                    raise
            await asyncio.wait(leaving)

    async def unload(self, name: str) -> None:
        """Give back everything that the model holds, after its invocations in flight.

        Raises ModelNotLoaded; TritonTimeout when it is still held, and then it is listed again.
        """
        began = time.monotonic()
        try:
            await self._unload(name)
        except CallerError:  # there was nothing to unload
            raise
        except ServeError as error:
            self._telemetry.unloaded(name, began, error)
            raise
        self._telemetry.unloaded(name, began)

    async def _unload(self, name: str) -> None:
        started = time.monotonic()
        deadline = Deadline(self._settings.unload_timeout_s)
        waiting = f"waiting for the invocations of {name}"
        model = await self._ready(name, deadline, waiting)
        self._registry.begin_unload(model.name)
        try:
            await deadline.bound(model.idle(), waiting)
            processes = await self._find_killable(model.plan)
            left: Processes = frozenset()
            if not processes:
                left = await self._hosting.end_model(model.plan, deadline, lost=model.lost)
        except BaseException:
            self._registry.fail_unload(model)
            raise
        if processes:
            await asyncio.shield(self._departures.begin(model, processes))
        else:
            async with AsyncExitStack() as rest:  # tritonserver has it no more, whatever comes now
                rest.callback(self._registry.forget, model)
                rest.push_async_callback(self._retract, model.plan)
                await self._hosting.end_processes(left)
        _log_event("model unloaded", model, started)

    async def _find_killable(self, plan: ServingPlan) -> Processes:
        """The processes of a model that are killed before tritonserver unloads it."""
        return await self._hosting.find_unfinalized(plan)

    async def _ready(self, name: str, deadline: Deadline, waiting: str) -> Model:
        """The model, once it is not being loaded again; a caller may find it lost at any time."""
        while (model := self._registry.loaded(name, _NOTHING_TO_UNLOAD)).state is not State.READY:
            await deadline.bound(model.settled(), waiting)
        return model

    async def _until_live(self, limit: Deadline) -> None:
        await self._triton.wait_until_live(min(self._settings.start_timeout_s, limit.remaining))

    # -- what blocks, run in a thread

    def _publish(self, plan: ServingPlan, record: LoadRecord) -> None:
        repository = self._settings.serving_repository
        retract(plan, repository)  # what a lack has left of another
        write = record.timed("tables", self._settings.write_tables)
        publish(plan, repository, write, self._settings.counts, self._settings.runtime)

    async def _retract(self, plan: ServingPlan) -> None:
        repository = self._settings.serving_repository
        try:
            await self._in_thread("retract", retract, plan, repository)
        except NoThread:
            retract(plan, repository)

    async def _in_thread(
        self, step: str, blocking: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs
    ) -> _T:
        work = self._settings.in_thread(lambda: blocking(*arguments, **named), step)
        return await to_its_end(work, self._settings.thread_s)

    async def _undo_load(self, plan: ServingPlan) -> None:
        if not self._stopping:  # tritonserver gives everything back when it ends
            await self._hosting.undo("load", plan, self._settings.unload_timeout_s)


async def to_its_end(in_thread: Awaitable[_T], wait_s: float) -> _T:
    """The thread's result; a cancelled caller waits for the thread, which goes on, for wait_s.

    What it writes must not come after the undoing of the load that it belongs to; but loads are
    cancelled only when the container stops, which a thread that never ends may not hold up.
    """
    work = asyncio.ensure_future(in_thread)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        deadline = Deadline(wait_s)
        while not work.done() and deadline.remaining:  # also when it is cancelled again
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work}, timeout=deadline.remaining)
        raise


def _stopping_now() -> TritonUnavailable:
    return TritonUnavailable("the container is stopping")


class _ConfigFacts(NamedTuple):
    """Facts of a plan that only its configs say."""

    places: int  # in tritonserver, at least
    most_places: int | None
    fails_in_part: bool  # at a part of the outputs


def _read_configs(plan: ServingPlan, gpus: int) -> _ConfigFacts:
    """Blocking: a config of many steps takes seconds to parse."""
    places = count_requests_at_once(plan, gpus) or UNORDERED
    most_places = limit_requests_at_once(plan)
    return _ConfigFacts(places, most_places, plan.fails_in_part)


def _describe(plan: ServingPlan) -> dict[str, object]:
    """A load's fields in the log: the form, and how its workflows run if there are any."""
    facts: dict[str, object] = {"form": plan.form.value}
    if joined := sum(len(model.steps) for model in plan.models):
        facts["in_one_process"] = f"{joined} steps"
    workflows = plan.compiled + len(plan.not_compiled)
    if workflows:
        facts["compiled"] = f"{plan.compiled} of {workflows} workflows"
    if plan.json_workflows:
        facts["from_graph_json"] = f"{plan.json_workflows} workflows"
    for key, sentences in (
        ("kept", plan.kept),
        ("not_compiled", plan.not_compiled),
        ("not_in_one_process", plan.not_joined),
    ):
        if sentences:
            facts[key] = "; ".join(sentences)
    return facts


def _log_event(event: str, model: Model, started: float, **facts: object) -> None:
    fields = {"model_name": model.name, "seconds": round(time.monotonic() - started, 3), **facts}
    _log.info(event, extra=fields)
