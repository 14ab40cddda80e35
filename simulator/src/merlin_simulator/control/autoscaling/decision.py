"""How many instances a variant should have: pure decisions over datapoints, bounds and cooldowns.

AWS, "How target tracking scaling works" and "Step scaling policies": a policy watches its metric by
two alarms. AlarmHigh is in ALARM when 3 datapoints of a minute in a row are above the target,
AlarmLow when 15 are below 90 % of it. Several policies: the largest capacity wins to scale out, and
all of them must agree to scale in. How the new capacity is calculated AWS says in words only
("proportional", and never so that a scale-in calls for a scale-out at once, its "anticipated
flapping"). Here it is the current one times a datapoint over the target, rounded up: the newest to
scale out; to scale in the highest of those that AlarmLow saw, so that all of them would have fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

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
_FLAPPING = "AutoScalingAnticipatedFlapping"
#: More instances than any bounds have: a target may be so small that the product has no end.
_MANY = 2.0**31


class AlarmState(Enum):
    """StateValue of an alarm."""

    OK = "OK"
    ALARM = "ALARM"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


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

    def alarm(self, side: Side) -> AlarmState:
        """The state of one of its alarms."""
        if side is Side.HIGH:
            return self._state(OUT_DATAPOINTS, lambda value: value > self.rule.target)
        return self._state(IN_DATAPOINTS, lambda value: value < IN_SHARE * self.rule.target)

    @property
    def newest(self) -> float:
        """The last value that came."""
        return next(value for value in reversed(self.datapoints) if value is not None)

    @property
    def highest(self) -> float:
        """Of the values that AlarmLow looks at."""
        return max([value for value in self.datapoints if value is not None][-IN_DATAPOINTS:])

    def _state(self, count: int, breaches: Callable[[float], bool]) -> AlarmState:
        window = self.datapoints[-(count + LATE_DATAPOINTS) :]
        values = [value for value in window if value is not None][-count:]
        if len(values) < count:
            return AlarmState.INSUFFICIENT_DATA
        return AlarmState.ALARM if all(map(breaches, values)) else AlarmState.OK


@dataclass(frozen=True)
class Past:
    """The last scalings by policies. at: when they were done, platform seconds; None: never.

    before: instances before the last scale-out.
    """

    out_at: float | None = None
    out_cooldown_s: float = 0.0
    before: int = 0
    in_at: float | None = None
    in_cooldown_s: float = 0.0

    def cooling_out(self, now: float) -> bool:
        """Whether the cooldown of the last scale-out goes on."""
        return _within(self.out_at, self.out_cooldown_s, now)

    def cooling_in(self, now: float) -> bool:
        """Whether the cooldown of the last scale-in goes on."""
        return _within(self.in_at, self.in_cooldown_s, now)

    def after(self, wish: Wish, before: int, now: float) -> Past:
        """When a wish is done; before: instances until then.

        AWS: a scale-out ends the scale-in's cooldown; in a cooldown it adds to what was added.
        """
        if wish.count > before:
            return Past(now, wish.cooldown_s, self.before if self.cooling_out(now) else before)
        return Past(self.out_at, self.out_cooldown_s, self.before, now, wish.cooldown_s)


@dataclass(frozen=True)
class Situation:
    """What a decision is made in. now: platform seconds; current: instances that are wanted."""

    now: float
    current: int
    bounds: Bounds
    past: Past = field(default_factory=Past)
    suspended: Suspended = field(default_factory=Suspended)


@dataclass(frozen=True)
class Wish:
    """Another number of instances, and whose wish it is. side: None for a step policy."""

    count: int
    policy: str
    side: Side | None
    cooldown_s: float
    why: str


@dataclass(frozen=True)
class Stay:
    """All stays as it is. code: AWS's NotScaledReason, where an alarm would have it otherwise."""

    why: str
    code: str | None = None
    policy: str | None = None
    side: Side | None = None


def decide(situation: Situation, readings: Sequence[Reading]) -> Wish | Stay:
    """By the target-tracking policies of one target."""
    above = [one for one in readings if one.alarm(Side.HIGH) is AlarmState.ALARM]
    if above:
        return _out(situation, above)
    shrinking = [one for one in readings if not one.rule.disable_scale_in]
    if not shrinking:
        return Stay("no policy may scale in")
    states = {one.rule.policy: one.alarm(Side.LOW) for one in shrinking}
    waiting = sorted(name for name, state in states.items() if state is not AlarmState.ALARM)
    if waiting:
        return Stay(f"not low, or not known: {', '.join(waiting)}")
    return _in(situation, shrinking)


def _out(situation: Situation, above: Sequence[Reading]) -> Wish | Stay:
    """The largest wins. During the cooldown what was added counts: only still more is added."""
    past, current = situation.past, situation.current
    cooling = past.cooling_out(situation.now)
    base = past.before if cooling else current
    wanted, leader = max(
        ((_proportional(base, one.newest, one.rule), one) for one in above),
        key=lambda found: found[0],
    )
    name = leader.rule.policy
    why = f"{leader.newest:g} is above {leader.rule.target:g} with {base} instances"
    if situation.suspended.scale_out:
        return Stay("scaling out is suspended")
    if wanted <= current:
        return Stay("the scale-out cooldown" if cooling else "no more are needed")
    count = situation.bounds.clip(wanted)
    if count <= current:
        return Stay("at the maximum", "AlreadyAtMaxCapacity", name, Side.HIGH)
    return Wish(count, name, Side.HIGH, leader.rule.out_cooldown_s, why)


def _in(situation: Situation, below: Sequence[Reading]) -> Wish | Stay:
    """As many as the one that wants most."""
    current = situation.current
    wanted, leader = max(
        ((_proportional(current, one.highest, one.rule), one) for one in below),
        key=lambda found: found[0],
    )
    name = leader.rule.policy
    if situation.suspended.scale_in:
        return Stay("scaling in is suspended")
    count = situation.bounds.clip(wanted)
    if count >= current:
        if current <= situation.bounds.least:
            return Stay("at the minimum", "AlreadyAtMinCapacity", name, Side.LOW)
        if _proportional(current, leader.newest, leader.rule) < current:
            return Stay("it would scale out again", _FLAPPING, name, Side.LOW)
        return Stay("all are needed")
    if situation.past.cooling_in(situation.now):
        return Stay("the scale-in cooldown")
    why = f"{leader.highest:g} is below {IN_SHARE:.0%} of {leader.rule.target:g}"
    return Wish(count, name, Side.LOW, leader.rule.in_cooldown_s, why)


def _proportional(base: int, value: float, rule: Tracking) -> int:
    exact = base * value / rule.target
    return math.ceil(max(-_MANY, min(exact, _MANY)) - _NOISE)


def _within(at: float | None, cooldown_s: float, now: float) -> bool:
    """A time after now is that of a clock before this one's: over."""
    return at is not None and 0 <= now - at < cooldown_s
