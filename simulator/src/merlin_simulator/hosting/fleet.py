"""The instances of one variant: as many as are wanted, while the wish changes.

An instance that comes is asked once it is in service. One that leaves gets no more requests,
answers those that it has, and is stopped then. One that is given up is replaced.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from merlin_simulator.errors import PlatformFailed, SimulatorError
from merlin_simulator.hosting.variant import Variant
from merlin_simulator.instance.instance import Instance
from merlin_simulator.threads import run_in_thread
from merlin_simulator.watch.view import InstanceState

_logger = logging.getLogger(__name__)

#: Between two looks at instances that come or leave.
_LOOK_S = 0.05
#: Before an instance that was given up is replaced, so that a container that always ends does not
#: keep the machine busy.
_REPLACED_AFTER_S = 2.0


class Machine(Protocol):
    """Keeps the container of one instance going; see runners."""

    instance: Instance

    async def run(self) -> None:
        """Until stopped, or given up. Raises PlatformFailed where it was never in service."""

    async def stop(self) -> None:
        """The container ends, in the time the platform gives it."""


@dataclass
class _Place:
    machine: Machine
    running: asyncio.Task[None]


class Fleet:
    """Keeps a variant at a number of instances.

    make: makes the machine of a new instance by its name; it may block, and may raise
    SimulatorError, as it does soon once the other argument says that nobody wants it any more.
    names: of instances; none comes twice at an endpoint. forget: removes what an instance that is
    gone has on the disk; it may block.
    """

    def __init__(
        self,
        variant: Variant,
        make: Callable[[str, Callable[[], bool]], Machine],
        names: Iterator[str],
        forget: Callable[[str], None],
    ) -> None:
        self.variant, self.wanted = variant, 0
        self._make, self._names, self._forget = make, names, forget
        self._places: dict[str, _Place] = {}
        self._failure: SimulatorError | None = None
        self._changing = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()
        self._replacing: set[asyncio.Task[None]] = set()

    @property
    def in_service(self) -> int:
        """Instances that take requests now."""
        states = (place.machine.instance.state for place in self._places.values())
        return sum(state is InstanceState.IN_SERVICE for state in states)

    async def scale(self, wanted: int) -> None:
        """Come to this many; returns once all of them are in service, and others are leaving.

        Raises SimulatorError where one that came never was in service: those that came are taken
        away then, and the wish is what it was before. So it is where this is cancelled.
        """
        # A replacement that does not come up is not waited for: it is a part of this now.
        self._end_replacing()
        try:
            await self._come_to(wanted)
        except BaseException:
            self._see_to_lacking()
            raise

    async def stop(self) -> None:
        """No instance is left, nor is any of its processes."""
        while self._replacing:
            self._end_replacing()
            await asyncio.wait(set(self._replacing))
        self.wanted = 0
        for name in list(self._places):
            self._leave(name)
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    async def _come_to(self, wanted: int | None) -> None:
        """As scale does; None: the number that is wanted once it is this one's turn."""
        async with self._changing:
            before, came = self.wanted, list[str]()
            self.wanted, self._failure = before if wanted is None else wanted, None
            try:
                self._shed(len(self._places) - self.wanted)
                await self._filled(came)
            except BaseException:
                self.wanted = before
                for name in came:
                    self._leave(name)
                raise

    async def _filled(self, came: list[str]) -> None:
        """Until all that are wanted are in service; came gets the names of those that are new."""
        while self._failure is None:
            if len(self._places) < self.wanted:
                came.append(await self._add())
            elif self.in_service >= self.wanted:
                return
            else:
                await asyncio.sleep(_LOOK_S)
        raise self._failure

    async def _add(self) -> str:
        name = next(self._names)
        given_up = threading.Event()
        making = asyncio.ensure_future(run_in_thread(lambda: self._make(name, given_up.is_set)))
        try:
            machine = await asyncio.shield(making)
        except BaseException:
            # Its thread ends soon, and until then it may write to the instance's folder.
            given_up.set()
            self._wait_for(self._dropped(name, making))
            raise
        self.variant.join(machine.instance)
        running = asyncio.create_task(machine.run())
        self._places[name] = _Place(machine, running)
        running.add_done_callback(lambda task: self._ended(name, task))
        return name

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Its machine has given it up: it leaves, and whoever fills the places sees to another."""
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or name not in self._places:
            return
        if isinstance(error, SimulatorError):
            self._failure = error
        elif error is not None:
            self._failure = PlatformFailed(f"{type(error).__name__}: {error}")
        self._leave(name)
        if not self._changing.locked():
            self._see_to_lacking()

    def _see_to_lacking(self) -> None:
        """Where instances lack, others come."""
        if len(self._places) < self.wanted:
            replacing = asyncio.create_task(self._replace())
            self._replacing.add(replacing)
            replacing.add_done_callback(self._replacing.discard)

    def _end_replacing(self) -> None:
        for task in self._replacing:
            task.cancel()

    async def _replace(self) -> None:
        """Tries for ever: the variant is wanted with as many."""
        while len(self._places) < self.wanted:
            await asyncio.sleep(_REPLACED_AFTER_S)
            with suppress(SimulatorError):
                await self._come_to(None)

    def _shed(self, count: int) -> None:
        """Those leave first that are not in service, then the youngest."""
        names = sorted(
            self._places,
            key=lambda name: (
                self._places[name].machine.instance.state is InstanceState.IN_SERVICE,
                -list(self._places).index(name),
            ),
        )
        for name in names[: max(0, count)]:
            self._leave(name)

    async def _dropped(self, name: str, making: asyncio.Future[Machine]) -> None:
        """An instance that nobody wants any more, or that was not made; it never started."""
        await asyncio.wait({making})
        if making.exception() is None:
            await making.result().instance.close()
        await run_in_thread(lambda: self._forget(name))

    def _wait_for(self, work: Coroutine[Any, Any, None]) -> None:
        """It goes on in the background; stop waits for it."""
        leaving = asyncio.create_task(work)
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _leave(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is None:
            return
        place.machine.instance.stop()
        self._wait_for(self._let_go(place))

    async def _let_go(self, place: _Place) -> None:
        """Its requests end in their own time, then its container, then its connections."""
        instance, rules = place.machine.instance, self.variant.rules
        # The last request may wait for its model before it waits for its answer.
        longest_s = rules.cold_wait_s + rules.invoke_timeout_s
        await instance.wait_until_idle(longest_s)
        try:
            await instance.holdings.stop()
            await place.machine.stop()
        except Exception:
            _logger.exception("the container of %s did not end as it should", instance.name)
        finally:
            place.running.cancel()
            await asyncio.wait({place.running})
            self.variant.leave(instance.name)
            await instance.close()
            await run_in_thread(lambda: self._forget(instance.name))
