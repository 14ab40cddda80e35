"""The end of a container that was started here."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from merlin_simulator.archives.stores import open_archives
from merlin_simulator.assembly import EndpointSpec, assemble
from merlin_simulator.instance.holdings import Budget
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import InstanceState
from simulator.tests.support.simulator import FAKE_CONTAINER
from simulator.tests.support.waiting import until
from tests.support.clock import Clock

RULES = Rules()


async def test_a_container_past_its_start_window_may_end_in_peace(
    tmp_path: Path, clock: Clock
) -> None:
    """SIGTERM and the time that it needs, however long it has been running."""
    goodbye = tmp_path / "goodbye"
    command = f"{FAKE_CONTAINER} --goodbye {goodbye}"
    spec = EndpointSpec("test", RULES, Budget(), tmp_path, container=command)
    endpoint, (fleet,) = assemble(spec, open_archives(str(tmp_path)), EventLog())
    running = asyncio.create_task(fleet.run())
    try:
        await until(
            lambda: [it.state for it in endpoint.instances] == [InstanceState.IN_SERVICE],
            "it is in service",
        )
        clock.advance(RULES.startup_s + 1)
    finally:
        await fleet.stop()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    assert goodbye.read_text() == "goodbye"
