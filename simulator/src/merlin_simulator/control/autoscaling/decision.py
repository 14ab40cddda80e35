"""How many instances a policy wants: target tracking, steps, cooldowns; the datapoints it reads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from merlin_simulator.control.autoscaling.names import VariantId
from merlin_simulator.control.cloudwatch.metric_calls import answer
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, MetricStore, make_metric
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
        key=lambda candidate: candidate[0],
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
        key=lambda candidate: candidate[0],
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


def _not_out(situation: Situation, policy: str, count_wanted: int, count: int) -> Stay | None:
    """Why a variant does not grow to that count, where it does not."""
    if count_wanted <= situation.current:
        return Stay("the scale-out cooldown")
    if situation.suspended.scale_out:
        return Stay("scaling out is suspended")
    if count <= situation.current:
        return Stay("at the maximum", "AlreadyAtMaxCapacity", policy)
    return None


def _not_in(situation: Situation, policy: str, count_wanted: int, count: int) -> Stay | None:
    """Why a variant does not shrink to that count, where it does not."""
    if count_wanted == situation.current:
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


#: A value for each minute, the newest last.
Series = Sequence[float | None]
#: AWS, "PredefinedMetricSpecification": those of a variant of instances that are kept here.
PREDEFINED = "SageMakerVariantInvocationsPerInstance"


def read_datapoints(
    config: Mapping[str, Any], target: VariantId, store: MetricStore, now: float, minutes: int
) -> Series:
    """The last whole minutes before now, the newest last; None where no value came.

    config: TargetTrackingScalingPolicyConfiguration, as check_metric lets it pass.
    """
    window = _Window(store, now, minutes)
    if "PredefinedMetricSpecification" in config:
        dimensions = {"EndpointName": target.endpoint, "VariantName": target.variant}
        return window.read("AWS/SageMaker", "InvocationsPerInstance", dimensions, "Sum", None)
    spec = config["CustomizedMetricSpecification"]
    if "Metrics" in spec:
        return window.reckon(spec["Metrics"])
    dimensions = _dimensions(spec)
    return window.read(
        spec["Namespace"], spec["MetricName"], dimensions, spec["Statistic"], spec.get("Unit")
    )


def check_metric(config: Mapping[str, Any]) -> None:
    """Raises ServiceError where a policy does not say which metric, or one that is not kept."""
    predefined = config.get("PredefinedMetricSpecification")
    customized = config.get("CustomizedMetricSpecification")
    if (predefined is None) == (customized is None):
        raise ServiceError(
            "Exactly one of PredefinedMetricSpecification and CustomizedMetricSpecification must "
            "be specified"
        )
    if predefined is not None and predefined["PredefinedMetricType"] != PREDEFINED:
        raise ServiceError(
            f"PredefinedMetricType is {predefined['PredefinedMetricType']}: here {PREDEFINED} is "
            "carried out; name it, or give a CustomizedMetricSpecification."
        )
    if customized is not None:
        _check_customized(customized)


def _check_customized(spec: Mapping[str, Any]) -> None:
    single = [name for name in ("MetricName", "Namespace", "Statistic") if spec.get(name)]
    if spec.get("Metrics"):
        if single:
            raise ServiceError(f"Metrics and {single[0]} are given: expected one of them.")
        _check_queries(spec["Metrics"])
    elif len(single) < 3:
        raise ServiceError(
            "CustomizedMetricSpecification needs MetricName, Namespace and Statistic, or Metrics."
        )


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    returned = [query for query in queries if query.get("ReturnData", True)]
    if len(returned) != 1:
        raise ServiceError(
            f"{len(returned)} of the Metrics have ReturnData true, which is the default: "
            "expected exactly one."
        )
    for query in queries:
        metric = query.get("MetricStat", {}).get("Metric")
        if metric is not None and not (metric.get("Namespace") and metric.get("MetricName")):
            raise ServiceError(f"The metric of {query['Id']} needs Namespace and MetricName.")
    try:
        found = answer(by_the_minute(queries), lambda *_: (), lambda _: ())
    except ServiceError as error:
        raise ServiceError(str(error)) from error  # by this service's own code
    if len(found) != 1:
        raise ServiceError(f"The Metrics are {len(found)} time series: expected one.")


def by_the_minute(queries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A policy's metrics as CloudWatch's queries, which have a period."""
    return [
        {**query, "MetricStat": {**query["MetricStat"], "Period": RESOLUTION_S}}
        if "MetricStat" in query
        else {**query, "Period": RESOLUTION_S}
        for query in queries
    ]


def _dimensions(spec: Mapping[str, Any]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in spec.get("Dimensions") or ()}


class _Window:
    """The last whole minutes before now."""

    def __init__(self, store: MetricStore, now: float, minutes: int) -> None:
        self._store = store
        end = int(now // RESOLUTION_S)
        self._begins = [minute * RESOLUTION_S for minute in range(end - minutes, end)]

    def read(
        self, namespace: str, name: str, dimensions: Mapping[str, str], stat: str, unit: str | None
    ) -> Series:
        metric = make_metric(namespace, name, dimensions)
        end = self._begins[-1] + RESOLUTION_S
        results = {
            int(begin): statistics.read(stat)
            for begin, statistics in self._store.read(metric, self._begins[0], end)
            if unit is None or statistics.unit == unit
        }
        return [results.get(begin) for begin in self._begins]

    def reckon(self, queries: Sequence[Mapping[str, Any]]) -> Series:
        """By metric math; nothing came where these values have no result."""
        first, end = self._begins[0], self._begins[-1] + RESOLUTION_S
        try:
            (found,) = answer(
                by_the_minute(queries),
                lambda metric, *how: self._store.read(metric, first, end, *how),
                lambda _: self._begins,
            )
        except ServiceError:
            return [None] * len(self._begins)
        return [found.values.get(begin) for begin in self._begins]
