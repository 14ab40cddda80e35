"""Sends the planned requests when they are due, whatever became of those before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from merlin_simulator.replay.traffic.asking import Asking
from merlin_simulator.replay.traffic.runtime import Reply, Runtime
from merlin_simulator.replay.traffic.samples import UNFINISHED, WRONG_ANSWER, Sample
from merlin_simulator.replay.traffic.schedule import Arrival


@dataclass
class Load:
    """One run of the traffic; its fields may be read while it goes on.

    planned counts the arrivals that were due so far; outstanding bounds the requests in flight,
    and a request that is due beyond that is noted in not_sent. grace_s: what requests in flight get
    to finish after an interruption.
    """

    runtime: Runtime
    asking: Asking
    target_models: Sequence[str]
    outstanding: int
    grace_s: float = 2.0
    planned: int = 0
    samples: list[Sample] = field(default_factory=list)
    not_sent: list[Arrival] = field(default_factory=list)
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
            body = self.asking.body(arrival.model, arrival.number)
            reply = await self.runtime.invoke(self.target_models[arrival.model], body)
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
            Sample(
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
