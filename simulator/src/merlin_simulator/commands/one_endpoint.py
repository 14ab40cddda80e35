"""What `python -m simulator up` starts: one endpoint, its instances and its page."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from merlin_simulator.addresses import make_url
from merlin_simulator.app import Runner, build_app
from merlin_simulator.archives.stores import SUFFIX, ArchiveStore, open_archives
from merlin_simulator.assembly import EndpointSpec, assemble
from merlin_simulator.commands.options import read_rules
from merlin_simulator.commands.serving import Failures, listen, serve_app
from merlin_simulator.errors import PlatformFailed, SimulatorError
from merlin_simulator.hosting import Endpoint
from merlin_simulator.incoming import Hosts
from merlin_simulator.instance.holdings import Budget
from merlin_simulator.runners.processes import find_missing_container
from merlin_simulator.watch.events import Event, EventLog, make_console


def serve_endpoint(options: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM; 1 with one sentence where it cannot start."""
    try:
        ours = not options.instance and options.container is None
        if ours and (missing := find_missing_container()):
            raise PlatformFailed(missing)
        store = open_archives(options.models, options.s3_endpoint_url)
        with ExitStack() as stack:
            listening = stack.enter_context(listen(options.host, options.port))
            log = EventLog()
            work_dir = _work_dir(options, stack, log)
            log.listen(make_console(partial(print, flush=True), options.verbose))
            endpoint, runners = assemble(_make_spec(options, work_dir), store, log)
            _say_ready(options, listening.getsockname()[1])
            if not options.instance:
                print(f"the containers' logs: {work_dir}/instance-*.log", flush=True)
            if options.single_model is None:
                _say_what_is_missing(store)
            hosts = Hosts(options.host, options.public_url)
            _serve(endpoint, runners, listening, hosts)
    except (SimulatorError, OSError) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1
    return 0


def _serve(
    endpoint: Endpoint, runners: Sequence[Runner], listening: socket.socket, hosts: Hosts
) -> None:
    """Until a signal, or until a runner fails: then raises what it failed with."""
    ending, failures = asyncio.Event(), Failures()
    app = build_app(endpoint, runners, ending, failures.add)
    serve_app(app, listening, ending, endpoint.stop, failures, hosts)


def _make_spec(options: argparse.Namespace, work_dir: Path) -> EndpointSpec:
    return EndpointSpec(
        endpoint_name=options.endpoint_name,
        rules=read_rules(options),
        budget=Budget(options.memory, options.disk),
        work_dir=work_dir,
        instances=options.instances or 1,
        container=options.container,
        single_model=options.single_model,
        attachments=tuple(options.instance),
        docker_socket=options.docker_socket,
    )


def _say_what_is_missing(store: ArchiveStore) -> None:
    """Archives may come later, so that nothing ends for want of them."""
    if not store.names(1):
        print(
            f"no archives: looked for *{SUFFIX} in {store.description} and below, found none. "
            "Requests fail until there are some, which may be put there while this runs: "
            "`python -m ensemble_tools pack EXPORT -o NAME.tar.gz` makes one of an export.",
            file=sys.stderr,
            flush=True,
        )


def _work_dir(options: argparse.Namespace, stack: ExitStack, log: EventLog) -> Path:
    if options.work_dir is None:
        return stack.enter_context(_temporary_folder(log))
    work_dir: Path = options.work_dir.absolute()
    work_dir.mkdir(parents=True, exist_ok=True)
    return work_dir


@contextmanager
def _temporary_folder(log: EventLog) -> Iterator[Path]:
    """Removed at the end, but for the logs where a container ended before it was ever healthy."""
    folder = Path(tempfile.mkdtemp(prefix="simulator-"))
    served, never = set[str | None](), set[str | None]()

    def hear(event: Event) -> None:
        if event.kind == "instance_in_service":
            served.add(event.instance)
        elif event.kind == "instance_ended" and event.instance not in served:
            never.add(event.instance)

    log.listen(hear)
    try:
        yield folder
    finally:
        _remove(folder, sorted(folder.glob("*.log")) if never - served else [])


def _remove(folder: Path, logs: Sequence[Path]) -> None:
    """A download that was left behind may still write: its file is gone all the same."""
    if not logs:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in set(folder.iterdir()).difference(logs):
        shutil.rmtree(path, ignore_errors=True)
    print(f"the containers' logs are kept: {', '.join(map(str, logs))}", file=sys.stderr)


def _say_ready(options: argparse.Namespace, port: int) -> None:
    url = (options.public_url or make_url(options.host, port)).rstrip("/")
    print(
        f"endpoint {options.endpoint_name} at {url} (the page: {url}/); Ctrl-C ends it", flush=True
    )
