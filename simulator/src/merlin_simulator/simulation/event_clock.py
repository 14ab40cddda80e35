"""The clock of a simulation, and what its work waits for: seconds, a slot, a share of the cores."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count as count_up


class Slots:
    """A number of slots; work that finds none free waits in the order of arrival."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.waiting: deque[Work] = deque()


class Cores:
    """Processor sharing: with more work than cores all of it slows down alike."""

    def __init__(self, clock: EventClock, count: float) -> None:
        self._clock, self._count = clock, count
        self._busy = self._done = self._at = 0.0
        #: Core-seconds until now: what the work asked for, and what it got.
        self.wanted_s = self.worked_s = 0.0
        #: Where each work ends on the scale of `_done`; all work goes on at the same speed.
        self._ends: list[tuple[float, int, float, Work]] = []
        self._numbers, self._version = count_up(), 0

    def begin(self, cpu_work: CpuWork, work: Work) -> None:
        """Resume the work once this CPU work is done."""
        self.advance()
        self._busy += cpu_work.cores
        end = self._done + cpu_work.seconds
        heapq.heappush(self._ends, (end, next(self._numbers), cpu_work.cores, work))
        self._schedule_next_end()

    @property
    def _speed(self) -> float:
        return min(1.0, self._count / self._busy) if self._busy > 0.0 else 1.0

    def advance(self) -> None:
        """Add up what was done since the last call."""
        now = self._clock.now
        self._done += (now - self._at) * self._speed
        self.wanted_s += (now - self._at) * self._busy
        self.worked_s += (now - self._at) * min(self._busy, self._count)
        self._at = now

    def _schedule_next_end(self) -> None:
        self._version += 1
        if not self._ends:
            return
        version, end = self._version, self._ends[0][0]
        left = max(0.0, end - self._done) / self._speed

        def due() -> None:
            if version == self._version:
                self.advance()
                self._done = end
                self._end()

        self._clock.schedule(self._clock.now + left, due)

    def _end(self) -> None:
        _, _, cores, work = heapq.heappop(self._ends)
        self._busy = max(0.0, self._busy - cores) if self._ends else 0.0
        self._clock.resume(work)
        self._schedule_next_end()


@dataclass(frozen=True)
class CpuWork:
    """A demand on cores."""

    shared: Cores
    seconds: float  # how long it takes if nothing else runs there
    cores: float


#: Work is a generator: it yields seconds to wait, slots of which it needs one, or CPU work.
Work = Generator["float | Slots | CpuWork", None, None]


class EventClock:
    """Simulated seconds since the start, and the actions that are scheduled."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count_up()

    def schedule(self, when: float, action: Callable[[], None]) -> None:
        """Run an action at a time; those of one time run in the order of scheduling."""
        heapq.heappush(self._heap, (when, next(self._numbers), action))

    def release(self, slots: Slots) -> None:
        """Free one slot: the work that waits longest gets it now."""
        if slots.waiting:
            work = slots.waiting.popleft()
            self.schedule(self.now, lambda: self.resume(work))
        else:
            slots.free += 1

    def run(self, until: float) -> None:
        """Run all actions that are due before a time."""
        heap = self._heap
        while heap and heap[0][0] < until:
            self.now, _, action = heapq.heappop(heap)
            action()
        self.now = until

    def resume(self, work: Work) -> None:
        """Let work go on until it waits again, or is done."""
        for needed in work:
            if isinstance(needed, Slots):
                if needed.free:
                    needed.free -= 1
                    continue
                needed.waiting.append(work)
                return
            if isinstance(needed, CpuWork):
                needed.shared.begin(needed, work)
                return
            self.schedule(self.now + needed, lambda: self.resume(work))
            return
