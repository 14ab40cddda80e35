"""The only place where objects are built and joined, and where start and stop have their order.

Start: the HTTP server first, so that /ping and /models answer from the first second; then
tritonserver; then, in single-model mode, its model. Stop: no new connections, what is in flight is
finished, then tritonserver, then what was written to disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

from container.cloudwatch import MetricsPublisher
from container.errors import BindFailed, ContainerError, SingleModelUnusable
from container.logs import configure
from container.ports import LOOPBACK, Ports, choose_ports
from container.settings import MIB, Settings, read_settings
from container.triton_command import TritonCommand, build_command, shm_prefix_for
from container.triton_process import TritonProcess
from container.triton_runtime import count_gpus, find_runtime
from ensemble_tools import EnsembleToolsError, Rewrite, read_repository
from serve.app import multi_model_app, single_model_app
from serve.errors import ServeError
from serve.http_protocol import invocation_protocol
from serve.invocation import Invocation
from serve.lifecycle import Lifecycle, LifecycleSettings
from serve.registry import Registry
from serve.revival import Revival
from serve.routes import InvokeRoute, ModelRoutes, PingRoute, invoked_model, is_invocations
from serve.translation import Translation
from serve.triton_client import TritonClient

log = logging.getLogger(__name__)

#: Of the time to stop in, what requests in flight get, and then tritonserver. The rest is for
#: clearing away what a killed tritonserver leaves, and for the interpreter's own end.
_DRAIN_SHARE, _TRITON_SHARE = 0.5, 0.25
#: Connections that the kernel holds until they are accepted; the platform waits 250 ms for that.
_BACKLOG = 2048
#: Longer than load balancers and the platform keep idle connections (60 s and less).
_KEEP_ALIVE_S = 75


def serve(environment: Mapping[str, str]) -> int:
    """Run the container until it is told to stop; the process's exit code.

    0 after SIGTERM or SIGINT. 1 when it could not start or tritonserver could not be kept alive;
    the reason is the last line of the log.
    """
    configure("info")
    try:
        settings = read_settings(environment)
        configure(settings.log_level)
        for unknown in settings.unknown:
            log.warning("%s", unknown)
        gc.freeze()  # what was imported stays, and need not be looked through at every collection
        uvloop.run(_Container(settings, environment).run())
    except ContainerError as error:
        log.critical("%s", error)
        return 1
    return 0


@dataclass(frozen=True)
class _Serving:
    """What answers requests, joined."""

    app: ASGIApp
    protocol: type[asyncio.Protocol] | None
    triton: TritonClient
    registry: Registry
    lifecycle: Lifecycle
    revival: Revival


class _Container:
    """One run, from start to stop."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, environment
        self._nvtabular = ""

    async def run(self) -> None:
        """Serve until a signal comes or tritonserver cannot be kept alive."""
        settings = self._settings
        stop = _stop_signal()
        single_model = None if settings.multi_model else _single_model_name(settings)
        async with AsyncExitStack() as ending:
            work_dir = ending.enter_context(_work_dir(settings.work_dir))
            ports = choose_ports(settings)
            repository = work_dir / "serving"
            serving = _join(settings, ports, repository, single_model, lambda: self._nvtabular)
            server, listening = await self._start_http(serving)
            ending.push_async_callback(_drain, server, listening)
            log.info("listening", extra={"port": settings.bind_port})

            process = await self._triton(serving, ports, work_dir)
            running = asyncio.ensure_future(process.run())
            try:
                beside = self._after_start(serving, ports, single_model)
                await self._until_stopped(stop, {running, listening}, beside)
            finally:
                log.info("stopping")
                serving.lifecycle.stop()
                await _drain(server, listening)
                await serving.triton.close()  # tritonserver waits for connections that are open
                await process.stop()
                with contextlib.suppress(ContainerError):
                    await running

    async def _start_http(self, serving: _Serving) -> tuple[_Server, asyncio.Future[None]]:
        settings = self._settings
        config = uvicorn.Config(
            serving.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=serving.protocol or "httptools",
            ws="none",
            loop="none",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=max(1, int(settings.shutdown_timeout * _DRAIN_SHARE)),
        )
        server = _Server(config)
        bound = _bind(settings.bind_address, settings.bind_port)
        return server, asyncio.ensure_future(server.serve(sockets=[bound]))

    async def _triton(self, serving: _Serving, ports: Ports, work_dir: Path) -> TritonProcess:
        settings = self._settings
        command = await asyncio.to_thread(self._command, ports, work_dir)
        return TritonProcess(
            command,
            is_live=serving.triton.is_live,
            on_restarted=serving.revival.revive_all,
            restart_limit=settings.restart_limit,
            restart_window_s=settings.restart_window,
            start_timeout_s=settings.start_timeout,
            stop_timeout_s=settings.shutdown_timeout * _TRITON_SHARE,
        )

    def _command(self, ports: Ports, work_dir: Path) -> TritonCommand:
        runtime = find_runtime(self._settings, work_dir, self._environment)
        log.info("tritonserver found", extra={"path": str(runtime.executable)})
        if runtime.backend_python is not None:
            self._nvtabular = runtime.backend_python.nvtabular
        return build_command(
            self._settings,
            runtime,
            ports,
            work_dir / "serving",
            self._environment,
            gpu_count=count_gpus(),
            shm_prefix=shm_prefix_for(os.getpid(), secrets.token_hex(4)),
        )

    async def _after_start(self, serving: _Serving, ports: Ports, single_model: str | None) -> None:
        """What runs beside tritonserver: the single model's load, the publishing of metrics."""
        if single_model is not None:
            await _load_single_model(self._settings, serving.lifecycle, single_model)
        if self._settings.publish_metrics:
            await _metrics_publisher(self._settings, ports).run()

    async def _until_stopped(
        self, stop: asyncio.Event, servers: set[asyncio.Future[None]], beside: Awaitable[None]
    ) -> None:
        """Return on a signal, or when a server ends; raise what ended one of them or `beside`."""
        stopping = asyncio.ensure_future(stop.wait())
        others: set[asyncio.Future[Any]] = {stopping, asyncio.ensure_future(beside)}
        tasks = servers | others
        try:
            while not stopping.done() and not any(server.done() for server in servers):
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)


class _Server(uvicorn.Server):
    """uvicorn, but signals are the container's: uvicorn would raise them again after it stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


async def _drain(server: _Server, listening: asyncio.Future[None]) -> None:
    """Stop accepting and finish what is in flight; idempotent."""
    server.should_exit = True
    await listening


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


@contextlib.contextmanager
def _work_dir(configured: Path | None) -> Iterator[Path]:
    """A directory for what this run writes, empty at its start and gone at its end."""
    if configured is not None:
        configured.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="serve-", dir=configured))
    (directory / "serving").mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BindFailed(address, port, error.strerror or str(error)) from error


def _join(
    settings: Settings,
    ports: Ports,
    serving_repository: Path,
    single_model: str | None,
    nvtabular: Callable[[], str],
) -> _Serving:
    """Registry, client, lifecycle, invocation and routes, each given what it needs."""
    registry = Registry()
    triton = TritonClient(LOOPBACK, ports.http, ports.grpc)
    revival = Revival(
        registry, triton, serving_repository, settings.load_timeout, settings.unload_timeout
    )
    lifecycle = Lifecycle(
        registry,
        triton,
        LifecycleSettings(
            model_root=settings.model_root if settings.multi_model else Path("/"),
            serving_repository=serving_repository,
            start_timeout_s=settings.start_timeout,
            load_timeout_s=settings.load_timeout,
            unload_timeout_s=settings.unload_timeout,
            memory_reserve_bytes=settings.memory_reserve_mb * MIB,
            strict=not settings.auto_complete,
            rewrite=Rewrite(settings.rewrite),
            nvtabular=nvtabular,
        ),
    )
    least = settings.translate_json_from
    invocation = Invocation(
        registry,
        triton,
        revival,
        settings.inference_type,
        settings.invoke_timeout,
        Translation(least) if least and settings.inference_type == "infer" else None,
    )
    ping = PingRoute(_health(settings, registry, triton))
    if single_model is None:
        app = multi_model_app(ping, ModelRoutes(registry, lifecycle), InvokeRoute(invocation))
        model_of: Callable[[bytes], str | None] = invoked_model
    else:
        app = single_model_app(ping, InvokeRoute(invocation, single_model))

        def model_of(url: bytes) -> str | None:
            return single_model if is_invocations(url) else None

    protocol = None if invocation.streams else invocation_protocol(invocation, model_of)
    return _Serving(app, protocol, triton, registry, lifecycle, revival)


def _health(
    settings: Settings, registry: Registry, triton: TritonClient
) -> Callable[[], Awaitable[bool]]:
    """What /ping asks: tritonserver's liveness, or readiness of it and of the single model."""
    if settings.ping_mode == "live":
        return triton.is_live
    if settings.multi_model:
        return triton.is_ready

    async def model_is_ready() -> bool:
        models = registry.all_loaded()
        return bool(models) and await triton.is_model_ready(models[0].serving.entry)

    return model_is_ready


def _single_model_name(settings: Settings) -> str:
    """The model of a single-model endpoint (upstream's serve script has the same rule).

    Raises SingleModelUnusable unless it is named or the only one.
    """
    directory, named = settings.single_model_dir, settings.default_model_name
    try:
        repository = read_repository(directory, named)
    except EnsembleToolsError as error:
        raise SingleModelUnusable.unclear(str(error)) from error
    if named is None and len(repository.models) > 1:
        found = ", ".join(sorted(repository.models)[:20])
        raise SingleModelUnusable.unclear(f"{directory}: found several models ({found})")
    name = repository.entry.name
    if named is None:
        log.warning(
            "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME is not set; serving the only model",
            extra={"model_name": name},
        )
    return name


async def _load_single_model(settings: Settings, lifecycle: Lifecycle, name: str) -> None:
    try:
        await lifecycle.load(name, str(settings.single_model_dir), entry=name)
    except ServeError as error:
        raise SingleModelUnusable.failed(name, str(error)) from error


def _metrics_publisher(settings: Settings, ports: Ports) -> MetricsPublisher:
    assert ports.metrics is not None
    return MetricsPublisher(settings, ports.metrics)
