"""A fleet keeps its number of instances, whatever becomes of them meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from merlin_simulator.archives.stores import FolderArchives
from merlin_simulator.assembly import EndpointSpec, InstanceFactory
from merlin_simulator.errors import PlatformFailed
from merlin_simulator.hosting import Fleet, Variant
from merlin_simulator.instance.holdings import Budget
from merlin_simulator.instance.instance import Instance, Passage
from merlin_simulator.instance.requests import Invocation
from merlin_simulator.rules import Rules
from merlin_simulator.runners.attached import Attachment
from merlin_simulator.watch.events import EventLog
from simulator.tests.support.waiting import WAIT_S, until
from simulator.tests.unit.plain_http import plain_http
from tests.support.clock import Clock

RULES = replace(Rules(), cold_wait_s=1.0, invoke_timeout_s=1.0)


@dataclass
class FakeRunner:
    """Serves at once, or waits for come; ends when it is given up."""

    instance: Instance
    come: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False
    stopped: bool = False

    async def run(self) -> None:
        """Until given up."""
        if self.fails:
            raise PlatformFailed("never healthy")
        await self.come.wait()
        self.instance.serve(0.0)
        await self.given_up.wait()
        self.instance.fail("given up")

    async def stop(self) -> None:
        """Told."""
        self.stopped = True


class FakeRunners:
    """Makes machines; the next ones are as serving and failing say. gate: makes wait for it."""

    def __init__(self, folder: Path) -> None:
        self.made: list[FakeRunner] = []
        self.forgotten: list[str] = []
        self.serving, self.failing = True, False
        self.url = "http://127.0.0.1:9"
        self.gate = threading.Event()
        self.gate.set()
        store, log = FolderArchives(folder), EventLog()
        self._factory = InstanceFactory(
            EndpointSpec("shop", RULES, Budget(None, None), folder), store, log
        )
        self._attachment = Attachment(self.url, folder, folder)
        names = (f"all-{number}" for number in itertools.count(1))
        variant = Variant("shop", True, "", RULES, log)
        self.fleet = Fleet(variant, self._make, names, self.forgotten.append)

    def _make(self, name: str, _: Callable[[], bool]) -> FakeRunner:
        assert self.gate.wait(WAIT_S)
        instance = self._factory.attached(name, self.url, self._attachment)
        runner = FakeRunner(instance, fails=self.failing)
        if self.serving:
            runner.come.set()
        self.made.append(runner)
        return runner


@pytest.fixture
def runners(tmp_path: Path) -> FakeRunners:
    """None yet."""
    return FakeRunners(tmp_path)


async def test_an_instance_that_ends_during_a_change_that_fails_is_replaced(
    runners: FakeRunners,
) -> None:
    fleet = runners.fleet
    await fleet.scale(1)
    runners.serving = False
    growing = asyncio.create_task(fleet.scale(2))
    await until(lambda: len(runners.made) == 2, "the second is made")
    runners.made[0].given_up.set()
    await until(lambda: len(runners.made) == 3, "the first is replaced by the change itself")
    runners.serving = True
    growing.cancel()
    await asyncio.wait({growing})
    assert fleet.desired == 1
    await until(lambda: fleet.in_service == 1, "another one is in service")
    await fleet.stop()


async def test_a_change_does_not_wait_for_a_replacement_that_does_not_come(
    runners: FakeRunners,
) -> None:
    fleet = runners.fleet
    await fleet.scale(2)
    runners.serving = False
    runners.made[0].given_up.set()
    await until(lambda: len(runners.made) == 3, "a replacement is made")
    await asyncio.wait_for(fleet.scale(1), WAIT_S)
    assert (fleet.desired, fleet.in_service) == (1, 1)
    await until(lambda: runners.made[2].stopped, "the replacement is let go of")
    await fleet.stop()


async def test_an_instance_that_leaves_answers_who_waited_for_a_cold_model(
    runners: FakeRunners, clock: Clock
) -> None:
    """A request may wait for its model, and then as long again for its answer, and no longer."""
    fleet = runners.fleet
    with plain_http(lambda *_: b"parts") as port:
        runners.url = f"http://127.0.0.1:{port}"
        await fleet.scale(2)
        leaving = runners.made[1]
        # Until its parts are read the request has not ended.
        answer = await leaving.instance.invoke_stream(Invocation("r", None, b"", {}), Passage())
        began, longest_s = clock(), RULES.cold_wait_s + RULES.invoke_timeout_s
        await fleet.scale(1)
        await clock.until(lambda: leaving.stopped, longest_s + 1)
        assert clock() - began >= longest_s
        await answer.parts.aclose()
        await fleet.stop()


async def test_a_replacement_is_of_the_number_that_is_wanted_when_its_turn_comes(
    runners: FakeRunners,
) -> None:
    fleet = runners.fleet
    await fleet.scale(1)
    runners.made[0].given_up.set()
    await until(lambda: fleet.in_service == 0, "it is gone")
    runners.failing = True
    with pytest.raises(PlatformFailed, match="never healthy"):
        await fleet.scale(3)
    runners.failing = False
    await until(lambda: fleet.in_service == 1, "one comes")
    assert fleet.desired == 1
    await fleet.stop()


async def test_nothing_is_left_of_an_instance_that_was_being_made(runners: FakeRunners) -> None:
    fleet = runners.fleet
    runners.gate.clear()
    growing = asyncio.create_task(fleet.scale(1))
    await asyncio.sleep(0)
    growing.cancel()
    await asyncio.wait({growing})
    stopping = asyncio.create_task(fleet.stop())
    runners.gate.set()
    await asyncio.wait_for(stopping, WAIT_S)
    assert runners.forgotten == [one.instance.name for one in runners.made]


async def test_nothing_is_wanted_after_the_end(runners: FakeRunners) -> None:
    fleet = runners.fleet
    await fleet.scale(1)
    runners.serving = False
    runners.made[0].given_up.set()
    await until(lambda: len(runners.made) == 2, "a replacement is made")
    await fleet.stop()
    assert (fleet.desired, fleet.variant.instances) == (0, ())
    assert runners.made[1].stopped
