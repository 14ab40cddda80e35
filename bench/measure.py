"""Values of several rounds, their medians, ratios and goals."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Side = TypeVar("Side")

Unit = Literal["s", "requests/s", "MB", "models", "share"]


@dataclass(frozen=True)
class Goal:
    """A bound on the ratio to what is compared with, or on our own value in the line's unit."""

    of: Literal["ratio", "value"]
    direction: Literal["at most", "at least"]
    bound: float

    def is_reached(self, value: float) -> bool:
        """Whether the unrounded value keeps the bound; a value equal to the bound does."""
        return value <= self.bound if self.direction == "at most" else value >= self.bound


@dataclass(frozen=True)
class Line:
    """A line of the table.

    values: for each contender one value a round, in the unit. `subject` is judged, and divided by
    `against` where that is named.
    """

    what: str
    unit: Unit
    values: Mapping[str, Sequence[float]]
    goal: Goal | None = None
    subject: str = "ours"
    against: str | None = "rival"
    note: str = ""

    def median(self, contender: str) -> float | None:
        """None where that contender was not measured."""
        values = self.values.get(contender)
        return statistics.median(values) if values else None

    @property
    def ratio(self) -> float | None:
        """The median of the subject over the median of what it is compared with."""
        if self.against is None:
            return None
        ours, theirs = self.median(self.subject), self.median(self.against)
        return ours / theirs if ours is not None and theirs else None

    @property
    def reached(self) -> bool | None:
        """None without a goal."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else self.median(self.subject)
        return value is not None and self.goal.is_reached(value)


def ratio_at_most(bound: float) -> Goal:
    """Ours divided by what it is compared with."""
    return Goal("ratio", "at most", bound)


def ratio_at_least(bound: float) -> Goal:
    """Ours divided by what it is compared with."""
    return Goal("ratio", "at least", bound)


def value_at_most(bound: float) -> Goal:
    """Our own value, in the line's unit."""
    return Goal("value", "at most", bound)


def measure_in_turn(
    rounds: int,
    sides: Mapping[Side, Callable[[], float]],
    tell: Callable[[int], None],
    *,
    warm: bool = True,
) -> dict[Side, list[float]]:
    """Measure each side once a round, in another order each time: A B C, B C A, C A B.

    warm: measures each once before, which does not count. tell is given the number of the round
    that begins, 0 for the one that does not count.
    """
    values: dict[Side, list[float]] = {side: [] for side in sides}
    for number in range(0 if warm else 1, rounds + 1):
        tell(number)
        first = number % len(sides)
        turns = [*sides.items()]
        for side, measure in (*turns[first:], *turns[:first]):
            value = measure()
            if number:
                values[side].append(value)
    return values
