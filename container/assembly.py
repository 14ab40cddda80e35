"""The only place where objects are built and joined."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from container import limits
from container.addresses import Addresses
from container.background import restart_for_ever
from container.constants import Constants
from container.errors import SingleModelUnusable
from container.health import HealthCheck
from container.machine.allocator import trim_forever
from container.machine.memory import is_in_memory, read_machine_limits
from container.settings.reading import Settings
from container.settings.values import MIB
from container.telemetry.observability import Observability
from container.telemetry.outside_counts import OutsideCounts
from container.tritonserver.command import PYTHON_THREADS
from container.tritonserver.orphans import bury_orphans
from container.tritonserver.runtime import ModelsPython
from container.warm.predictors import find_predictors
from container.workflows.table_cache import TableCache
from container.workflows.table_process import TableProcesses
from ensemble_tools import Choices, Compile, EnsembleToolsError, Limits, Rewrite, read_repository
from serve.errors import ServeError
from serve.http.app import make_multi_model_app, make_single_model_app
from serve.http.connections import Connections
from serve.http.invoke_protocol import find_invoked_model, is_invocations, make_invocation_protocol
from serve.http.routes import ModelRoutes, PingRoute
from serve.invoke.bodies import Bodies
from serve.invoke.comparing import ComparedInvocation, Comparing
from serve.invoke.failures import Failures
from serve.invoke.invocation import Invocation
from serve.invoke.translation import Translation
from serve.models.admission import Admission, AdmissionSettings
from serve.models.candidates import LifecycleBesideCandidates
from serve.models.health import Health
from serve.models.lifecycle import Lifecycle, LifecycleSettings
from serve.models.registry import Registry
from serve.models.request_queue import RequestQueues
from serve.models.request_rate import RequestRate
from serve.models.revival import Revival
from serve.resources.footprints import StubSettings
from serve.resources.gpus import Gpus
from serve.threads import run_in_daemon_thread
from serve.triton.access import TritonAccess
from serve.triton.client import TritonClient
from serve.triton.diagnosis.load_errors import ModelsSide
from serve.triton.hosting import Hosting
from serve.triton.trials import Trials

log = logging.getLogger(__name__)

#: From one look at the disk to the next, in seconds.
_DISK_LOOK_S = 5.0


class Container:
    """The parts that answer requests: registry, client, lifecycle, invocation and routes, joined.

    gpus: how many the machine has.
    models: tells what Python models are run with, as soon as tritonserver has been found. warm:
    whether there are warm interpreters. access: what opens tritonserver's APIs. environment: of the
    processes that write tables. replace: kills tritonserver so that it is started again.
    outside: what others count. unread: why tritonserver could not read a model's config, by the
    Triton model's name. traces: where spans are sent to. Raises SingleModelUnusable for a
    single-model endpoint whose model cannot be told.
    """

    def __init__(
        self,
        settings: Settings,
        gpus: int,
        addresses: Addresses,
        serving_repository: Path,
        models: Callable[[], ModelsPython],
        warm: bool,
        access: TritonAccess,
        environment: Mapping[str, str],
        replace: Callable[[float], Awaitable[None]],
        outside: OutsideCounts,
        unread: Callable[[str], str],
        constants: Constants,
        traces: str | None = None,
    ) -> None:
        self._settings, self._constants = settings, constants
        self._single_model = None if settings.multi_model else _name_single_model(settings)
        self._queues = RequestQueues(
            limits.waiting(settings), streams=settings.inference_type == "generate_stream"
        )
        self._crowd = Connections(limits.connections(settings, constants.read_timeout_s))
        self._registry = Registry(self._queues)
        trials = Trials()
        self._suspects = trials.suspects
        self.triton = TritonClient(
            addresses.http,
            addresses.grpc_target,
            access,
            trials,
            models_side=lambda: _models_side(models(), unread),
            memory=read_machine_limits().memory_bytes,
        )
        self.observability = Observability(
            settings,
            addresses,
            serving_repository,
            self._registry,
            self.triton,
            models,
            outside,
            traces,
        )
        telemetry = self.observability.telemetry
        load_timeout_s = limits.load_timeout(settings)
        hosting = Hosting(self.triton, serving_repository, load_timeout_s, trials, replace)
        self._health = Health(
            constants.unhealthy_after_s, self._count_what_went_well, self._registry.may_serve
        )
        self.revival = Revival(
            self._registry,
            hosting,
            serving_repository,
            constants.unload_timeout_s,
            self._health,
            telemetry,
        )
        self._tables = TableProcesses(environment)
        self._table_cache = TableCache(
            self._tables.write,
            serving_repository.with_name("tables"),
            0 if is_in_memory(serving_repository) else settings.table_cache_mb * MIB,
            telemetry.tables_made,
        )
        lifecycle_parts = (
            self._registry,
            self.triton,
            hosting,
            self._make_lifecycle_settings(serving_repository, models, warm, gpus),
            _make_admission(self._registry, settings, gpus, serving_repository, self.revival.renew),
            telemetry,
        )
        invocation_parts = (
            self._registry,
            self.triton,
            self.revival,
            settings.inference_type,
            limits.invoke_timeout(settings),
            Bodies(
                settings.inference_type == "infer",
                _make_translation(settings),
                self._crowd.limits.largest_body,
                limits.TRANSLATE_JSON_FROM,
            ),
            Failures(
                self._registry,
                self.revival,
                settings.inference_type,
                self.triton.memory,
                limits.STREAMING,
            ),
        )
        self._lifecycle: Lifecycle
        self._invocation: Invocation
        if settings.candidate_percent and settings.inference_type == "infer":
            beside = LifecycleBesideCandidates(*lifecycle_parts)
            comparing = Comparing(
                beside.candidates,
                self.triton,
                telemetry.candidates,
                settings.candidate_percent,
                settings.invoke_timeout,
                captures=self.observability.captures,
            )
            self._lifecycle = beside
            self._invocation = ComparedInvocation(*invocation_parts, comparing=comparing)
        else:
            self._lifecycle = Lifecycle(*lifecycle_parts)
            self._invocation = Invocation(*invocation_parts)

    def _make_lifecycle_settings(
        self,
        serving_repository: Path,
        models: Callable[[], ModelsPython],
        warm: bool,
        gpus: int,
    ) -> LifecycleSettings:
        settings, most = self._settings, read_machine_limits(gpus=gpus)
        counts = serving_repository.with_name("feature_counts")
        return LifecycleSettings(
            model_root=settings.model_root if settings.multi_model else Path("/"),
            serving_repository=serving_repository,
            start_timeout_s=self._constants.start_timeout(gpus),
            load_timeout_s=limits.load_timeout(settings),
            unload_timeout_s=self._constants.unload_timeout_s,
            choices=lambda: self._choose(models(), warm, most),
            write_tables=self._table_cache.write,
            counts=counts if settings.feature_metrics != "off" else None,
            runtime=serving_repository.with_name("compiled_workflow"),
            gpus=gpus,
            root_setting=limits.MODEL_ROOT,
        )

    def _choose(self, models: ModelsPython, warm: bool, most: Limits) -> Choices:
        settings = self._settings
        return Choices(
            strict=not settings.auto_complete,
            rewrite=Rewrite(settings.rewrite),
            compile=Compile(settings.compile),
            pickles=settings.pickles,
            warm=warm,
            predictors=find_predictors(models.stand_ins),
            answers_parts=True,
            nvtabular=models.nvtabular,
            limits=most,
        )

    def listen(self, listener: socket.socket, backlog: int) -> asyncio.Future[None]:
        """Answer what comes to this socket, which listens already; ends after `stop`."""
        config = uvicorn.Config(
            self._make_app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=self._make_protocol(),
            ws="none",
            loop="none",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=backlog,
            timeout_graceful_shutdown=self._constants.drain_timeout_s,
        )
        self._server = _Server(config)
        self._answering = asyncio.ensure_future(self._server.serve(sockets=[listener]))
        self._watching = asyncio.ensure_future(restart_for_ever("connections", self._crowd.watch))
        return self._answering

    async def after_start(self) -> None:
        """The tasks beside tritonserver: first the single model's load."""
        if self._single_model is not None:
            await self._load_single_model(self._single_model)
        beside = [
            restart_for_ever("memory", lambda: trim_forever(lambda: self._invocation.count)),
            restart_for_ever("orphans", bury_orphans),
            restart_for_ever("kept tables", self._make_room_on_disk),
        ]
        await asyncio.gather(*beside, *self.observability.running())

    async def _make_room_on_disk(self) -> None:
        """Until cancelled: archives that are extracted come before tables that are kept."""
        while True:
            await asyncio.sleep(_DISK_LOOK_S)
            await run_in_daemon_thread(self._table_cache.make_room, "disk")

    def judge_death(self) -> int:
        """How many deaths of tritonserver are explained, now that it died again; 0 for none."""
        judgement = self._suspects.died()
        if judgement is None:
            return 0
        log.error("tritonserver was killed twice, and will not be again, by %s", judgement.culprit)
        return judgement.deaths

    def give_up_loads(self) -> None:
        """End those that are under way, and refuse others: the container is stopping."""
        self._lifecycle.stop()
        self._tables.stop()

    async def stop(self) -> None:
        """Accept nothing more and finish what is in flight; the loads were given up before."""
        self._server.should_exit = True
        await self._answering
        self._watching.cancel()
        await self.observability.publish_last(self._constants.last_metrics_s)
        await self.triton.close()  # tritonserver waits for connections that are open
        self.observability.send_last(self._constants.last_captures_s)

    def _make_app(self) -> ASGIApp:
        ping, metrics = PingRoute(self._make_health_check()), self.observability.metrics_route()
        features = self.observability.feature_route()
        if self._single_model is not None:
            return make_single_model_app(ping, metrics, features)
        models = ModelRoutes(self._registry, self._lifecycle)
        return make_multi_model_app(ping, models, metrics, features)

    def _make_protocol(self) -> type[asyncio.Protocol]:
        """The protocol that answers invocations, in front of the app."""
        name = self._single_model
        model_of: Callable[[bytes], str | None] = find_invoked_model
        if name is not None:
            model_of = lambda url: name if is_invocations(url) else None  # noqa: E731
        return make_invocation_protocol(
            self._invocation,
            model_of,
            self._crowd,
            self._queues,
            self.observability.telemetry,
            self._make_rate(),
            self.observability.captures,
        )

    def _make_rate(self) -> RequestRate | None:
        """None where a model may be asked as often as callers like."""
        most_a_second = limits.request_rate(self._settings)
        return RequestRate(self._registry, most_a_second) if most_a_second else None

    def _make_health_check(self) -> HealthCheck:
        """The question of /ping: tritonserver's liveness, or the readiness of the single model.

        And whether it can serve anybody. tritonserver's own readiness is asked by nobody: from
        26.04 on it ends with the stub of any model (core 53fc26e).
        """
        trouble = self._health.trouble
        if self._settings.multi_model or self._settings.ping_mode == "live":
            return HealthCheck(self.triton.is_live, "tritonserver is not live", trouble)
        return HealthCheck(self._model_is_ready, "the model is not ready", trouble)

    def _count_what_went_well(self) -> int:
        """Loads, reloads, and invocations that were answered with 200."""
        return self._registry.brought + self._invocation.answered

    async def _model_is_ready(self) -> bool:
        """Whether tritonserver says so; from 26.01 on not while a stub is dead (core 9686007).

        The platform then sends no request that would find that out, so it is looked for here.
        """
        for model in self._registry.all_loaded():
            if await self.triton.is_model_ready(model.plan.entry):
                return True
            self.revival.look_at(model)
        return False

    async def _load_single_model(self, name: str) -> None:
        try:
            await self._lifecycle.load(name, str(self._settings.single_model_dir), entry=name)
        except ServeError as error:
            raise SingleModelUnusable.failed(name, str(error)) from error


def _make_admission(
    registry: Registry,
    settings: Settings,
    gpus: int,
    serving_repository: Path,
    renew: Callable[[], Awaitable[None]],
) -> Admission:
    admission_settings = AdmissionSettings(
        serving_repository,
        limits.memory_reserve(settings),
        limits.gpu_memory_reserve(settings),
        StubSettings(settings.shm_default_byte_size, PYTHON_THREADS),
        gpus=gpus,
    )
    return Admission(registry, admission_settings, Gpus(), renew=renew)


def _models_side(models: ModelsPython, unread: Callable[[str], str]) -> ModelsSide:
    python = models.python.executable if models.python else "the image's python3"
    return ModelsSide(
        f"the Python that runs models, {python} (SERVE_BACKEND_PYTHON)", models.backends, unread
    )


def _make_translation(settings: Settings) -> Translation | None:
    """None where JSON goes to tritonserver as it comes."""
    threshold_bytes = settings.translate_json_from
    infers = settings.inference_type == "infer"
    if not (threshold_bytes and infers):
        return None
    # One core is the event loop's, one the models'; the others may read JSON in tritonserver.
    return Translation(threshold_bytes, beside=max(0, len(os.sched_getaffinity(0)) - 2))


class _Server(uvicorn.Server):
    """uvicorn, but signals are the container's: uvicorn would raise them again after it stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def _name_single_model(settings: Settings) -> str:
    """The model of a single-model endpoint (upstream's serve script has the same rule).

    Raises SingleModelUnusable unless it is named or the only one.
    """
    directory, named = settings.single_model_dir, settings.default_model_name
    try:
        repository = read_repository(directory, named)
    except EnsembleToolsError as error:
        raise SingleModelUnusable.unclear(str(error)) from error
    if named is None and len(repository.models) > 1:
        names = ", ".join(sorted(repository.models)[:20])
        raise SingleModelUnusable.unclear(f"{directory}: found several models ({names})")
    name = repository.entry.name
    if named is None:
        log.warning(
            "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME is not set; serving the only model",
            extra={"model_name": name},
        )
    return name
