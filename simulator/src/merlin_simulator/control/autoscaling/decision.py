"""How many instances a policy wants: target tracking, steps, cooldowns. No I/O."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from merlin_simulator.control.errors import ServiceError

#: Datapoints of one minute that are above the target before a scale-out; below it before the other.
OUT_DATAPOINTS, IN_DATAPOINTS = 3, 15
#: AlarmLow's threshold, of the target.
IN_SHARE = 0.9
#: CloudWatch looks a little further back where datapoints lack. Chosen: two minutes.
LATE_DATAPOINTS = 2
#: Minutes that a decision is made by.
MINUTES = IN_DATAPOINTS + LATE_DATAPOINTS
#: AWS, "TargetTrackingScalingPolicyConfiguration": the default for SageMaker's variants.
COOLDOWN_S = 300.0
#: A product of floats that ought to be whole is not rounded up.
_NOISE = 1e-9
#: More instances than any bounds have: a target may be so small that the product has no end.
_MANY = 2.0**31


class Side(Enum):
    """Which of a policy's alarms."""

    HIGH = "High"
    LOW = "Low"


@dataclass(frozen=True)
class Bounds:
    """MinCapacity and MaxCapacity."""

    least: int
    most: int

    def clip(self, count: int) -> int:
        """The nearest count that is allowed."""
        return max(self.least, min(self.most, count))


@dataclass(frozen=True)
class Suspended:
    """SuspendedState, of what a policy wants."""

    scale_in: bool = False
    scale_out: bool = False


@dataclass(frozen=True)
class Tracking:
    """A target-tracking policy. Seconds."""

    policy: str
    target: float
    out_cooldown_s: float = COOLDOWN_S
    in_cooldown_s: float = COOLDOWN_S
    disable_scale_in: bool = False


@dataclass(frozen=True)
class Reading:
    """A policy and its metric: a value for each whole minute, the newest last; None: none came."""

    rule: Tracking
    datapoints: Sequence[float | None]

    @property
    def is_high(self) -> bool:
        """Whether AlarmHigh is in ALARM."""
        return self._all_of_the_last(OUT_DATAPOINTS, lambda value: value > self.rule.target)

    @property
    def is_low(self) -> bool:
        """Whether AlarmLow is in ALARM."""
        return self._all_of_the_last(
            IN_DATAPOINTS, lambda value: value < IN_SHARE * self.rule.target
        )

    @property
    def newest(self) -> float:
        """The last value that came."""
        return next(value for value in reversed(self.datapoints) if value is not None)

    @property
    def highest(self) -> float:
        """Of the values that AlarmLow looks at."""
        return max([value for value in self.datapoints if value is not None][-IN_DATAPOINTS:])

    def _all_of_the_last(self, count: int, breaches: Callable[[float], bool]) -> bool:
        recent = self.datapoints[-(count + LATE_DATAPOINTS) :]
        values = [value for value in recent if value is not None][-count:]
        return len(values) == count and all(map(breaches, values))


@dataclass(frozen=True)
class Past:
    """The last scalings by policies."""

    out_at: float | None = None  # when it was done, platform seconds; None: never
    out_cooldown_s: float = 0.0
    before: int = 0  # instances before the last scale-out
    in_at: float | None = None  # as out_at
    in_cooldown_s: float = 0.0

    def cooling_out(self, now: float) -> bool:
        """Whether the cooldown of the last scale-out goes on."""
        return _within(self.out_at, self.out_cooldown_s, now)

    def cooling_in(self, now: float) -> bool:
        """Whether the cooldown of the last scale-in goes on."""
        return _within(self.in_at, self.in_cooldown_s, now)

    def after(self, change: ScalingChange, before: int, now: float) -> Past:
        """After this change; before: instances until then.

        AWS: a scale-out ends the scale-in's cooldown; in a cooldown it adds to what was added.
        """
        if change.count > before:
            return Past(now, change.cooldown_s, self.before if self.cooling_out(now) else before)
        return Past(self.out_at, self.out_cooldown_s, self.before, now, change.cooldown_s)


@dataclass(frozen=True)
class Situation:
    """The state in which a decision is made."""

    now: float  # platform seconds
    current: int  # instances that are wanted
    bounds: Bounds
    past: Past = field(default_factory=Past)
    suspended: Suspended = field(default_factory=Suspended)


@dataclass(frozen=True)
class ScalingChange:
    """Another number of instances, and the policy that has it."""

    count: int
    policy: str
    side: Side | None  # None for a step policy
    cooldown_s: float


@dataclass(frozen=True)
class NotScaled:
    """An alarm would have another number, which cannot be."""

    code: str  # AWS's NotScaledReason
    policy: str
    side: Side | None = None


#: None: all stays as it is, and nobody is told.
Decision = ScalingChange | NotScaled | None


def decide(situation: Situation, readings: Sequence[Reading]) -> Decision:
    """By the target-tracking policies of one target."""
    above = [reading for reading in readings if reading.is_high]
    if above:
        return _scale_out(situation, above)
    shrinking = [reading for reading in readings if not reading.rule.disable_scale_in]
    if shrinking and all(reading.is_low for reading in shrinking):
        return _scale_in(situation, shrinking)
    return None


def _scale_out(situation: Situation, above: Sequence[Reading]) -> Decision:
    """The largest wins. During the cooldown what was added counts: only still more is added."""
    past, current = situation.past, situation.current
    base = past.before if past.cooling_out(situation.now) else current
    count, leader = max(
        ((_proportional(base, reading.newest, reading.rule), reading) for reading in above),
        key=lambda candidate: candidate[0],
    )
    if situation.suspended.scale_out or count <= current:
        return None
    allowed = situation.bounds.clip(count)
    if allowed <= current:
        return NotScaled("AlreadyAtMaxCapacity", leader.rule.policy, Side.HIGH)
    return ScalingChange(allowed, leader.rule.policy, Side.HIGH, leader.rule.out_cooldown_s)


def _scale_in(situation: Situation, below: Sequence[Reading]) -> Decision:
    """As many as the one that wants most."""
    current = situation.current
    count, leader = max(
        ((_proportional(current, reading.highest, reading.rule), reading) for reading in below),
        key=lambda candidate: candidate[0],
    )
    policy, allowed = leader.rule.policy, situation.bounds.clip(count)
    if situation.suspended.scale_in:
        return None
    if allowed < current:
        cooling = situation.past.cooling_in(situation.now)
        return (
            None if cooling else ScalingChange(allowed, policy, Side.LOW, leader.rule.in_cooldown_s)
        )
    if current <= situation.bounds.least:
        return NotScaled("AlreadyAtMinCapacity", policy, Side.LOW)
    if _proportional(current, leader.newest, leader.rule) < current:
        return NotScaled("AutoScalingAnticipatedFlapping", policy, Side.LOW)
    return None


def _proportional(base: int, value: float, rule: Tracking) -> int:
    exact = base * value / rule.target
    return math.ceil(max(-_MANY, min(exact, _MANY)) - _NOISE)


def _within(at: float | None, cooldown_s: float, now: float) -> bool:
    """A time after now is that of a clock before this one's: over."""
    return at is not None and 0 <= now - at < cooldown_s


#: AWS, "Quotas": step adjustments of a policy.
_MOST = 20


def step(
    situation: Situation, policy: str, config: Mapping[str, Any], value: float, threshold: float
) -> Decision:
    """The step of a policy whose alarm is in ALARM. config: StepScalingPolicyConfiguration."""
    past = value - threshold
    adjustment = next((step for step in config["StepAdjustments"] if _covers(step, past)), None)
    if adjustment is None:
        return None
    current, change = situation.current, adjustment["ScalingAdjustment"]
    if config["AdjustmentType"] == "ExactCapacity":
        growing, count = change > current, change
    else:
        growing = change > 0
        # What the last scale-out added counts while its cooldown goes on.
        cooling = growing and situation.past.cooling_out(situation.now)
        base = situation.past.before if cooling else current
        count = base + _change(config, base, change)
    allowed = situation.bounds.clip(count)
    if growing:
        if count <= current or situation.suspended.scale_out:
            return None
        if allowed <= current:
            return NotScaled("AlreadyAtMaxCapacity", policy)
    else:
        if count == current:
            return NotScaled("AlreadyAtDesiredCapacity", policy)
        if situation.suspended.scale_in:
            return None
        if allowed >= current:
            return NotScaled("AlreadyAtMinCapacity", policy)
        if situation.past.cooling_in(situation.now):
            return None
    return ScalingChange(allowed, policy, None, float(config.get("Cooldown", COOLDOWN_S)))


def check_steps(config: Mapping[str, Any]) -> None:
    """Raises ServiceError where a policy's steps are not what the service takes."""
    steps: Sequence[Mapping[str, Any]] = config.get("StepAdjustments") or ()
    if not config.get("AdjustmentType"):
        raise ServiceError("AdjustmentType must be specified for a step scaling policy")
    if not steps:
        raise ServiceError("At least one StepAdjustment must be specified")
    if len(steps) > _MOST:
        raise ServiceError(f"{len(steps)} step adjustments are given: at most {_MOST} are allowed")
    ranges = sorted(map(_range, steps))
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


def _range(step: Mapping[str, Any]) -> tuple[float, float]:
    low, high = step.get("MetricIntervalLowerBound"), step.get("MetricIntervalUpperBound")
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _covers(step: Mapping[str, Any], past: float) -> bool:
    """Above the threshold the lower bound belongs to a step, below it the upper bound."""
    low, high = _range(step)
    return low <= past < high if past >= 0 else low < past <= high


def _change(config: Mapping[str, Any], current: int, change: int) -> int:
    if config["AdjustmentType"] == "ChangeInCapacity":
        return change
    exact = current * change / 100
    # Towards zero, but for what is less than one instance.
    size = 1 if 0 < abs(exact) < 1 else math.floor(abs(exact))
    size = max(size, config.get("MinAdjustmentMagnitude") or 0)
    return int(math.copysign(size, exact))
