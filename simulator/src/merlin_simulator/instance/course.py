"""Where the seconds go while a model comes: one stage after another, without gaps. No I/O.

Callers of one model share its coming, and each joins when it arrives: what one of them waited for
is what was going on between its arrival and its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import pairwise


class Stage(Enum):
    """What a model waits for while it comes; the values are those of watch.events.COLD_PARTS."""

    ROOM = "room"  # others leave the memory or the disk for it, or it leaves itself
    TURN = "turn"  # others are downloaded, loaded or given room before it
    DOWNLOAD = "download"
    EXTRACTION = "extraction"
    LOAD = "load"  # the container has it in its hands


class Course:
    """The stages of one coming, each from its time to the next one's. Seconds of the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: list[tuple[float, Stage]] = [(clock(), Stage.TURN)]

    def enter(self, stage: Stage, at: float | None = None) -> None:
        """From now on, or from at, it waits for this; in the order of time."""
        self._begun.append((self._clock() if at is None else at, stage))

    def between(self, start: float, end: float) -> Mapping[Stage, float]:
        """How long each stage went on between the two times; the last one has no end of its own."""
        found: dict[Stage, float] = {}
        ends = [*self._begun, (max(end, self._begun[-1][0]), Stage.LOAD)]
        for (begun, stage), (over, _) in pairwise(ends):
            seconds = min(over, end) - max(begun, start)
            if seconds > 0:
                found[stage] = found.get(stage, 0.0) + seconds
        return found
