"""Autoscaling of a plan: each minute, by the decision that the control plane makes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from merlin_simulator.control.autoscaling.decision import (
    COOLDOWN_S,
    MINUTES,
    Bounds,
    Past,
    Reading,
    Situation,
    Tracking,
    Wish,
    decide,
)
from merlin_simulator.planning.demand import Demand
from merlin_simulator.planning.endpoint import PlannedEndpoint
from merlin_simulator.planning.happening import Happening

MINUTE_S = 60.0


@dataclass(frozen=True)
class Scaling:
    """Target tracking on SageMakerVariantInvocationsPerInstance. Seconds."""

    least: int
    most: int
    target: float
    out_cooldown_s: float = COOLDOWN_S
    in_cooldown_s: float = COOLDOWN_S


class Scaler:
    """Looks each minute, but not while instances come: an endpoint that is updated is not changed.

    Those that are wanted come together, after the machine's ready_s; a cooldown begins then.
    """

    def __init__(
        self, happening: Happening, demand: Demand, endpoint: PlannedEndpoint, scaling: Scaling
    ) -> None:
        self._happening, self._demand, self._endpoint = happening, demand, endpoint
        self._bounds = Bounds(scaling.least, scaling.most)
        self._rule = Tracking("plan", scaling.target, scaling.out_cooldown_s, scaling.in_cooldown_s)
        self._datapoints: deque[float | None] = deque(maxlen=MINUTES)
        self._past, self._changing, self._served_s = Past(), False, 0.0
        happening.at(MINUTE_S, self._look)

    def _look(self) -> None:
        now = self._happening.now
        self._datapoints.append(self._asked_of_one(now))
        if not self._changing:
            count = len(self._endpoint.instances)
            situation = Situation(now, count, self._bounds, self._past)
            found = decide(situation, [Reading(self._rule, list(self._datapoints))])
            if isinstance(found, Wish):
                self._carry_out(found)
        self._happening.at(now + MINUTE_S, self._look)

    def _asked_of_one(self, now: float) -> float:
        """Invocations of an instance in the last minute, by those that were in service then."""
        count = self._demand.count_between(now - MINUTE_S, now)
        before, self._served_s = self._served_s, self._endpoint.served_s
        return count / max(1.0, (self._served_s - before) / MINUTE_S)

    def _carry_out(self, wish: Wish) -> None:
        self._changing = True
        count, now = len(self._endpoint.instances), self._happening.now
        comes = self._endpoint.machine.ready_s if wish.count > count else 0.0
        self._happening.at(now + comes, lambda: self._done(wish, count))

    def _done(self, wish: Wish, before: int) -> None:
        for _ in range(wish.count - before):
            self._endpoint.add_instance()
        for _ in range(before - wish.count):
            self._endpoint.remove_youngest()
        self._past = self._past.after(wish, before, self._happening.now)
        self._changing = False
