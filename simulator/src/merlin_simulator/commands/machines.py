"""What the instances of `python -m simulator serve` are: processes here, or a Docker engine's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from merlin_simulator.archives.stores import ArchiveStore
from merlin_simulator.assembly import Parts, Wanted
from merlin_simulator.commands.machine_options import DOCKER, HERE
from merlin_simulator.control.production import MakeMachine, Wish
from merlin_simulator.errors import InvalidRequest
from merlin_simulator.hosting import Machine
from merlin_simulator.watch.events import EventLog

if TYPE_CHECKING:
    from merlin_simulator.runners.images import Engine, Images


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
    # docker: processes do without.
    from merlin_simulator.runners.images import Images, connect

    engine = connect(None)
    try:
        if removed := engine.remove_left_behind():
            print(f"containers that an earlier simulator left, removed: {removed}", flush=True)
        yield partial(_contained, Images(engine, options.registry, options.pull_timeout))
    finally:
        _clear(engine)


def _clear(engine: Engine) -> None:
    from merlin_simulator.runners.images import TROUBLE

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
    from merlin_simulator.runners.images import Asked

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
