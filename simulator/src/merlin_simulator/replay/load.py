"""Requests at their times, by a Zipf law, and what became of each."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from merlin_simulator.replay.asking import Asking, Reply, Runtime


@dataclass(frozen=True)
class Arrival:
    """Request number (from 0), due at so many seconds after the start, for the model of that rank.

    Ranks begin at 0, the most popular model.
    """

    number: int
    at: float
    model: int


@dataclass(frozen=True)
class Schedule:
    """Which archives are asked, and when."""

    names: tuple[str, ...]  # without .tar.gz, the most popular first
    shares: tuple[float, ...]  # of the traffic
    arrivals: tuple[Arrival, ...]


def zipf_shares(models: int, exponent: float) -> tuple[float, ...]:
    """Each model's share of the traffic, the most popular first: rank^-exponent over their sum."""
    weights = [(rank + 1) ** -exponent for rank in range(models)]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def draw_arrivals(
    rps: float, duration_s: float, shares: Sequence[float], seed: int
) -> tuple[Arrival, ...]:
    """All arrivals of one replay, in order.

    Times and models come from generators of their own: another rate asks for the same models, and
    another popularity at the same times.
    """
    times, models = random.Random(f"times {seed}"), random.Random(f"models {seed}")
    bounds = list(accumulate(shares))
    return tuple(
        Arrival(number, at, _drawn(models, bounds))
        for number, at in enumerate(_poisson(rps, duration_s, times))
    )


def _poisson(rps: float, duration_s: float, generator: random.Random) -> Iterator[float]:
    """Arrival times below the duration: the gaps are exponential with mean 1/rps."""
    at = generator.expovariate(rps)
    while at < duration_s:
        yield at
        at += generator.expovariate(rps)


def _drawn(generator: random.Random, bounds: Sequence[float]) -> int:
    # The last bound may be a rounding error below 1.
    return min(bisect(bounds, generator.random()), len(bounds) - 1)


#: An answer that is not the asked model's is a failure of its own name.
WRONG_ANSWER = "WrongAnswer"
#: The caller gave up: the replay was interrupted.
UNFINISHED = "Unfinished"


@dataclass(frozen=True)
class SentRequest:
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
class ObservedState:
    """The endpoint's state (watch/state.py as JSON); seconds since the traffic began."""

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
    samples: Sequence[SentRequest]
    not_sent: Sequence[Arrival]
    events: Sequence[Mapping[str, Any]]
    looks: Sequence[ObservedState]
    missed: int = 0
    interrupted: str | None = None


@dataclass
class Load:
    """One run of the traffic; its fields may be read while it goes on."""

    runtime: Runtime
    asking: Asking
    target_models: Sequence[str]
    outstanding: int  # bounds the requests in flight
    grace_s: float = 2.0  # for requests in flight after an interruption
    planned: int = 0  # arrivals that were due so far
    samples: list[SentRequest] = field(default_factory=list)
    not_sent: list[Arrival] = field(default_factory=list)  # that were due beyond outstanding
    _in_flight: set[asyncio.Task[None]] = field(default_factory=set)
    _started: float = 0.0

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer now."""
        return len(self._in_flight)

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the traffic."""
        return asyncio.get_running_loop().time() - self._started

    async def run(self, arrivals: Sequence[Arrival], stop: asyncio.Event) -> None:
        """All arrivals, and their answers; once stop is set only what is in flight, for a while."""
        self._started = asyncio.get_running_loop().time()
        for arrival in arrivals:
            if await self._due(arrival, stop):
                break
            self._begin(arrival)
        await self._finish(stop)

    async def _due(self, arrival: Arrival, stop: asyncio.Event) -> bool:
        """Wait for the arrival's time; True as soon as stop is set."""
        wait = arrival.at - self.elapsed
        if wait <= 0:
            await asyncio.sleep(0)  # behind the plan: answers are taken in all the same
            return stop.is_set()
        try:
            await asyncio.wait_for(stop.wait(), wait)
        except (asyncio.TimeoutError, TimeoutError):  # two classes before Python 3.11
            return False
        return True

    def _begin(self, arrival: Arrival) -> None:
        self.planned += 1
        if len(self._in_flight) >= self.outstanding:
            self.not_sent.append(arrival)
            return
        task = asyncio.create_task(self._one(arrival))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _one(self, arrival: Arrival) -> None:
        sent = self.elapsed
        try:
            request = self.asking.request(arrival.model, arrival.number)
            reply = await self.runtime.invoke(self.target_models[arrival.model], *request)
        except asyncio.CancelledError:
            self._note(arrival, sent, Reply(0, error=UNFINISHED, message="the replay was ended"))
            return
        finished = self.elapsed
        self._note(arrival, sent, self._judged(arrival, reply), finished)

    def _judged(self, arrival: Arrival, reply: Reply) -> Reply:
        if reply.error is not None:
            return reply
        fault = self.asking.fault(arrival.model, arrival.number, reply.body)
        if fault is None:
            return reply
        message = f"{self.target_models[arrival.model]}: {fault}"
        return Reply(200, error=WRONG_ANSWER, message=message, request_id=reply.request_id)

    def _note(
        self, arrival: Arrival, sent: float, reply: Reply, finished: float | None = None
    ) -> None:
        self.samples.append(
            SentRequest(
                arrival.number,
                arrival.model,
                arrival.at,
                sent,
                self.elapsed if finished is None else finished,
                reply.status,
                reply.error,
                reply.message,
                reply.request_id,
            )
        )

    async def _finish(self, stop: asyncio.Event) -> None:
        """Until nothing is in flight; the client's own time-out bounds that."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while self._in_flight and not stop.is_set():
                waiting = {stopped, *self._in_flight}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
        if self._in_flight:
            _, left = await asyncio.wait(self._in_flight, timeout=self.grace_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left)
