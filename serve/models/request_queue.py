"""Who waits for which model, and how much of them the container holds. Synchronous but for waiting.

tritonserver cannot drop a request that it has: a caller who hangs up cancels nothing there, and a
queue of such requests is worked off for nobody. So each model has a number of places in
tritonserver, and who finds none free waits here, in the order of arrival, where leaving costs
nothing. A place is taken from the moment a request may go to tritonserver until tritonserver has
it no more, which for a caller who left is later than the end of his call (decision 21).
A stream gives its place back when it is closed, and not before it has begun to be answered.

One writer: the event loop's thread. The hot path is `enter` and `leave` while places are free: no
future, no timer.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from serve.errors import BodyTooLarge, InvocationFailed, Overloaded, ServeError, shortened
from serve.limit import UNCOUNTED, named

MIB = 1024 * 1024

#: What is larger is counted in steps of so many bytes.
_STEP = 256 * 1024
#: A model that is quick has as many places as it has just answered in this time, in seconds, up to
#: so many: enough for 16 connections, and few where its next requests take long.
_WORK_S, _QUICK = 0.25, 16
#: Its pace is looked at when it has as many requests as a slow one, not more often than this, in
#: seconds.
_LOOK_S = 0.05
#: Requests that tritonserver is given at once of a model whose queue is tritonserver's own
#: (count_requests_at_once): many, and yet each is a connection, a descriptor of both.
UNORDERED = 256
#: Where streams have that many: so many of those whose callers left may wait in tritonserver to be
#: begun. While they do, nobody else is let in.
_MOST_LEFT = 4
#: Refusals are logged at most this often, with their number, in seconds.
_LOGGED_EVERY_S = 10.0

_log = logging.getLogger(__name__)


class WaitedTooLong(Exception):
    """The turn did not come within the time given."""


@dataclass(frozen=True)
class Bounds:
    """How many may wait, and how many bytes of bodies are held, for a model and in all.

    Bytes are those of every body that the container holds: of requests still coming, waiting, or
    at work, and of answers that come or go. Limits, where a message is to name their settings.
    """

    waiting: int = 1000
    held_bytes: int = 256 * MIB
    total_waiting: int = 4000
    total_held_bytes: int = 1024 * MIB


class Overloads:
    """Refusals that come in crowds, logged now and then. status: what they are answered with."""

    def __init__(self, status: int = 503) -> None:
        self._status = status
        self._refused, self._logged_at = 0, -_LOGGED_EVERY_S

    def make_error(self, why: str) -> Overloaded:
        """The error to raise."""
        self.count(why)
        return Overloaded(why)

    def count(self, why: object) -> None:
        """One more is refused; why: a sentence, or an error that has it."""
        self._refused += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOGGED_EVERY_S:
            extra = {"refused": self._refused}
            _log.warning("refused with %d: %s", self._status, why, extra=extra)
            self._refused, self._logged_at = 0, now


class RequestQueues:
    """The queues of all models: what they may hold together. streams: invocations are streams."""

    def __init__(self, bounds: Bounds | None = None, streams: bool = False) -> None:
        self.bounds, self.streams = bounds or Bounds(), streams
        self.waiting = self.held_bytes = 0
        self._held_by_model: dict[str, int] = {}
        self._overloads = Overloads()

    @property
    def largest(self) -> int:
        """The most bytes that may be held of one model, if nothing else is held."""
        return min(self.bounds.held_bytes, self.bounds.total_held_bytes)

    def queue(self, name: str, least_places: int | None = None) -> RequestQueue:
        """A new queue in front of one model; least_places None: nobody waits."""
        return RequestQueue(self, name, least_places)

    def hold(self, name: str, count: int) -> None:
        """So many bytes more of bodies for that model are held. Raises Overloaded."""
        held, bounds = self._held_by_model.get(name, 0), self.bounds
        if held + count > bounds.held_bytes:
            raise self._overloads.make_error(
                f"requests and answers of {bounds.held_bytes // MIB} MB for the model"
                f" {shortened(name)} are held already{named(bounds.held_bytes)}"
            )
        if self.held_bytes + count > bounds.total_held_bytes:
            raise self._overloads.make_error(
                f"requests and answers of {bounds.total_held_bytes // MIB} MB are held already"
                f"{named(bounds.total_held_bytes)}"
            )
        self._held_by_model[name] = held + count
        self.held_bytes += count

    def release(self, name: str, count: int) -> None:
        """So many bytes of what `hold` counted are held no more."""
        self.held_bytes -= count
        remaining = self._held_by_model[name] - count
        if remaining:
            self._held_by_model[name] = remaining
        else:
            del self._held_by_model[name]

    def check_length(self, name: str, waiting: int, most: int) -> None:
        """Raise Overloaded unless one more may wait where so many do; most: for this model."""
        bound = min(self.bounds.waiting, most)
        if waiting >= bound:
            raise self._overloads.make_error(
                f"{waiting} requests wait for the model {shortened(name)} already{named(bound)}"
            )
        if self.waiting >= self.bounds.total_waiting:
            raise self._overloads.make_error(
                f"{self.waiting} requests wait already{named(self.bounds.total_waiting)}"
            )


class RequestQueue:
    """One model's: places in tritonserver, and those who wait for one, first come first served.

    least_places: how many requests tritonserver is given at once; None for any number. A model that
    is quick gets more places, up to _QUICK: as many as it answers in _WORK_S. It costs a small
    request a tenth of its time to wait, and what is worked off at once is in nobody's way.
    """

    __slots__ = (
        "_answered",
        "_least_places",
        "_left",
        "_looked",
        "_looked_answered",
        "_most_places",
        "_most_waiting",
        "_name",
        "_paced",
        "_places",
        "_queues",
        "_taken",
        "_timer",
        "_waiting",
    )

    def __init__(self, queues: RequestQueues, name: str, least_places: int | None = None) -> None:
        self._queues, self._name = queues, name
        self._taken = self._answered = self._left = 0
        self._waiting: OrderedDict[asyncio.Future[None], float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self.open(least_places)

    def open(
        self,
        least_places: int | None,
        most_waiting: int | None = None,
        most_places: int | None = None,
    ) -> None:
        """From now on tritonserver is given so many, and so many may wait; None for any number.

        most_places: however quick the model is.
        """
        self._least_places = sys.maxsize if least_places is None else least_places
        self._most_places = sys.maxsize if most_places is None else most_places
        self._most_waiting = sys.maxsize if most_waiting is None else most_waiting
        self._paced = 0
        self._looked, self._looked_answered = -_WORK_S, 0
        self._set_places()

    @property
    def places(self) -> int:
        """How many there are now."""
        return self._places

    @property
    def taken(self) -> int:
        """How many places are taken, those of callers who left included."""
        return self._taken

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def enter(self) -> bool:
        """Take a place if one is free; else the caller has to wait."""
        if self._taken >= self._least_places:
            self._look_at_pace(time.monotonic())
        if self._taken < self._places:
            self._taken += 1
            return True
        return False

    async def wait(self, limit_s: float) -> None:
        """Take a place when the turn comes. Raises Overloaded at once, WaitedTooLong later.

        Who is cancelled leaves no trace.
        """
        self._queues.check_length(self._name, len(self._waiting), self._most_waiting)
        loop = asyncio.get_running_loop()
        now = loop.time()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[turn] = now + limit_s
        self._queues.waiting += 1
        if self._timer is None:
            self._timer = loop.call_at(now + limit_s, self._end_late)
        try:
            await turn
        except BaseException:
            if turn in self._waiting:
                self._drop(turn)
            elif not turn.cancelled() and turn.exception() is None:
                self.leave()  # it was given just now, to one who does not want it any more
            raise

    def held_answer(self) -> HeldAnswer:
        """For the bytes of one answer."""
        return HeldAnswer(self._queues, self._name)

    def hold(self, count: int, own: int = 0) -> None:
        """So many bytes more of a body are held than came. own: that are counted of it already.

        Raises Overloaded, and BodyTooLarge for more than there is ever room for.
        """
        if own + count > self._queues.largest:
            raise BodyTooLarge("more with all that is made of it", self._queues.largest)
        self._queues.hold(self._name, count)

    def release(self, count: int) -> None:
        """So many bytes of what `hold` counted are held no more."""
        if count:
            self._queues.release(self._name, count)

    def leave(self) -> None:
        """Give a place back: to the first who waits."""
        self._answered += 1
        self._taken -= 1
        if self._waiting:
            self._let_in()

    def keep(self) -> Callable[[], None]:
        """A caller goes, tritonserver still has his request, until what this returns is called."""
        self._taken += 1
        self._left += 1
        self._answered -= 1  # nothing is, with the `leave` of his that follows
        self._set_places()
        return self._leave_kept

    def _leave_kept(self) -> None:
        self._left -= 1
        self._set_places()
        self.leave()

    def _set_places(self) -> None:
        unordered = self._least_places >= UNORDERED
        if unordered and self._queues.streams and self._left >= _MOST_LEFT:
            self._places = 0
        else:
            self._places = min(max(self._least_places, self._paced), self._most_places)

    def _let_in(self) -> None:
        while self._waiting and self._taken < self._places:
            turn = next(iter(self._waiting))
            self._drop(turn)
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def _drop(self, turn: asyncio.Future[None]) -> None:
        del self._waiting[turn]
        self._queues.waiting -= 1

    def _end_late(self) -> None:
        """The first in the line is the first to have waited too long: one timer is enough."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for turn, deadline in list(self._waiting.items()):
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._end_late)
                return
            self._drop(turn)
            if not turn.done():
                turn.set_exception(WaitedTooLong())

    def _look_at_pace(self, now: float) -> None:
        passed, answered = now - self._looked, self._answered - self._looked_answered
        if passed <= _LOOK_S:
            return
        self._looked, self._looked_answered = now, self._answered
        self._paced = 0 if passed > _WORK_S else min(_QUICK, int(answered / passed * _WORK_S))
        self._set_places()
        self._let_in()


class HeldBody:
    """The bytes of a request's body, counted as they come; `release` when they are gone.

    largest: that it may have, in bytes; a Limit, where a message is to name its setting.
    """

    __slots__ = ("_name", "_queues", "counted", "largest", "uncounted_up_to")

    def __init__(self, queues: RequestQueues, name: str, largest: int) -> None:
        self._queues, self._name, self.largest = queues, name, largest
        self.counted = 0
        self.uncounted_up_to = min(UNCOUNTED, largest)

    def grow(self, size: int) -> None:
        """The body has that many bytes now. Raises Overloaded, and what too_large makes."""
        if size <= self.uncounted_up_to:
            return
        if size > self.largest:
            raise self.too_large(size)
        stepped = -(-(size - self.counted) // _STEP) * _STEP
        more = min(stepped, self.largest - self.counted)
        self._queues.hold(self._name, more)
        self.counted += more
        self.uncounted_up_to = min(self.counted, self.largest)

    def release(self) -> None:
        """Nothing of it is held any more; idempotent."""
        if self.counted:
            self._queues.release(self._name, self.counted)
            self.counted = 0
            self.uncounted_up_to = 0

    def too_large(self, size: int) -> ServeError:
        """The error for more than the largest: the caller's fault."""
        return BodyTooLarge(f"{size} bytes and more", self.largest)


class HeldAnswer(HeldBody):
    """The bytes of an answer, counted alike: one larger than a model may hold never fits."""

    def __init__(self, queues: RequestQueues, name: str) -> None:
        super().__init__(queues, name, queues.largest)

    def too_large(self, size: int) -> ServeError:
        """The model's fault."""
        return InvocationFailed(
            f"the model {shortened(self._name)} answers with more than {self.largest // MIB} MB"
            f"{named(self.largest)}; ask it for less at once"
        )
