"""Scalable targets: RegisterScalableTarget and what goes with it, and their tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from merlin_simulator.control.autoscaling.listing import about_variants, answer, described
from merlin_simulator.control.autoscaling.names import (
    DIMENSION,
    NAMESPACE,
    ResourceNotFound,
    TooManyTags,
    VariantId,
    linked_role,
    make_id,
    no_target,
    read_resource,
    target_arn,
)
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records
from merlin_simulator.control.sagemaker.names import make_arn, not_found

_SUSPENDED = (
    "DynamicScalingInSuspended",
    "DynamicScalingOutSuspended",
    "ScheduledScalingSuspended",
)
_OURS = ("Tags", "Past")
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
        return described(self.all(), _OURS)

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
        members, found = call.members, list[Record]()
        if about_variants(members):
            wanted = members.get("ResourceIds")
            found = [one for one in self.all() if not wanted or one["ResourceId"] in wanted]
        return answer("ScalableTargets", found, members, _OURS)

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
        for which, words in (("MinCapacity", "Minimum"), ("MaxCapacity", "Maximum")):
            if members.get(which) is None:
                raise ServiceError(f"{words} capacity must be specified")
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
