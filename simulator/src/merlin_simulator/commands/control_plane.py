"""What `serve` starts: the control plane with all of its services, and its instances."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from merlin_simulator.addresses import make_url
from merlin_simulator.archives.local_s3 import make_local_client
from merlin_simulator.archives.stores import ArchiveStore
from merlin_simulator.assembly import InstanceFactory
from merlin_simulator.commands.options import DOCKER, HERE, read_rules
from merlin_simulator.commands.serving import Failures, listen, serve_app
from merlin_simulator.control.apis import read_service_model
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.moto import running
from merlin_simulator.control.plane import Plane, Setup
from merlin_simulator.control.records import held, newest_time
from merlin_simulator.control.variant_deployer import MakeRunner, VariantSpec
from merlin_simulator.errors import InvalidRequest, SimulatorError
from merlin_simulator.hosting import InstanceRunner
from merlin_simulator.incoming import Hosts
from merlin_simulator.runners.processes import find_missing_container
from merlin_simulator.runners.supervision import kill_leftovers, record_pid
from merlin_simulator.watch.events import Event, EventLog, make_console, tell_event


@contextmanager
def runners(options: argparse.Namespace) -> Iterator[MakeRunner]:
    """What makes instances' runners; afterwards no container of ours is left on an engine.

    Raises InvalidRequest for options that do not go together, PlatformFailed without an engine.
    """
    if options.instances_on == HERE:
        if options.registry is not None:
            raise InvalidRequest(f"--registry is for --instances-on {DOCKER}: nothing is pulled")
        if options.container is None and (missing := find_missing_container()):
            # All but instances works without.
            print(f"{missing}, or take --instances-on {DOCKER}", file=sys.stderr)

        def start_process(
            variant: VariantSpec,
            store: ArchiveStore,
            log: EventLog,
            name: str,
            given_up: Callable[[], bool],
        ) -> InstanceRunner:
            return InstanceFactory(variant, store, log, options.container).process(name, given_up)

        yield start_process
        return
    if options.container is not None:
        raise InvalidRequest(
            f"--container is the command of processes: with --instances-on {DOCKER} the model's "
            "Image says what runs"
        )
    # docker: processes do without.
    from merlin_simulator.runners.images import TROUBLE, ImageRequest, Images, connect

    engine = connect(None)
    images = Images(engine, options.registry, options.pull_timeout)

    def contain(
        variant: VariantSpec,
        store: ArchiveStore,
        log: EventLog,
        name: str,
        given_up: Callable[[], bool],
    ) -> InstanceRunner:
        request = ImageRequest(variant.image, variant.variant_name, variant.role)
        factory = InstanceFactory(variant, store, log)
        return factory.contained(name, images, request, variant.instance_type, given_up)

    try:
        if removed := engine.remove_left_behind():
            print(f"containers that an earlier simulator left, removed: {removed}", flush=True)
        yield contain
    finally:
        with suppress(*TROUBLE):
            engine.remove_own()
        engine.close()


#: Of the service model: the types that a variant may have.
_INSTANCE_TYPE = "ProductionVariantInstanceType"
#: Where the containers that run are noted, below the work folder.
_PIDS = "pids"


def serve_control_plane(options: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM; 1 with one sentence where it cannot start."""
    # Until it serves: whatever was made goes, as it does later.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with ExitStack() as stack:
            socket = stack.enter_context(listen(options.host, options.port))
            if options.state is not None:
                stack.enter_context(held(options.state))
            _check_types([*options.memory_of, *options.quota])
            work_dir = _work_dir(options.state, stack)
            url = make_url(options.host, socket.getsockname()[1])
            make_runner = stack.enter_context(runners(options))
            moto_url = stack.enter_context(running(work_dir / "moto", options.state))
            log = EventLog()
            log.listen(make_console(partial(print, flush=True), options.verbose))
            setup = Setup(
                state=options.state or work_dir / "state",
                work_dir=work_dir / "instances",
                region=options.region,
                rules=read_rules(options),
                memory=dict(options.memory_of),
                quotas=dict(options.quota),
                clock=Clock(options.time_scale, earliest=_newest(options.state)),
                make_runner=make_runner,
                s3=make_local_client(moto_url),
                moto_url=moto_url,
                registry=options.registry,
            )
            plane, ending = Plane(setup, log), asyncio.Event()
            plane.endpoints.listeners.event += [
                partial(tell_event, partial(print, flush=True), options.verbose),
                partial(_note, work_dir / _PIDS),
            ]
            print(
                f"SageMaker at {url}: AWS_ENDPOINT_URL={url}; its page is {url}/; Ctrl-C ends it",
                flush=True,
            )
            hosts = Hosts(options.host)
            serve_app(plane.app(), socket, ending, plane.refuse, Failures(), hosts)
    except (SimulatorError, OSError, ValueError) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1
    return 0


def _work_dir(state: Path | None, stack: ExitStack) -> Path:
    """A folder for files of this process, beside the state if there is one.

    What a killed process left there is removed.
    """
    if state is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simulator-")))
    work_dir = state.absolute() / "work"
    if ended := kill_leftovers(work_dir / _PIDS):
        print(f"{ended} containers that a killed simulator left were ended", flush=True)
    try:
        shutil.rmtree(work_dir, ignore_errors=True)
        work_dir.mkdir(parents=True)
    except OSError as error:
        raise OSError(
            f"--state {state}: no folder can be made there ({error.strerror}): name another"
        ) from error
    return work_dir


def _newest(state: Path | None) -> float:
    """The newest time that is kept, so that the platform's clock does not go back."""
    return 0.0 if state is None else newest_time(state)


def _check_types(names: Sequence[tuple[str, int]]) -> None:
    """Raises ValueError for an instance type that SageMaker does not have."""
    known: Sequence[str] = ()
    for name, _ in names:
        known = known or read_service_model("sagemaker").shape_for(_INSTANCE_TYPE).enum
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ValueError(f"{name!r} is no instance type of SageMaker's endpoints{meant}")


def _note(folder: Path, _: str, event: Event) -> None:
    pid = event.fields.get("pid")
    if event.kind == "instance_starting" and isinstance(pid, int):
        record_pid(folder, pid)
