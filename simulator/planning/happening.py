"""What happens in order of time: events, and work that waits for a place."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from itertools import count

#: Work is a generator: it yields seconds to wait, or the places that it needs one of.
Work = Generator["float | Places", None, None]


class Places:
    """So many at a time; the others wait in the order in which they came."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.waiting: deque[Work] = deque()


class Happening:
    """The clock and what is to come. Seconds since the start."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Do it then; of what is due at one time, the first that was asked for comes first."""
        heapq.heappush(self._heap, (when, next(self._numbers), do))

    def start(self, work: Work) -> None:
        """Begin work now."""
        self._resume(work)

    def give_back(self, places: Places) -> None:
        """A place is free again: who waits longest goes on, at this moment."""
        if places.waiting:
            work = places.waiting.popleft()
            self.at(self.now, lambda: self._resume(work))
        else:
            places.free += 1

    def run(self, until: float) -> None:
        """Everything that is due before then."""
        heap = self._heap
        while heap and heap[0][0] < until:
            self.now, _, do = heapq.heappop(heap)
            do()
        self.now = until

    def _resume(self, work: Work) -> None:
        for wish in work:
            if isinstance(wish, Places):
                if wish.free:
                    wish.free -= 1
                    continue
                wish.waiting.append(work)
                return
            self.at(self.now + wish, lambda: self._resume(work))
            return
