"""What the instances of `python -m simulator serve` are: processes here, or a Docker engine's."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from simulator.archives.store import ArchiveStore
from simulator.assembly import Parts, Wanted
from simulator.commands.up_options import read_duration
from simulator.control.production import MakeMachine, Wish
from simulator.errors import InvalidRequest
from simulator.hosting.fleet import Machine
from simulator.runners.engine import TROUBLE, Engine, connect
from simulator.runners.images import Asked, Images
from simulator.watch.events import EventLog

HERE, DOCKER = "this-machine", "docker"
_PULL_S = 1800.0


def add_machine_options(group: argparse._ArgumentGroup) -> None:
    """Where instances run; see machines."""
    group.add_argument(
        "--instances-on",
        choices=[HERE, DOCKER],
        default=HERE,
        help=f"{HERE}: containers are processes of this project, whatever Image says (default). "
        f"{DOCKER}: containers of the Docker engine of this machine (DOCKER_HOST, or "
        "/var/run/docker.sock), made of the model's Image, with the memory of their instance "
        "type; an image that the engine does not have is pulled. All of them are removed at the "
        "end; those of a simulator that was killed, at the next start",
    )
    group.add_argument(
        "--container",
        metavar="COMMAND",
        help="the processes' command; {port} and {models} in it are filled in (default: this "
        "project's own, python -m container serve)",
    )
    group.add_argument(
        "--registry",
        type=_read_registry,
        metavar="HOST:PORT",
        help=f"with {DOCKER}: where images of ECR are pulled from, so that "
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/NAME:TAG is HOST:PORT/NAME:TAG, unless the "
        "engine has one of the long name; 127.0.0.1:5000, a registry of this machine, needs no "
        "TLS; ECR's calls about images tell what it has (default: ECR itself, with what docker "
        "login has kept)",
    )
    group.add_argument(
        "--pull-timeout",
        type=read_duration,
        default=_PULL_S,
        metavar="SECONDS",
        help=f"with {DOCKER}: how long an image may be pulled ({_PULL_S:g})",
    )


@contextmanager
def machines(options: argparse.Namespace) -> Iterator[MakeMachine]:
    """What makes an instance's machine; afterwards no container of ours is left on an engine.

    Raises InvalidRequest for options that do not go together, PlatformFailed without an engine.
    """
    if options.instances_on == HERE:
        if options.registry is not None:
            raise InvalidRequest(f"--registry is for --instances-on {DOCKER}: nothing is pulled")
        yield partial(_process, options.container)
        return
    if options.container is not None:
        raise InvalidRequest(
            f"--container is the command of processes: with --instances-on {DOCKER} the model's "
            "Image says what runs"
        )
    engine = connect(None)
    try:
        if removed := engine.remove_left_behind():
            print(f"containers that an earlier simulator left, removed: {removed}", flush=True)
        yield partial(_contained, Images(engine, options.registry, options.pull_timeout))
    finally:
        _clear(engine)


def _clear(engine: Engine) -> None:
    with suppress(*TROUBLE):
        engine.remove_own()
    engine.close()


def _process(
    container: str | None,
    wish: Wish,
    store: ArchiveStore,
    log: EventLog,
    name: str,
    given_up: Callable[[], bool],
) -> Machine:
    return Parts(_wanted(wish, container), store, log).process(name, given_up)


def _contained(
    images: Images,
    wish: Wish,
    store: ArchiveStore,
    log: EventLog,
    name: str,
    given_up: Callable[[], bool],
) -> Machine:
    asked = Asked(wish.image, wish.variant_name, wish.role)
    parts = Parts(_wanted(wish), store, log)
    return parts.contained(name, images, asked, wish.instance_type, given_up)


def _wanted(wish: Wish, container: str | None = None) -> Wanted:
    return Wanted(
        wish.endpoint_name,
        wish.rules,
        wish.budget,
        wish.work_dir,
        container=container,
        single_model=wish.single_model,
        environment=wish.environment,
    )


def _read_registry(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT, as 127.0.0.1:5000")
    return text
