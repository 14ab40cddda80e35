"""Autoscaling of a plan: each minute, by the decision that the control plane makes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from simulator.control.autoscaling.decision import (
    COOLDOWN_S,
    MINUTES,
    Bounds,
    Past,
    Reading,
    Side,
    Situation,
    Tracking,
    Wish,
    decide,
)
from simulator.planning.demand import Demand
from simulator.planning.endpoint import PlannedEndpoint
from simulator.planning.happening import Happening

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
    """Looks each minute. An instance that is wanted comes after the machine's ready_s."""

    def __init__(
        self, happening: Happening, demand: Demand, endpoint: PlannedEndpoint, scaling: Scaling
    ) -> None:
        self._happening, self._demand = happening, demand
        self._endpoint, self._scaling = endpoint, scaling
        self._bounds = Bounds(scaling.least, scaling.most)
        self._rule = Tracking("plan", scaling.target, scaling.out_cooldown_s, scaling.in_cooldown_s)
        self._datapoints: deque[float | None] = deque(maxlen=MINUTES)
        self._past, self.wanted = Past(), len(endpoint.instances)
        happening.at(MINUTE_S, self._look)

    def _look(self) -> None:
        now = self._happening.now
        count = self._demand.count_between(now - MINUTE_S, now)
        self._datapoints.append(count / max(1, len(self._endpoint.instances)))
        situation = Situation(now, self.wanted, self._bounds, self._past)
        wish = decide(situation, [Reading(self._rule, list(self._datapoints))])
        if isinstance(wish, Wish):
            self._carry_out(wish)
        self._happening.at(now + MINUTE_S, self._look)

    def _carry_out(self, wish: Wish) -> None:
        now, before = self._happening.now, self.wanted
        self.wanted = wish.count
        if wish.side is Side.HIGH:
            self._past = replace(
                self._past, out_at=now, out_cooldown_s=wish.cooldown_s, before=before
            )
            for _ in range(wish.count - before):
                self._happening.at(now + self._endpoint.machine.ready_s, self._add)
            return
        self._past = replace(self._past, in_at=now, in_cooldown_s=wish.cooldown_s)
        while len(self._endpoint.instances) > wish.count:
            self._endpoint.remove_youngest()

    def _add(self) -> None:
        """It has come; where fewer are wanted meanwhile it goes again at once."""
        if len(self._endpoint.instances) < self.wanted:
            self._endpoint.add_instance()
