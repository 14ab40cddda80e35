"""What is written down of each request, and of the run as a whole. Plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_simulator.replay.traffic.schedule import Arrival

#: An answer that is not the asked model's is a failure of its own name.
WRONG_ANSWER = "WrongAnswer"
#: The caller gave up: the replay was interrupted.
UNFINISHED = "Unfinished"


@dataclass(frozen=True)
class Sample:
    """One request that was sent. Seconds since the start of the traffic.

    due is when it should have been sent, and latencies count from there: what waits in the caller
    because the endpoint keeps the caller busy is waited by a real caller, too. error is None for a
    right answer, else the exception's name on the wire, the transport's error, WRONG_ANSWER or
    UNFINISHED.
    """

    number: int
    model: int
    due: float
    sent: float
    finished: float
    status: int
    error: str | None = None
    message: str = ""
    request_id: str | None = None

    @property
    def latency(self) -> float:
        """Seconds the caller waited."""
        return self.finished - self.due


@dataclass(frozen=True)
class Look:
    """The endpoint's state (simulator/watch/view.py as JSON); seconds since the traffic began."""

    at: float
    state: Mapping[str, Any]


@dataclass(frozen=True)
class Recording:
    """All that was seen of one replay.

    planned counts the arrivals until the end or the interruption; not_sent are those
    that found the bound on outstanding requests reached. started is seconds since the epoch, by
    this machine's clock; the events' `at` is by the endpoint's. missed counts the events that the
    stream left out.
    """

    started: float
    seconds: float
    planned: int
    samples: Sequence[Sample]
    not_sent: Sequence[Arrival]
    events: Sequence[Mapping[str, Any]]
    looks: Sequence[Look]
    missed: int = 0
    interrupted: str | None = None
