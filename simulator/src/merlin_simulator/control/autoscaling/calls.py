"""Application Auto Scaling's calls: targets, policies, scheduled actions, activities."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.autoscaling.decision import COOLDOWN_S, Side, Tracking, check_steps
from merlin_simulator.control.autoscaling.metrics import check_metric
from merlin_simulator.control.autoscaling.schedules import Once, Schedule, read_schedule
from merlin_simulator.control.autoscaling.variants import (
    DIMENSION,
    NAMESPACE,
    VariantId,
    Variants,
    parse_resource,
    read_resource,
)
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records, page
from merlin_simulator.control.sagemaker.resources import make_arn, not_found
from merlin_simulator.errors import ACCOUNT
from merlin_simulator.watch.events import EventLog

#: AWS: at most 50 on a page, which is the default, too.
_ON_A_PAGE = 50
#: AWS, "AWSServiceRoleForApplicationAutoScaling": the service-linked role of all variants.
_LINKED_ROLE = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/sagemaker.application-autoscaling."
    "amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)


def _page(
    kind: str, records: Sequence[Record], members: Mapping[str, Any], hidden: Sequence[str] = ()
) -> Mapping[str, Any]:
    """One page of a Describe call's answer.

    kind: the output's member; hidden: members of records that are ours alone. Nothing but variants
    is registered, so other namespaces have none. Raises ServiceError for a dimension without a
    resource.
    """
    dimension = members.get("ScalableDimension")
    if dimension and not (members.get("ResourceId") or members.get("ResourceIds")):
        # AWS, "DescribeScalingPolicies": the one needs the other.
        raise ServiceError(
            "If you specify a scalable dimension, you must also specify a resource ID"
        )
    if members["ServiceNamespace"] != NAMESPACE or dimension not in (None, DIMENSION):
        records = ()
    most = members.get("MaxResults")
    most = _ON_A_PAGE if most is None else most
    if not 1 <= most <= _ON_A_PAGE:
        raise ServiceError(f"MaxResults is {most}: expected 1 to {_ON_A_PAGE}.")
    token = members.get("NextToken")
    shown, token = page(records, token, most, code="InvalidNextTokenException")
    return {kind: _describe(shown, hidden), **({"NextToken": token} if token else {})}


def _describe(records: Sequence[Record], hidden: Sequence[str]) -> list[Record]:
    return [
        {key: value for key, value in record.items() if key not in hidden} for record in records
    ]


def _not_found(noun: str, resource: str, detail: str = "") -> ServiceError:
    """The service's own words (ansible#35632), in which moto has those of policies."""
    return ServiceError(
        f"No {noun} for service namespace: {NAMESPACE}, resource ID: {resource}, "
        f"scalable dimension: {DIMENSION}{detail}",
        "ObjectNotFoundException",
    )


_SUSPENDED = (
    "DynamicScalingInSuspended",
    "DynamicScalingOutSuspended",
    "ScheduledScalingSuspended",
)
_TARGETS_OWN = ("Tags", "Past")
#: AWS, "TagResource".
_TAGS = 50


class Targets:
    """All of them, by resource ID. changed: hears of a target that is new or has other bounds."""

    def __init__(self, records: Records, clock: Clock, variants: Variants) -> None:
        self._records, self._clock, self._variants = records, clock, variants
        self.changed: Callable[[str], None] = lambda _: None
        self.removed: list[Callable[[str], None]] = []

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
            raise _not_found("scalable target registered", resource)
        return target

    def all(self) -> tuple[Record, ...]:
        """In the order of their registration."""
        return self._records.values()

    def described(self) -> list[Record]:
        """As DescribeScalableTargets has them."""
        return _describe(self.all(), _TARGETS_OWN)

    def put(self, target: Record) -> None:
        """Keep what changed in it."""
        self._records.put(target["ResourceId"], target)

    def remove(self, resource: str) -> None:
        """With its policies and scheduled actions, as AWS does it."""
        self._records.remove(resource)
        for hear in self.removed:
            hear(resource)

    def forget_endpoint(self, endpoint_name: str) -> None:
        """AWS, "Delete endpoints configured for auto scaling": targets go with their endpoint."""
        for resource in list(self._records):
            if resource.startswith(f"endpoint/{endpoint_name}/"):
                self.remove(resource)

    # -- the calls

    async def register(self, call: Call) -> Mapping[str, Any]:
        """RegisterScalableTarget; out of its bounds, the variant is scaled at once."""
        members = call.members
        variant = read_resource(members)
        resource = str(variant)
        target = self.find(resource)
        if target is None:
            target = self._make(variant, call)
        elif members.get("Tags") is not None:
            # The service's own words.
            raise ServiceError(
                "The scalable target that you tried to tag already exists. To update tags on an "
                "existing scalable target, use the TagResource API."
            )
        suspended = {**target["SuspendedState"], **members.get("SuspendedState", {})}
        bounds = bounds_after(target, members)
        check_bounds(*bounds.values())
        target = {**target, **bounds, "SuspendedState": suspended}
        self.put(target)
        self.changed(resource)
        return {"ScalableTargetARN": target["ScalableTargetARN"]}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalableTargets."""
        resources = call.members.get("ResourceIds")
        targets = [
            target for target in self.all() if not resources or target["ResourceId"] in resources
        ]
        return _page("ScalableTargets", targets, call.members, _TARGETS_OWN)

    async def deregister(self, call: Call) -> Mapping[str, Any]:
        """DeregisterScalableTarget."""
        resource = str(read_resource(call.members))
        self.get(resource)
        self.remove(resource)
        return {}

    async def tag(self, call: Call) -> Mapping[str, Any]:
        """TagResource."""
        target = self._find_by_arn(call)
        self.put({**target, "Tags": _tags({**target["Tags"], **call.members["Tags"]})})
        return {}

    async def untag(self, call: Call) -> Mapping[str, Any]:
        """UntagResource; keys that are not there are nothing to it."""
        target, gone = self._find_by_arn(call), call.members["TagKeys"]
        left = {key: value for key, value in target["Tags"].items() if key not in gone}
        self.put({**target, "Tags": left})
        return {}

    async def list_tags(self, call: Call) -> Mapping[str, Any]:
        """ListTagsForResource."""
        return {"Tags": self._find_by_arn(call)["Tags"]}

    def _find_by_arn(self, call: Call) -> Record:
        arn = call.members["ResourceARN"]
        for target in self.all():
            if target["ScalableTargetARN"] == arn:
                return target
        raise ServiceError(
            f"The resource {arn} does not exist: send a scalable target's ARN.",
            "ResourceNotFoundException",
        )

    def _make(self, variant: VariantId, call: Call) -> Record:
        members = call.members
        for which, sentence in (("MinCapacity", "Minimum"), ("MaxCapacity", "Maximum")):
            if members.get(which) is None:
                raise ServiceError(f"{sentence} capacity must be specified")
        self._check(variant, call.region)
        service = f"arn:aws:application-autoscaling:{call.region}:{ACCOUNT}"
        return {
            "ServiceNamespace": NAMESPACE,
            "ResourceId": str(variant),
            "ScalableDimension": DIMENSION,
            "RoleARN": members.get("RoleARN") or _LINKED_ROLE,
            "CreationTime": self._clock.now(),
            "SuspendedState": dict.fromkeys(_SUSPENDED, False),
            "ScalableTargetARN": f"{service}:scalable-target/{uuid.uuid4()}",
            "Tags": _tags(members.get("Tags") or {}),
            "Past": {},
        }

    def _check(self, variant: VariantId, region: str) -> None:
        """The service asks SageMaker, whose words these are."""
        if not self._variants.has_endpoint(variant.endpoint):
            raise ServiceError(not_found("endpoint", variant.endpoint, region))
        instance_type = self._variants.instance_type(variant)
        if instance_type is None:
            arn = make_arn("endpoint", variant.endpoint, region)
            raise ServiceError(f'Could not find variant "{variant.variant}" of endpoint "{arn}".')
        if instance_type.startswith("ml.t"):
            # The service's own words.
            raise ServiceError(
                f"You cannot register a variant with {instance_type} instance type as a scalable "
                "target. This is because the burstable performance of these instances can lead to "
                "unpredictable behavior with Auto Scaling."
            )


def bounds_after(target: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, int]:
    """A target's bounds after a change; those that it does not give stay."""
    return {
        name: target[name] if members.get(name) is None else members[name]
        for name in ("MinCapacity", "MaxCapacity")
    }


def check_bounds(least: int | None, most: int | None) -> None:
    """Raises ServiceError where there is no number between them."""
    if least is not None and least < 0:
        raise ServiceError("Minimum capacity cannot be less than 0")
    if most is not None and most < (least or 0):
        raise ServiceError("Maximum capacity cannot be less than minimum capacity")


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    if len(tags) > _TAGS:
        raise ServiceError(
            f"The resource would have {len(tags)} tags: at most {_TAGS} are allowed.",
            "TooManyTagsException",
        )
    return dict(tags)


@dataclass(frozen=True)
class ResourceKind:
    """Members of records and answers, and parts of an ARN, of policies or scheduled actions."""

    singular: str
    plural: str
    name_title: str
    id_member: str
    arn_member: str
    name_member: str
    output: str
    arn_kind: str
    arn_name: str
    most: int  # AWS, "Quotas for Application Auto Scaling"


class _OfTargets:
    """Policies, or scheduled actions: each of a target, and kept by an id of its own.

    changed: hears that they are not what they were.
    """

    kind: ResourceKind
    hidden: Sequence[str]

    def __init__(self, records: Records, clock: Clock, targets: Targets) -> None:
        self._records, self._clock, self._targets = records, clock, targets
        self.changed: Callable[[], None] = lambda: None
        targets.removed.append(self._forget)

    def of(self, resource: str) -> list[Record]:
        """Those of a target."""
        return [record for record in self._records.values() if record["ResourceId"] == resource]

    def described(self) -> list[Record]:
        """As their Describe call has them."""
        return _describe(self._records.values(), self.hidden)

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalingPolicies, DescribeScheduledActions."""
        member, members = self.kind.name_member, call.members
        names, resource = members.get(f"{member}s"), members.get("ResourceId")
        records = [
            record
            for record in self._records.values()
            if (not names or record[member] in names) and resource in (None, record["ResourceId"])
        ]
        return _page(self.kind.output, records, members, self.hidden)

    async def delete(self, call: Call) -> Mapping[str, Any]:
        """DeleteScalingPolicy, DeleteScheduledAction."""
        resource, name = str(read_resource(call.members)), call.members[self.kind.name_member]
        record = self._find(resource, name)
        if record is None:
            detail = f", {self.kind.name_title}: {name}"
            raise _not_found(f"{self.kind.singular} found", resource, detail)
        self._records.remove(record[self.kind.id_member])
        self.changed()
        return {}

    def _find(self, resource: str, name: str) -> Record | None:
        """A target's, by name."""
        member = self.kind.name_member
        return next((record for record in self.of(resource) if record[member] == name), None)

    def _make(self, resource: str, name: str, region: str) -> Record:
        """A new one, which is not kept yet. Raises ServiceError where there are too many."""
        kind, its_id = self.kind, str(uuid.uuid4())
        if len(self.of(resource)) >= kind.most:
            raise ServiceError(
                f"A scalable target may have at most {kind.most} {kind.plural}.",
                "LimitExceededException",
            )
        return {
            kind.id_member: its_id,
            kind.arn_member: (
                f"arn:aws:autoscaling:{region}:{ACCOUNT}:{kind.arn_kind}:{its_id}:"
                f"resource/{NAMESPACE}/{resource}:{kind.arn_name}/{name}"
            ),
            kind.name_member: name,
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "CreationTime": self._clock.now(),
        }

    def _keep(self, record: Record) -> None:
        self._records.put(record[self.kind.id_member], record)
        self.changed()

    def _forget(self, resource: str) -> None:
        for record in self.of(resource):
            self._records.remove(record[self.kind.id_member])
        self.changed()


TRACKING, STEPS = "TargetTrackingScaling", "StepScaling"
_CONFIGS = {
    TRACKING: "TargetTrackingScalingPolicyConfiguration",
    STEPS: "StepScalingPolicyConfiguration",
}


class Policies(_OfTargets):
    """Calls about scaling policies."""

    kind = ResourceKind(
        singular="scaling policy",
        plural="scaling policies",
        name_title="policy name",
        id_member="PolicyId",
        arn_member="PolicyARN",
        name_member="PolicyName",
        output="ScalingPolicies",
        arn_kind="scalingPolicy",
        arn_name="policyName",
        most=50,
    )
    hidden = ("PolicyId",)

    def of_type(self, resource: str, policy_type: str) -> list[Record]:
        """Those of a target that have this PolicyType."""
        return [policy for policy in self.of(resource) if policy["PolicyType"] == policy_type]

    def by_arn(self, arn: str) -> Record | None:
        """The policy that an alarm's action names."""
        policies = self._records.values()
        return next((policy for policy in policies if policy["PolicyARN"] == arn), None)

    async def put(self, call: Call) -> Mapping[str, Any]:
        """PutScalingPolicy: a new one, or another configuration of one that is there."""
        resource, name = str(read_resource(call.members)), call.members["PolicyName"]
        self._targets.get(resource)
        before = self._find(resource, name)
        policy_type, config = _configuration(call.members, before)
        policy = before or self._make(resource, name, call.region)
        if policy_type == TRACKING:
            _check_alone(config, [other for other in self.of(resource) if other is not before])
        policy = {
            **{key: value for key, value in policy.items() if key not in _CONFIGS.values()},
            "PolicyType": policy_type,
            _CONFIGS[policy_type]: config,
            "Alarms": _alarms(policy, policy_type, config, call.region),
        }
        self._keep(policy)
        return {"PolicyARN": policy["PolicyARN"], "Alarms": policy["Alarms"]}


def tracking_of(policy: Mapping[str, Any]) -> Tracking:
    """The rule of a target-tracking policy."""
    config = config_of(policy)
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
    names = (str(alarm["AlarmName"]) for alarm in policy.get("Alarms", ()))
    return next((name for name in names if f"-Alarm{side.value}-" in name), "")


def _configuration(
    members: Mapping[str, Any], before: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any]]:
    """Type and configuration that a call leaves. Raises ServiceError."""
    # StepScaling is what the service took where none was given.
    policy_type = members.get("PolicyType") or (before["PolicyType"] if before else STEPS)
    member = _CONFIGS.get(policy_type)
    if member is None:
        raise ServiceError(
            f"PolicyType is {policy_type}: here {TRACKING} and {STEPS} are carried out for "
            f"{NAMESPACE}."
        )
    config = members.get(member) or (before or {}).get(member)
    if config is None:
        raise ServiceError(f"{member} must be specified for a policy of type {policy_type}")
    if policy_type == STEPS:
        check_steps(config)
    else:
        _check_tracking(config)
    return policy_type, config


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
        its_config = other.get(_CONFIGS[TRACKING])
        if its_config and all(its_config.get(name) == config.get(name) for name in members):
            # The service's own words.
            raise ServiceError(
                "Only one TargetTrackingScaling policy for a given metric specification is allowed."
            )


def _alarms(
    policy: Mapping[str, Any], policy_type: str, config: Mapping[str, Any], region: str
) -> list[dict[str, str]]:
    """Of a target-tracking policy those that AWS makes; they stay while it is changed."""
    if policy_type == STEPS:
        return []
    alarms = []
    for side in [Side.HIGH] if config.get("DisableScaleIn") else [Side.HIGH, Side.LOW]:
        new = f"TargetTracking-{policy['ResourceId']}-Alarm{side.value}-{uuid.uuid4()}"
        name = alarm_name(policy, side) or new
        arn = f"arn:aws:cloudwatch:{region}:{ACCOUNT}:alarm:{name}"
        alarms.append({"AlarmName": name, "AlarmARN": arn})
    return alarms


class ScheduledActions(_OfTargets):
    """Scheduled actions. Next: when an action is due, platform seconds."""

    kind = ResourceKind(
        singular="scheduled action",
        plural="scheduled actions",
        name_title="scheduled action name",
        id_member="ActionId",
        arn_member="ScheduledActionARN",
        name_member="ScheduledActionName",
        output="ScheduledActions",
        arn_kind="scheduledAction",
        arn_name="scheduledActionName",
        most=200,
    )
    hidden = ("ActionId", "Next")

    def restore(self) -> None:
        """Schedule anew: actions that were due while nothing ran are not made up for."""
        for action in self._records.values():
            self._keep(_plan(action, self._clock.now()))

    def due(self, now: float) -> Iterator[Record]:
        """Those whose time has come, each once: their next time is set."""
        for action in self._records.values():
            if action.get("Next", math.inf) <= now:
                planned = _plan(action, now)
                self._keep(planned)
                yield planned

    async def put(self, call: Call) -> Mapping[str, Any]:
        """PutScheduledAction: a new one, or changes of one that is there."""
        members, name = call.members, call.members["ScheduledActionName"]
        resource = str(read_resource(members))
        self._targets.get(resource)
        action = self._find(resource, name) or self._make(resource, name, call.region)
        given = ("Schedule", "Timezone", "ScalableTargetAction", "StartTime", "EndTime")
        action = {**action, **{key: members[key] for key in given if members.get(key) is not None}}
        _check(action)
        action = _plan(action, self._clock.now())
        if "Next" not in action and isinstance(_schedule(action), Once):
            raise ServiceError(f"Schedule {action['Schedule']} is in the past.")
        self._keep(action)
        return {}


def _check(action: Mapping[str, Any]) -> None:
    if not action.get("Schedule"):
        raise ServiceError("Schedule must be specified")
    bounds = action.get("ScalableTargetAction") or {}
    least, most = bounds.get("MinCapacity"), bounds.get("MaxCapacity")
    if least is None and most is None:
        # The service's own words (community-registry-extensions#255).
        raise ServiceError(
            "At least one of minimum capacity and maximum capacity should be provided"
        )
    check_bounds(least, most)
    start, end = action.get("StartTime"), action.get("EndTime")
    if start is not None and end is not None and end <= start:
        raise ServiceError("EndTime must be after StartTime")


def _schedule(action: Mapping[str, Any]) -> Schedule:
    anchor = action.get("StartTime", action["CreationTime"])
    return read_schedule(action["Schedule"], action.get("Timezone"), anchor)


def _plan(action: Mapping[str, Any], now: float) -> Record:
    """With its next time after now, within StartTime and EndTime; without one it is over."""
    planned = {key: value for key, value in action.items() if key != "Next"}
    # The very second of StartTime is a time of it.
    earliest = max(now, action.get("StartTime", now) - 1e-3)
    following = _schedule(action).after(earliest)
    if following is not None and following <= action.get("EndTime", following):
        planned["Next"] = following
    return planned


#: Of one variant, the last ones. AWS has them for six weeks.
_KEPT = 100
#: Variants whose activities are kept, also after they are gone.
_RESOURCES = 200


class Activities:
    """Scaling activities by resource. log: hears of those that change something."""

    def __init__(self, records: Records, clock: Clock, log: EventLog) -> None:
        self._records, self._clock, self._log = records, clock, log

    def restore(self) -> None:
        """End activities that were under way when the simulator ended: they are unfulfilled."""
        for record in self._records.values():
            cut = [it for it in record["Activities"] if it["StatusCode"] == "InProgress"]
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
        activities: list[Record] = record["Activities"]
        activity.update(EndTime=self._clock.now(), StatusCode=status, StatusMessage=message)
        before = activities[1] if len(activities) > 1 and activities[0] is activity else None
        if before is not None and status == "Failed" and _alike(before, activity):
            # Tried again every minute: told once.
            before["EndTime"] = activity["EndTime"]
            activities.remove(activity)
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

    def of(self, resource: str | None, not_scaled: bool = False) -> list[Record]:
        """Newest first; of all resources: None. not_scaled: those that did nothing, too."""
        records = self._records.values() if resource is None else (self._of(resource),)
        activities = [
            activity
            for record in records
            for activity in record["Activities"]
            if not_scaled or "NotScaledReasons" not in activity
        ]
        return sorted(activities, key=lambda activity: -activity["StartTime"])

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScalingActivities: newest first."""
        members = call.members
        not_scaled = bool(members.get("IncludeNotScaledActivities"))
        activities = self.of(members.get("ResourceId"), not_scaled)
        return _page("ScalingActivities", activities, members)

    def _keep(
        self, resource: str, description: str, cause: str, status: str, **more: Any
    ) -> Record:
        activity = {
            "ActivityId": str(uuid.uuid4()),
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
        target = parse_resource(activity["ResourceId"])
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
