"""Application Auto Scaling's calls: targets, policies, scheduled actions, activities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from merlin_simulator.control.autoscaling.decision import (
    COOLDOWN_S,
    Side,
    Tracking,
    check_metric,
    check_steps,
)
from merlin_simulator.control.autoscaling.names import (
    DIMENSION,
    NAMESPACE,
    InvalidNextToken,
    LimitExceeded,
    ResourceNotFound,
    TooManyTags,
    VariantId,
    action_arn,
    alarm_arn,
    linked_role,
    make_id,
    no_action,
    no_policy,
    no_target,
    policy_arn,
    read_resource,
    split_resource,
    target_arn,
)
from merlin_simulator.control.autoscaling.schedules import At, read_schedule
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError, Unserializable
from merlin_simulator.control.records import Record, Records, page
from merlin_simulator.control.sagemaker.resources import make_arn, not_found
from merlin_simulator.watch.events import EventLog

#: AWS: at most 50 on a page, which is the default, too.
_ON_A_PAGE = 50


def about_variants(members: Mapping[str, Any]) -> bool:
    """Whether what is asked for can be found here: nothing else is registered.

    Raises ServiceError for a dimension without a resource.
    """
    dimension = members.get("ScalableDimension")
    if dimension and not (members.get("ResourceId") or members.get("ResourceIds")):
        # AWS, "DescribeScalingPolicies": the one needs the other.
        raise ServiceError(
            "If you specify a scalable dimension, you must also specify a resource ID"
        )
    return members["ServiceNamespace"] == NAMESPACE and dimension in (None, DIMENSION)


def answer(
    kind: str, records: Sequence[Record], members: Mapping[str, Any], left_out: Sequence[str] = ()
) -> Mapping[str, Any]:
    """One page. kind: the output's member; left_out: members of records that are ours alone."""
    most = members.get("MaxResults")
    most = _ON_A_PAGE if most is None else most
    if not 1 <= most <= _ON_A_PAGE:
        raise ServiceError(f"MaxResults is {most}: expected 1 to {_ON_A_PAGE}.")
    shown, token = page(records, members.get("NextToken"), most, code=InvalidNextToken.code)
    return {kind: described(shown, left_out), **({"NextToken": token} if token else {})}


def described(records: Sequence[Record], left_out: Sequence[str]) -> list[Record]:
    """Records as they are shown: without members that are ours alone."""
    return [{key: one[key] for key in one if key not in left_out} for one in records]


_SUSPENDED = (
    "DynamicScalingInSuspended",
    "DynamicScalingOutSuspended",
    "ScheduledScalingSuspended",
)
_TARGETS_OWN = ("Tags", "Past")
#: AWS, "TagResource".
_TAGS = 50


class Variants(Protocol):
    """What is to be scaled; the endpoints."""

    def instance_type(self, endpoint_name: str, variant_name: str) -> str | None:
        """Of a variant; None: there is none."""

    def exists(self, endpoint_name: str) -> bool:
        """Whether there is an endpoint of that name, in service or not."""


class Targets:
    """All of them, by resource ID. changed: hears of a target that is new or has other bounds."""

    def __init__(self, records: Records, clock: Clock, variants: Variants) -> None:
        self._records, self._clock, self._variants = records, clock, variants
        self.changed: Callable[[str], None] = lambda _: None
        self.gone: list[Callable[[str], None]] = []

    def find(self, resource: str) -> Record | None:
        """The target as it is kept."""
        return self._records.get(resource)

    def has(self, endpoint_name: str, variant_name: str) -> bool:
        """Whether a variant is registered."""
        return self.find(str(VariantId(endpoint_name, variant_name))) is not None

    def get(self, resource: str) -> Record:
        """Raises ObjectNotFound where none is registered."""
        target = self.find(resource)
        if target is None:
            raise no_target(resource)
        return target

    def all(self) -> tuple[Record, ...]:
        """In the order of their registration."""
        return self._records.values()

    def described(self) -> list[Record]:
        """As DescribeScalableTargets has them."""
        return described(self.all(), _TARGETS_OWN)

    def put(self, target: Record) -> None:
        """Keep what changed in it."""
        self._records.put(target["ResourceId"], target)

    def remove(self, resource: str) -> None:
        """With its policies and scheduled actions, as AWS does it."""
        self._records.remove(resource)
        for gone in self.gone:
            gone(resource)

    def forget_endpoint(self, endpoint_name: str) -> None:
        """AWS, "Delete endpoints configured for auto scaling": targets go with their endpoint."""
        for resource in list(self._records):
            if resource.startswith(f"endpoint/{endpoint_name}/"):
                self.remove(resource)

    # -- the calls

    async def register(self, call: Call) -> Mapping[str, Any]:
        """RegisterScalableTarget; out of its bounds, the variant is scaled at once."""
        members = call.members
        target_id = read_resource(members)
        resource = str(target_id)
        target, tags = self.find(resource), members.get("Tags")
        if target is None:
            target = self._made(target_id, call)
        elif tags is not None:
            # The service's own words.
            raise ServiceError(
                "The scalable target that you tried to tag already exists. To update tags on an "
                "existing scalable target, use the TagResource API."
            )
        changed = {**target, **_bounds(target, members)}
        given = members.get("SuspendedState") or {}
        changed["SuspendedState"] = {
            **target["SuspendedState"],
            **{key: given[key] for key in _SUSPENDED if given.get(key) is not None},
        }
        self.put(changed)
        self.changed(resource)
        return {"ScalableTargetARN": changed["ScalableTargetARN"]}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalableTargets."""
        members, records = call.members, list[Record]()
        if about_variants(members):
            wanted = members.get("ResourceIds")
            records = [one for one in self.all() if not wanted or one["ResourceId"] in wanted]
        return answer("ScalableTargets", records, members, _TARGETS_OWN)

    async def deregister(self, call: Call) -> Mapping[str, Any]:
        """DeregisterScalableTarget."""
        resource = str(read_resource(call.members))
        self.get(resource)
        self.remove(resource)
        return {}

    async def tag(self, call: Call) -> Mapping[str, Any]:
        """TagResource."""
        target = self._of_arn(call)
        self.put({**target, "Tags": _tags({**target["Tags"], **call.members["Tags"]})})
        return {}

    async def untag(self, call: Call) -> Mapping[str, Any]:
        """UntagResource; keys that are not there are nothing to it."""
        target, gone = self._of_arn(call), call.members["TagKeys"]
        left = {key: value for key, value in target["Tags"].items() if key not in gone}
        self.put({**target, "Tags": left})
        return {}

    async def list_tags(self, call: Call) -> Mapping[str, Any]:
        """ListTagsForResource."""
        return {"Tags": self._of_arn(call)["Tags"]}

    def _of_arn(self, call: Call) -> Record:
        arn = call.members["ResourceARN"]
        for target in self.all():
            if target["ScalableTargetARN"] == arn:
                return target
        raise ResourceNotFound(f"The resource {arn} does not exist: send a scalable target's ARN.")

    def _made(self, target: VariantId, call: Call) -> Record:
        members = call.members
        for which, sentence in (("MinCapacity", "Minimum"), ("MaxCapacity", "Maximum")):
            if members.get(which) is None:
                raise ServiceError(f"{sentence} capacity must be specified")
        self._check(target, call.region)
        arn = target_arn(make_id(), call.region)
        return {
            "ServiceNamespace": NAMESPACE,
            "ResourceId": str(target),
            "ScalableDimension": DIMENSION,
            "RoleARN": members.get("RoleARN") or linked_role(),
            "CreationTime": self._clock.now(),
            "SuspendedState": dict.fromkeys(_SUSPENDED, False),
            "ScalableTargetARN": arn,
            "Tags": _tags(members.get("Tags") or {}),
            "Past": {},
        }

    def _check(self, target: VariantId, region: str) -> None:
        """The service asks SageMaker, whose words these are."""
        if not self._variants.exists(target.endpoint):
            raise ServiceError(not_found("endpoint", target.endpoint, region))
        instance_type = self._variants.instance_type(target.endpoint, target.variant)
        if instance_type is None:
            arn = make_arn("endpoint", target.endpoint, region)
            raise ServiceError(f'Could not find variant "{target.variant}" of endpoint "{arn}".')
        if instance_type.startswith("ml.t"):
            # The service's own words.
            raise ServiceError(
                f"You cannot register a variant with {instance_type} instance type as a scalable "
                "target. This is because the burstable performance of these instances can lead to "
                "unpredictable behavior with Auto Scaling."
            )


def _bounds(target: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, int]:
    """The bounds that a call leaves; those that it does not give stay. Raises ServiceError."""
    bounds = dict[str, int]()
    for which in ("MinCapacity", "MaxCapacity"):
        given = members.get(which)
        bounds[which] = target[which] if given is None else given
    check_bounds(bounds["MinCapacity"], bounds["MaxCapacity"])
    return bounds


def check_bounds(least: int | None, most: int | None) -> None:
    """Raises ServiceError where there is no number between them."""
    if least is not None and least < 0:
        raise ServiceError("Minimum capacity cannot be less than 0")
    if most is not None and most < (least or 0):
        raise ServiceError("Maximum capacity cannot be less than minimum capacity")


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    if len(tags) > _TAGS:
        raise TooManyTags(f"The resource would have {len(tags)} tags: at most {_TAGS} are allowed.")
    return dict(tags)


TRACKING, STEPS = "TargetTrackingScaling", "StepScaling"
_CONFIGS = {
    TRACKING: "TargetTrackingScalingPolicyConfiguration",
    STEPS: "StepScalingPolicyConfiguration",
}
_POLICIES_OWN = ("PolicyId",)
#: AWS, "Quotas for Application Auto Scaling": policies of a target.
_MOST_POLICIES = 50


class Policies:
    """All of them, by an id of their own."""

    def __init__(self, records: Records, clock: Clock, targets: Targets) -> None:
        self._records, self._clock, self._targets = records, clock, targets
        targets.gone.append(self._forget)

    def of(self, resource: str, kind: str) -> list[Record]:
        """Those of a target; kind: a PolicyType."""
        return [one for one in self._of(resource) if one["PolicyType"] == kind]

    def described(self) -> list[Record]:
        """As DescribeScalingPolicies has them."""
        return described(self._records.values(), _POLICIES_OWN)

    def by_arn(self, arn: str) -> Record | None:
        """The policy that an alarm's action names."""
        return next((one for one in self._records.values() if one["PolicyARN"] == arn), None)

    # -- the calls

    async def put(self, call: Call) -> Mapping[str, Any]:
        """PutScalingPolicy: a new one, or another configuration of one that is there."""
        members, name = call.members, call.members["PolicyName"]
        resource = str(read_resource(members))
        self._targets.get(resource)
        before = self._find(resource, name)
        kind, config = _configuration(members, before)
        others = [one for one in self._of(resource) if one is not before]
        if before is None and len(others) >= _MOST_POLICIES:
            raise LimitExceeded(
                f"A scalable target may have at most {_MOST_POLICIES} scaling policies."
            )
        if kind == TRACKING:
            _check_alone(config, others)
        policy = before or self._made(resource, name, call)
        policy = {
            **{key: value for key, value in policy.items() if key not in _CONFIGS.values()},
            "PolicyType": kind,
            _CONFIGS[kind]: config,
            "Alarms": _alarms(policy, kind, config, call.region),
        }
        self._records.put(policy["PolicyId"], policy)
        return {"PolicyARN": policy["PolicyARN"], "Alarms": policy["Alarms"]}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalingPolicies."""
        members, records = call.members, list[Record]()
        if about_variants(members):
            names, resource = members.get("PolicyNames"), members.get("ResourceId")
            records = [
                one
                for one in self._records.values()
                if (not names or one["PolicyName"] in names)
                and resource in (None, one["ResourceId"])
            ]
        return answer("ScalingPolicies", records, members, _POLICIES_OWN)

    async def delete(self, call: Call) -> Mapping[str, Any]:
        """DeleteScalingPolicy."""
        resource, name = str(read_resource(call.members)), call.members["PolicyName"]
        policy = self._find(resource, name)
        if policy is None:
            raise no_policy(resource, name)
        self._records.remove(policy["PolicyId"])
        return {}

    def _find(self, resource: str, name: str) -> Record | None:
        return next((one for one in self._of(resource) if one["PolicyName"] == name), None)

    def _of(self, resource: str) -> list[Record]:
        return [one for one in self._records.values() if one["ResourceId"] == resource]

    def _forget(self, resource: str) -> None:
        for policy in self._of(resource):
            self._records.remove(policy["PolicyId"])

    def _made(self, resource: str, name: str, call: Call) -> Record:
        policy_id = make_id()
        return {
            "PolicyId": policy_id,
            "PolicyARN": policy_arn(policy_id, resource, name, call.region),
            "PolicyName": name,
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "CreationTime": self._clock.now(),
        }


def rule(policy: Mapping[str, Any]) -> Tracking:
    """What a target-tracking policy is decided by."""
    config = policy[_CONFIGS[TRACKING]]
    return Tracking(
        policy["PolicyName"],
        float(config["TargetValue"]),
        float(config.get("ScaleOutCooldown", COOLDOWN_S)),
        float(config.get("ScaleInCooldown", COOLDOWN_S)),
        bool(config.get("DisableScaleIn")),
    )


def config_of(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration that goes with its type."""
    config: Mapping[str, Any] = policy[_CONFIGS[policy["PolicyType"]]]
    return config


def alarm_name(policy: Mapping[str, Any], side: Side) -> str:
    """Of the alarm that watches one side of a target-tracking policy; "" where there is none."""
    names = (str(alarm["AlarmName"]) for alarm in policy["Alarms"])
    return next((name for name in names if f"-Alarm{side.value}-" in name), "")


def _configuration(
    members: Mapping[str, Any], before: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any]]:
    """Type and configuration that a call leaves. Raises ServiceError."""
    # StepScaling is what the service took where none was given.
    kind = members.get("PolicyType") or (before["PolicyType"] if before else STEPS)
    member = _CONFIGS.get(kind)
    if member is None:
        raise ServiceError(
            f"PolicyType is {kind}: here {TRACKING} and {STEPS} are carried out for {NAMESPACE}."
        )
    config = members.get(member)
    if config is None and before is not None and member in before:
        config = before[member]
    if config is None:
        raise ServiceError(f"{member} must be specified for a policy of type {kind}")
    if kind == STEPS:
        check_steps(config)
    else:
        _check_tracking(config)
    return kind, config


def _check_tracking(config: Mapping[str, Any]) -> None:
    if not config["TargetValue"] > 0:
        raise ServiceError(f"TargetValue is {config['TargetValue']:g}: expected more than 0.")
    for member in ("ScaleInCooldown", "ScaleOutCooldown"):
        if config.get(member, 0) < 0:
            raise ServiceError(f"{member} is {config[member]}: expected 0 or more seconds.")
    check_metric(config)


def _check_alone(config: Mapping[str, Any], others: list[Record]) -> None:
    """Two targets of one metric would pull at each other."""
    members = ("PredefinedMetricSpecification", "CustomizedMetricSpecification")
    for other in others:
        kept = other.get(_CONFIGS[TRACKING])
        if kept and all(kept.get(member) == config.get(member) for member in members):
            # The service's own words.
            raise ServiceError(
                "Only one TargetTrackingScaling policy for a given metric specification is allowed."
            )


def _alarms(
    policy: Mapping[str, Any], kind: str, config: Mapping[str, Any], region: str
) -> list[dict[str, str]]:
    """Of a target-tracking policy those that AWS makes; they stay while it is changed."""
    if kind == STEPS:
        return []
    sides = [Side.HIGH] if config.get("DisableScaleIn") else [Side.HIGH, Side.LOW]
    kept = {side: alarm_name(policy, side) for side in sides} if policy.get("Alarms") else {}
    alarms = []
    for side in sides:
        new = f"TargetTracking-{policy['ResourceId']}-Alarm{side.value}-{make_id()}"
        name = kept.get(side) or new
        alarms.append({"AlarmName": name, "AlarmARN": alarm_arn(name, region)})
    return alarms


_ACTIONS_OWN = ("ActionId", "Next")
#: AWS, "Quotas for Application Auto Scaling": scheduled actions of a target.
_MOST_ACTIONS = 200
_TIMES = ("StartTime", "EndTime")


class ScheduledActions:
    """All of them, by an id of their own. Next: when one is due, platform seconds."""

    def __init__(self, records: Records, clock: Clock, targets: Targets) -> None:
        self._records, self._clock, self._targets = records, clock, targets
        targets.gone.append(self._forget)

    def restore(self) -> None:
        """What was due while nothing ran is not made up for."""
        for action in self._records.values():
            self._records.put(action["ActionId"], _planned(action, self._clock.now()))

    def due(self, now: float) -> Iterator[Record]:
        """Those whose time has come, each once: their next time is set."""
        for action in self._records.values():
            following = action.get("Next")
            if following is None or following > now:
                continue
            planned = _planned(action, now)
            self._records.put(action["ActionId"], planned)
            yield planned

    # -- the calls

    async def put(self, call: Call) -> Mapping[str, Any]:
        """PutScheduledAction: a new one, or changes of one that is there."""
        members, name = call.members, call.members["ScheduledActionName"]
        resource = str(read_resource(members))
        self._targets.get(resource)
        before = self._find(resource, name)
        if before is None and len(self._of(resource)) >= _MOST_ACTIONS:
            raise LimitExceeded(
                f"A scalable target may have at most {_MOST_ACTIONS} scheduled actions."
            )
        action = dict(before or self._made(resource, name, call))
        for member in ("Schedule", "Timezone", "ScalableTargetAction"):
            if members.get(member) is not None:
                action[member] = members[member]
        for member in _TIMES:
            if members.get(member) is not None:
                action[member] = _seconds(member, members[member])
        _check(action)
        action = _planned(action, self._clock.now())
        if "Next" not in action and isinstance(_schedule(action), At):
            raise ServiceError(f"Schedule {action['Schedule']} is in the past.")
        self._records.put(action["ActionId"], action)
        return {}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScheduledActions."""
        members, records = call.members, list[Record]()
        if about_variants(members):
            names, resource = members.get("ScheduledActionNames"), members.get("ResourceId")
            records = [
                one
                for one in self._records.values()
                if (not names or one["ScheduledActionName"] in names)
                and resource in (None, one["ResourceId"])
            ]
        return answer("ScheduledActions", records, members, _ACTIONS_OWN)

    async def delete(self, call: Call) -> Mapping[str, Any]:
        """DeleteScheduledAction."""
        resource, name = str(read_resource(call.members)), call.members["ScheduledActionName"]
        action = self._find(resource, name)
        if action is None:
            raise no_action(resource, name)
        self._records.remove(action["ActionId"])
        return {}

    def _find(self, resource: str, name: str) -> Record | None:
        found = (one for one in self._of(resource) if one["ScheduledActionName"] == name)
        return next(found, None)

    def _of(self, resource: str) -> list[Record]:
        return [one for one in self._records.values() if one["ResourceId"] == resource]

    def _forget(self, resource: str) -> None:
        for action in self._of(resource):
            self._records.remove(action["ActionId"])

    def _made(self, resource: str, name: str, call: Call) -> Record:
        if not call.members.get("Schedule"):
            raise ServiceError("Schedule must be specified")
        action_id = make_id()
        return {
            "ActionId": action_id,
            "ScheduledActionName": name,
            "ScheduledActionARN": action_arn(action_id, resource, name, call.region),
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "CreationTime": self._clock.now(),
        }


def _check(action: Mapping[str, Any]) -> None:
    wanted = action.get("ScalableTargetAction") or {}
    least, most = wanted.get("MinCapacity"), wanted.get("MaxCapacity")
    if least is None and most is None:
        # The service's own words (community-registry-extensions#255).
        raise ServiceError(
            "At least one of minimum capacity and maximum capacity should be provided"
        )
    check_bounds(least, most)
    start, end = (action.get(member) for member in _TIMES)
    if start is not None and end is not None and end <= start:
        raise ServiceError("EndTime must be after StartTime")


def _schedule(action: Mapping[str, Any]) -> Any:
    anchor = action.get("StartTime", action["CreationTime"])
    return read_schedule(action["Schedule"], action.get("Timezone"), anchor)


def _planned(action: Mapping[str, Any], now: float) -> Record:
    """With its next time after now, within StartTime and EndTime; without one it is over."""
    planned = {key: value for key, value in action.items() if key != "Next"}
    # The very second of StartTime is a time of it.
    earliest = max(now, action.get("StartTime", now) - 1e-3)
    following = _schedule(action).after(earliest)
    if following is not None and following <= action.get("EndTime", following):
        planned["Next"] = following
    return planned


def _seconds(member: str, value: Any) -> float:
    """The wire has seconds since the epoch; a text is ISO 8601."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
        return float(value)
    except ValueError as error:
        raise Unserializable(f"{member} is {value!r}: expected a time.") from error


#: Of one variant, the last ones. AWS has them for six weeks.
_KEPT = 100
#: Variants whose activities are kept, also after they are gone.
_RESOURCES = 200


class Activities:
    """Scaling activities by resource. log: hears of those that change something."""

    def __init__(self, records: Records, clock: Clock, log: EventLog) -> None:
        self._records, self._clock, self._log = records, clock, log

    def restore(self) -> None:
        """What was under way when the simulator ended is not any more."""
        for record in self._records.values():
            cut = [one for one in record["Activities"] if one["StatusCode"] == "InProgress"]
            for activity in cut:
                activity["EndTime"] = self._clock.now()
                activity["StatusCode"] = "Unfulfilled"
                activity["StatusMessage"] = "The simulator ended before it was fulfilled."
            if cut:
                self._records.put(record["ResourceId"], record)

    def begin(self, resource: str, description: str, cause: str) -> Record:
        """An activity that is under way from now on."""
        activity = self._keep(resource, description, cause, "InProgress")
        self._tell(activity)
        return activity

    def end(self, activity: Record, status: str, message: str) -> None:
        """It is over. status: a StatusCode; message: its StatusMessage."""
        record = self._of(activity["ResourceId"])
        kept: list[Record] = record["Activities"]
        activity.update(EndTime=self._clock.now(), StatusCode=status, StatusMessage=message)
        before = kept[1] if len(kept) > 1 and kept[0] is activity else None
        if before is not None and status == "Failed" and _alike(before, activity):
            # Tried again every minute: told once.
            before["EndTime"] = activity["EndTime"]
            kept.remove(activity)
        self._put(record)
        self._tell(activity)

    def not_scaled(self, resource: str, cause: str, reason: Mapping[str, Any]) -> None:
        """An alarm would have another number, which cannot be; told once until that changes."""
        newest = next(iter(self._of(resource)["Activities"]), None)
        if newest is not None and _code(newest) == reason["Code"]:
            return
        # AWS, "Scaling activities": an alarm's attempt, Failed.
        message = "Attempting to scale due to alarm triggered"
        self._keep(resource, message, cause, "Failed", NotScaledReasons=[dict(reason)])

    def of(self, resource: str | None, not_scaled: bool) -> list[Record]:
        """Newest first; of all resources: None. not_scaled: those that did nothing, too."""
        records = self._records.values() if resource is None else (self._of(resource),)
        results = [
            one
            for record in records
            for one in record["Activities"]
            if not_scaled or "NotScaledReasons" not in one
        ]
        return sorted(results, key=lambda one: -one["StartTime"])

    def _keep(
        self, resource: str, description: str, cause: str, status: str, **more: Any
    ) -> Record:
        activity = {
            "ActivityId": make_id(),
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "Description": description,
            "Cause": cause,
            "StartTime": self._clock.now(),
            "StatusCode": status,
            **more,
        }
        record = self._of(resource)
        record["Activities"] = [activity, *record["Activities"]][:_KEPT]
        self._put(record)
        return activity

    def _of(self, resource: str) -> Record:
        return self._records.get(resource) or {
            "ResourceId": resource,
            "CreationTime": self._clock.now(),
            "Activities": [],
        }

    def _put(self, record: Record) -> None:
        self._records.put(record["ResourceId"], record)
        if len(self._records) > _RESOURCES:
            self._records.remove(next(iter(self._records)))

    def _tell(self, activity: Record) -> None:
        target = split_resource(activity["ResourceId"])
        self._log.tell(
            "scaling_activity",
            endpoint=target.endpoint,
            variant=target.variant,
            status=activity["StatusCode"],
            description=activity["Description"],
            cause=activity["Cause"],
            message=activity.get("StatusMessage"),
        )


def _alike(one: Record, other: Record) -> bool:
    members = ("StatusCode", "Description", "Cause", "StatusMessage")
    return all(one.get(member) == other.get(member) for member in members)


def _code(activity: Record) -> str | None:
    reasons = activity.get("NotScaledReasons")
    return reasons[0]["Code"] if reasons else None
