"""Step scaling: how far, by how much a metric is past its alarm's threshold. No I/O.

AWS, "Step scaling policies for Application Auto Scaling".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from merlin_simulator.control.autoscaling.decision import COOLDOWN_S, Situation, Stay, Wish
from merlin_simulator.control.errors import ServiceError

#: AWS, "Quotas": step adjustments of a policy.
_MOST = 20


def step(
    situation: Situation, policy: str, config: Mapping[str, Any], value: float, threshold: float
) -> Wish | Stay:
    """What a policy wants whose alarm is in ALARM. config: StepScalingPolicyConfiguration."""
    found = next((one for one in config["StepAdjustments"] if _fits(one, value - threshold)), None)
    if found is None:
        return Stay(f"no step is for {value:g} at the threshold {threshold:g}")
    current, change = situation.current, found["ScalingAdjustment"]
    if config["AdjustmentType"] == "ExactCapacity":
        growing, wanted = change > current, change
    else:
        growing = change > 0
        # What the last scale-out added counts while its cooldown goes on.
        cooling = growing and situation.past.cooling_out(situation.now)
        base = situation.past.before if cooling else current
        wanted = base + _change(config, base, change)
    count = situation.bounds.clip(wanted)
    stay = (_not_out if growing else _not_in)(situation, policy, wanted, count)
    why = f"{value:g} at the threshold {threshold:g}"
    return stay or Wish(count, policy, None, float(config.get("Cooldown", COOLDOWN_S)), why)


def check_steps(config: Mapping[str, Any]) -> None:
    """Raises ServiceError where a policy's steps are not what the service takes."""
    steps: Sequence[Mapping[str, Any]] = config.get("StepAdjustments") or ()
    if not config.get("AdjustmentType"):
        raise ServiceError("AdjustmentType must be specified for a step scaling policy")
    if not steps:
        raise ServiceError("At least one StepAdjustment must be specified")
    if len(steps) > _MOST:
        raise ServiceError(f"{len(steps)} step adjustments are given: at most {_MOST} are allowed")
    ranges = sorted(_range(one) for one in steps)
    for low, high in ranges:
        if low >= high:
            raise ServiceError(
                f"A step adjustment is from {low:g} to {high:g}: MetricIntervalUpperBound must be "
                "greater than MetricIntervalLowerBound"
            )
    for (_, high), (low, _) in itertools.pairwise(ranges):
        if low != high:
            raise ServiceError(
                "The ranges of step adjustments must not overlap or have a gap: "
                f"one ends at {high:g}, the next begins at {low:g}"
            )


def _not_out(situation: Situation, policy: str, wanted: int, count: int) -> Stay | None:
    """Why a variant does not grow to that count, where it does not."""
    if wanted <= situation.current:
        return Stay("the scale-out cooldown")
    if situation.suspended.scale_out:
        return Stay("scaling out is suspended")
    if count <= situation.current:
        return Stay("at the maximum", "AlreadyAtMaxCapacity", policy)
    return None


def _not_in(situation: Situation, policy: str, wanted: int, count: int) -> Stay | None:
    """Why a variant does not shrink to that count, where it does not."""
    if wanted == situation.current:
        return Stay("as many as wanted", "AlreadyAtDesiredCapacity", policy)
    if situation.suspended.scale_in:
        return Stay("scaling in is suspended")
    if count >= situation.current:
        return Stay("at the minimum", "AlreadyAtMinCapacity", policy)
    if situation.past.cooling_in(situation.now):
        return Stay("the scale-in cooldown")
    return None


def _range(one: Mapping[str, Any]) -> tuple[float, float]:
    low, high = one.get("MetricIntervalLowerBound"), one.get("MetricIntervalUpperBound")
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _fits(one: Mapping[str, Any], past: float) -> bool:
    """Above the threshold the lower bound belongs to a step, below it the upper bound."""
    low, high = _range(one)
    return low <= past < high if past >= 0 else low < past <= high


def _change(config: Mapping[str, Any], current: int, change: int) -> int:
    if config["AdjustmentType"] == "ChangeInCapacity":
        return change
    exact = current * change / 100
    # Towards zero, but for what is less than one instance.
    size = 1 if 0 < abs(exact) < 1 else math.floor(abs(exact))
    size = max(size, config.get("MinAdjustmentMagnitude") or 0)
    return int(math.copysign(size, exact))
