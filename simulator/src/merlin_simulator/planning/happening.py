"""What happens in order of time: events, and work that waits for a place or shares cores."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import count as count_up


class Places:
    """So many at a time; the others wait in the order in which they came."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.waiting: deque[Work] = deque()


class Cores:
    """Shared alike by all that work on them: with more work than cores each goes on slower."""

    def __init__(self, happening: Happening, count: float) -> None:
        self._happening, self._count = happening, count
        self._busy = self._done = self._at = 0.0
        #: Until now: cores times seconds that were wanted, and that were had.
        self.wanted_s = self.worked_s = 0.0
        #: When each is done, in seconds of work; all go on at the same speed.
        self._ends: list[tuple[float, int, float, Work]] = []
        self._numbers, self._version = count_up(), 0

    def begin(self, toil: Toil, work: Work) -> None:
        """The work goes on when this much is done."""
        self.advance()
        self._busy += toil.cores
        end = self._done + toil.seconds
        heapq.heappush(self._ends, (end, next(self._numbers), toil.cores, work))
        self._expect()

    @property
    def _speed(self) -> float:
        return min(1.0, self._count / self._busy) if self._busy > 0.0 else 1.0

    def advance(self) -> None:
        """What was done until now is known."""
        now = self._happening.now
        self._done += (now - self._at) * self._speed
        self.wanted_s += (now - self._at) * self._busy
        self.worked_s += (now - self._at) * min(self._busy, self._count)
        self._at = now

    def _expect(self) -> None:
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

        self._happening.at(self._happening.now + left, due)

    def _end(self) -> None:
        _, _, cores, work = heapq.heappop(self._ends)
        self._busy = max(0.0, self._busy - cores) if self._ends else 0.0
        self._happening.go_on(work)
        self._expect()


@dataclass(frozen=True)
class Toil:
    """Work on cores: so many seconds where nobody else needs them."""

    on: Cores
    seconds: float
    cores: float


#: Work is a generator: it yields seconds to wait, the places that it needs one of, or toil.
Work = Generator["float | Places | Toil", None, None]


class Happening:
    """The clock and what is to come. Seconds since the start."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count_up()

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Do it then; of what is due at one time, the first that was asked for comes first."""
        heapq.heappush(self._heap, (when, next(self._numbers), do))

    def start(self, work: Work) -> None:
        """Begin work now."""
        self.go_on(work)

    def give_back(self, places: Places) -> None:
        """A place is free again: who waits longest goes on, at this moment."""
        if places.waiting:
            work = places.waiting.popleft()
            self.at(self.now, lambda: self.go_on(work))
        else:
            places.free += 1

    def run(self, until: float) -> None:
        """Everything that is due before then."""
        heap = self._heap
        while heap and heap[0][0] < until:
            self.now, _, do = heapq.heappop(heap)
            do()
        self.now = until

    def go_on(self, work: Work) -> None:
        """Until it waits again, or is done."""
        for wish in work:
            if isinstance(wish, Places):
                if wish.free:
                    wish.free -= 1
                    continue
                wish.waiting.append(work)
                return
            if isinstance(wish, Toil):
                wish.on.begin(wish, work)
                return
            self.at(self.now + wish, lambda: self.go_on(work))
            return
