"""Starts and stops the container's parts, in this order.

Start: the port is bound; then tritonserver is found and started, and beside it the server's
modules are imported and joined, so that /ping and /models answer whatever tritonserver takes; then,
in single-model mode, its model is loaded. Stop: no new connections, what is in flight is finished,
then tritonserver, then what was written to disk.

What is imported at the top of this file is all that tritonserver's start needs: each further import
here comes before it, and with it before the first 200 on /ping.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from container.addresses import Addresses, choose_addresses
from container.constants import Constants
from container.errors import (
    BindFailed,
    ContainerError,
    Mistake,
    SettingsError,
)
from container.logs.setup import catch_the_rest, configure, open_standard_error, write_out
from container.logs.sink import Sink
from container.machine.allocator import keep_freed_memory
from container.machine.cuda_libraries import arrange_cuda_compat
from container.machine.descriptors import raise_limit
from container.machine.hardware import Hardware, look_at_hardware
from container.model_environment import hide_from_models, shut_ourselves
from container.settings.reading import Settings, read_alone, read_settings
from container.start_line import describe_lacking_metrics, describe_open_apis, describe_start
from container.telemetry.outside_counts import OutsideCounts
from container.traces_endpoint import find_traces_endpoint, hide_secrets, wants_grpc
from container.tritonserver.command import (
    TritonCommand,
    build_command,
    can_show_metrics,
    name_shm_prefix,
)
from container.tritonserver.output import TritonOutput
from container.tritonserver.process import TritonProcess
from container.tritonserver.runtime import ModelsPython, find_python_on_path, find_runtime
from container.warm.interpreters import Surroundings, WarmInterpreters
from container.warm.libraries import Library, choose_libraries, describe_useless
from container.work_dir import work_dir as make_work_dir
from serve.threads import run_in_daemon_thread
from serve.triton.access import TritonAccess

if TYPE_CHECKING:
    from container.assembly import Container

log = logging.getLogger(__name__)

#: Connections that the kernel holds until they are accepted; the platform waits 250 ms for that.
_BACKLOG = 2048


def serve(
    environment: Mapping[str, str], constants: Constants | None = None, root: Path = Path("/")
) -> int:
    """Run the container until it is told to stop; the process's exit code.

    0 after SIGTERM or SIGINT. 1 when it could not start or tritonserver could not be kept alive;
    the reason is the last line of the log. constants: None for the container's own. root: where
    GPUs, their driver and CUDA are looked for.
    """
    sink = Sink(open_standard_error())
    catch_the_rest()
    configure("info", sink, read_alone("log_format", environment))
    try:
        hardware = look_at_hardware(root)
        settings = read_settings(environment, hardware)
        configure(settings.log_level, sink, settings.log_format)
        _check_model_root(settings)
        for unknown in settings.unknown:
            log.warning("%s", unknown)
        libraries = choose_libraries(hardware.gpus) if settings.warm != "off" else {}
        if useless := describe_useless(settings.preload or (), libraries):
            log.warning("%s", useless)
        if settings.model_environment == "clean":
            shut_ourselves()
        keep_freed_memory()
        descriptors = raise_limit()
        run = _Run(
            settings,
            environment,
            constants or Constants(),
            descriptors,
            sink,
            hardware,
            root,
            libraries,
        )
        uvloop.run(run.run_to_the_stop())
        log.info("stopped", extra={"signal": run.stop.signal})
    except ContainerError as error:
        write_out(sink)  # what is left of the log before it, if anybody reads on
        log.critical("%s", error)
        return 1
    return 0


def _check_model_root(settings: Settings) -> None:
    """Raises SettingsError where no model can lie. SageMaker may make its own directory later."""
    root = settings.model_root
    if not settings.multi_model:
        return
    try:
        found = "it is a file" if not stat.S_ISDIR(root.stat().st_mode) else ""
    except FileNotFoundError:
        is_default = root == read_alone("model_root", {})
        found = "" if is_default else "there is none; make it"
    except OSError as error:
        found = f"it cannot be looked at ({error.strerror})"
    if found:
        raise SettingsError([Mistake("SERVE_MODEL_ROOT", str(root), f"a directory, and {found}")])


class _Run:
    """A run, from start to stop."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        constants: Constants,
        descriptors: tuple[int, int],
        sink: Sink,
        hardware: Hardware,
        root: Path,
        libraries: Mapping[str, Library],
    ) -> None:
        self._hardware, self._root = hardware, root
        self._settings, self._environment = settings, environment
        self._constants = constants
        self._descriptors, self._sink = descriptors, sink
        self._output = TritonOutput(sink, settings.log_format)
        #: Of which there are warm interpreters.
        self._libraries = libraries
        self.stop = _Stop()
        self._models = ModelsPython()
        self._access = TritonAccess.make_secret()
        self._shm_prefix = name_shm_prefix(os.getpid(), secrets.token_hex(4))
        self._container: Container | None = None
        self._process: TritonProcess | None = None
        self._interpreters: WarmInterpreters | None = None
        self._surroundings: Surroundings | None = None

    async def run_to_the_stop(self) -> None:
        """Serve until a signal comes or tritonserver cannot be kept alive."""
        settings, stop = self._settings, self.stop
        stop.listen()
        async with AsyncExitStack() as ending:
            work_dir = ending.enter_context(
                make_work_dir(_choose_temporary(self._environment), self._shm_prefix)
            )
            _name_serving_repository(work_dir).mkdir()
            addresses = choose_addresses(settings, work_dir)
            listener = ending.enter_context(_bind(settings.bind_address, settings.bind_port))
            ending.callback(self._end_interpreters)  # when no tritonserver is left
            triton = asyncio.ensure_future(self._triton(addresses, work_dir))
            ending.push_async_callback(self._end_sending)
            ending.push_async_callback(self._end_triton, triton)
            traces = self._tell_of_traces()
            make = await run_in_daemon_thread(_import_assembly, "imports")
            gc.freeze()  # what was imported stays: no collection need look through it
            self._name_models_in_log(_name_serving_repository(work_dir))
            container = self._container = make(
                settings,
                self._hardware.gpus,
                addresses,
                _name_serving_repository(work_dir),
                lambda: self._models,
                bool(self._libraries),
                self._access,
                hide_from_models(self._environment, settings.model_environment),
                self._replace,
                OutsideCounts(lambda: self._sink.dropped, self._count_interpreters),
                self._output.take_unread,
                self._constants,
                traces,
            )
            http = container.listen(listener, _BACKLOG)
            ending.push_async_callback(container.stop)
            log.info("listening", extra={"port": settings.bind_port})
            beside = container.after_start()
            await _until_stopped(stop, {triton, http}, beside, container.give_up_loads)

    async def _triton(self, addresses: Addresses, work_dir: Path) -> None:
        command = await run_in_daemon_thread(lambda: self._command(addresses, work_dir), "start")
        if self._interpreters is not None and self._surroundings is not None:
            self._interpreters.start(self._surroundings, self._settings.preload or ())
        self._process = TritonProcess(
            command,
            is_live=self._is_live,
            on_restarted=self._revive,
            restart_limit=self._constants.restart_limit,
            restart_window_s=self._constants.restart_window_s,
            start_timeout_s=self._constants.start_timeout(self._hardware.gpus),
            stop_timeout_s=self._constants.triton_stop_timeout_s,
            judge_death=self._judge_death,
            descriptors=self._descriptors,
            output=self._output,
        )
        await self._process.run()

    def _name_models_in_log(self, serving: Path) -> None:
        if self._settings.log_format == "json":
            from container.tritonserver.named_models import NamedModels  # it needs ensemble_tools

            self._output.name_models(NamedModels(serving).find)

    async def _end_triton(self, running: asyncio.Future[None]) -> None:
        if self._process is None:
            running.cancel()  # it is still looked for
        else:
            await self._process.stop()
        with contextlib.suppress(ContainerError, asyncio.CancelledError):
            await running

    def _tell_of_traces(self) -> str | None:
        """Log where traces are sent to; None where they are off."""
        endpoint = find_traces_endpoint(self._environment)
        if endpoint is not None:
            log.info("traces are on", extra={"endpoint": hide_secrets(endpoint)})
            if wants_grpc(self._environment):
                log.warning("traces are sent over HTTP: the protocol grpc is not spoken here")
        return endpoint

    def _end_interpreters(self) -> None:
        if self._interpreters is not None:
            self._interpreters.end()

    async def _end_sending(self) -> None:
        if self._container is not None:
            await self._container.observability.until_sent()

    def _command(self, addresses: Addresses, work_dir: Path) -> TritonCommand:
        runtime = find_runtime(self._settings, work_dir, self._environment)
        facts = {"path": str(runtime.executable), "version": runtime.version}
        log.info("tritonserver found", extra={name: it for name, it in facts.items() if it})
        if open_to_models := describe_open_apis(runtime):
            log.warning("%s", open_to_models)
        if addresses.metrics is not None and not can_show_metrics(runtime):
            log.warning("%s", describe_lacking_metrics(runtime))
        configured = describe_start(self._settings, runtime, self._environment, self._hardware)
        log.info("configured", extra=configured)
        command = build_command(
            self._settings,
            runtime,
            addresses,
            _name_serving_repository(work_dir),
            self._environment,
            gpu_count=self._hardware.gpus,
            shm_prefix=self._shm_prefix,
            access=self._access,
            warm=self._listen_for_stubs(work_dir),
            cuda_compat=arrange_cuda_compat(
                self._settings.cuda_compat, self._environment, self._root
            ),
        )
        self._models = ModelsPython(runtime.backend_python, runtime.stand_ins, runtime.backends)
        if self._interpreters is not None:
            python = runtime.backend_python
            self._surroundings = Surroundings(
                python.executable if python else find_python_on_path(command.env),
                runtime.backend_directory / "python/triton_python_backend_utils.py",
                command.env,
                self._descriptors,
                self._output.descriptor,
            )
        return command

    def _listen_for_stubs(self, work_dir: Path) -> Path | None:
        """The folder with the warm interpreters' sockets; None where there are to be none."""
        if not self._libraries:
            return None
        if self._hardware.gpus:
            log.info(
                "there are GPUs: models that may use one import their libraries themselves",
                extra={"interpreters": ", ".join(self._libraries)},
            )
        self._interpreters = WarmInterpreters(work_dir / "warm", self._libraries)
        self._interpreters.listen()
        return self._interpreters.folder

    def _count_interpreters(self) -> Mapping[str, int]:
        return self._interpreters.starts if self._interpreters is not None else {}

    async def _is_live(self) -> bool:
        return self._container is not None and await self._container.triton.is_live()

    def _judge_death(self) -> int:
        return self._container.judge_death() if self._container else 0

    async def _replace(self, timeout_s: float) -> None:
        if self._process is not None:
            await self._process.replace(timeout_s)

    async def _revive(self) -> None:
        assert self._container is not None, "what is not joined yet was never live"
        self._container.observability.telemetry.restarted()
        await self._container.revival.revive_all()


def _import_assembly() -> type[Container]:
    """Import, for 0.5 s, in a thread: tritonserver is started meanwhile.

    All of it stays, so that looking for garbage meanwhile would only take a tenth more.
    """
    gc.disable()
    try:
        from container.assembly import Container
    finally:
        gc.enable()
    return Container


async def _until_stopped(
    stop: _Stop,
    servers: set[asyncio.Future[None]],
    beside: Awaitable[None],
    give_up: Callable[[], None],
) -> None:
    """Return on a signal, or when a server ends; raise what ended one of them or `beside`.

    give_up is called before `beside` is ended, which may be a load.
    """
    stopping = asyncio.ensure_future(stop.asked.wait())
    others: set[asyncio.Future[Any]] = {stopping, asyncio.ensure_future(beside)}
    tasks, ends = servers | others, servers | {stopping}
    try:
        while True:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if done & ends:
                return
    finally:
        log.info("stopping")
        give_up()
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class _Stop:
    """What ends a run. signal: the name of the first that asked for it, empty before."""

    def __init__(self) -> None:
        self.asked, self.signal = asyncio.Event(), ""

    def listen(self) -> None:
        """From now on; in the event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ask, number)

    def _ask(self, number: signal.Signals) -> None:
        self.signal = self.signal or number.name
        self.asked.set()


def _choose_temporary(environment: Mapping[str, str]) -> Path | None:
    """TMPDIR's directory. Python's tempfile takes /tmp where TMPDIR cannot be written to."""
    configured = environment.get("TMPDIR")
    return Path(configured).absolute() if configured else None


def _name_serving_repository(work_dir: Path) -> Path:
    return work_dir / "serving"


def _bind(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BindFailed(address, port, error.strerror or str(error)) from error
