"""What a row is, and what it is given to measure with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import Contenders
from bench.measure import Line, Outcome


@dataclass(frozen=True)
class Run:
    """One run of the program: the servers, how often and how long, and where progress goes."""

    contenders: Contenders
    short: bool
    rounds: int
    seconds: float
    scratch: Path
    progress: Callable[[str], None]

    @property
    def few_rounds(self) -> int:
        """For what takes seconds a round."""
        return min(self.rounds, 2 if self.short else 3)

    @property
    def warm(self) -> bool:
        """Whether a round that does not count comes first, where the median would do without."""
        return not self.short

    def teller(self, row: str, what: str) -> Callable[[int], None]:
        """Says which round begins."""

        def tell(number: int) -> None:
            self.progress(f"{row}: {what}, " + (f"round {number}" if number else "warming up"))

        return tell


@dataclass(frozen=True)
class Row:
    """A name for --rows, a title and a `how` for readers, and the function that measures.

    profile: what the time, or the memory, goes into, as a profiler found it on two cores.
    """

    name: str
    title: str
    how: str
    measure: Callable[[Run, str], Iterable[Line]]
    in_short: bool = False
    profile: str = ""

    def outcome(self, lines: Iterable[Line], seconds: float) -> Outcome:
        """With what was measured."""
        return Outcome(self.name, self.title, self.how, seconds, tuple(lines), self.profile)
