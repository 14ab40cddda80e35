"""What a row is, and what it is given to measure with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench.contenders import Contenders
from bench.measure import Line, measure_in_turn
from bench.payloads import Payload
from bench.servers import Endpoint
from bench.wrk import Target, measure_p50

Side = TypeVar("Side")

_LONGEST_S = 12.0


@dataclass(frozen=True)
class Run:
    """What a row measures with: the servers, how often and how long, and where progress goes."""

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

    def prepare_target(
        self, endpoint: Endpoint, model: str, payload: Payload, what: str = ""
    ) -> Target:
        """The invocation for wrk, after its answer was compared. Raises AnswerWrong."""
        return endpoint.write_target(self.scratch, model, payload, what or model)

    def take_turns(
        self,
        what: str,
        sides: Mapping[Side, Callable[[], float]],
        *,
        rounds: int | None = None,
        warm: bool | None = None,
    ) -> dict[Side, list[float]]:
        """Measure each side in each round, and tell which round begins.

        warm: whether a round comes first that does not count; None: unless the run is short.
        """

        def tell(number: int) -> None:
            self.progress(f"{what}, " + (f"round {number}" if number else "warming up"))

        warms = not self.short if warm is None else warm
        return measure_in_turn(rounds or self.rounds, sides, tell, warm=warms)

    def send(
        self,
        what: str,
        targets: Mapping[Side, Target],
        timing: Callable[[Target, float], float] = measure_p50,
        *,
        rounds: int | None = None,
        warm: bool | None = None,
        answers: int = 0,
    ) -> dict[Side, list[float]]:
        """Send to each target in turn for as long as a round takes.

        answers: that a round has at least, unless that takes too long.
        """
        sides = {
            side: partial(timing, target, extend_seconds(self.seconds, target.answer_s, answers))
            for side, target in targets.items()
        }
        return self.take_turns(what, sides, rounds=rounds, warm=warm)


def extend_seconds(seconds: float, answer_s: float, answers: int) -> float:
    """The seconds of load, or more where so many answers need more, within a bound."""
    return max(seconds, min(answer_s * answers, _LONGEST_S))


@dataclass(frozen=True)
class Row:
    """A name for --rows, a title and a `how` for readers, and the function that measures."""

    name: str
    title: str
    how: str
    measure: Callable[[Run], Iterable[Line]]
    in_short: bool = False


@dataclass(frozen=True)
class Suite:
    """Rows of the same contenders, in their order, and how to read them.

    round_seconds: of load in each round, where nothing else is asked for.
    """

    reading: str
    contenders: tuple[str, ...]
    round_seconds: float
    rows: tuple[Row, ...]
