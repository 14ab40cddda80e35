"""Compare the endpoint that there is with the one that CONFIG.toml asks for.

AWS adds members of its own to what it was given, so only members that `up` would send are compared.
A part that may not be read is not compared, which is noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.aws.account import Account
from deploy.config.sections import Config
from deploy.desired.monitoring import DIMENSION, NAMESPACE, make_resource_id
from deploy.desired.requests import Members, Wanted, make_wanted
from deploy.endpoint.facts import find_facts
from deploy.endpoint.resources import find_policies, find_target
from deploy.errors import DeployError
from deploy.status.report import Activity, Change, ConfigurationPart, InstancesPart, Missing

_SERVICE = "application-autoscaling"
#: The last ones, on one screen.
_ACTIVITIES = 3


@dataclass(frozen=True)
class Scaling:
    """As AWS describes it; target None: there is no autoscaling."""

    target: Mapping[str, Any] | None
    policies: Sequence[Mapping[str, Any]]
    activities: tuple[Activity, ...]

    @property
    def alarms(self) -> int:
        """How many autoscaling made for itself."""
        return sum(len(policy.get("Alarms", ())) for policy in self.policies)


def find_scaling(account: Account, name: str) -> Scaling:
    """Activities are told of a target that is gone, too. Raises DeployError."""
    target = find_target(account, name)
    policies = [] if target is None else find_policies(account, name)
    return Scaling(target, policies, _find_activities(account, name))


def make_instances(description: Mapping[str, Any], scaling: Scaling | Missing) -> InstancesPart:
    """description: DescribeEndpoint's."""
    variant = (description.get("ProductionVariants") or [{}])[0]
    now, wanted = variant.get("CurrentInstanceCount"), variant.get("DesiredInstanceCount")
    if isinstance(scaling, Missing):
        return InstancesPart(now, wanted, missing=scaling.missing)
    bounds = scaling.target or {}
    return InstancesPart(
        now, wanted, bounds.get("MinCapacity"), bounds.get("MaxCapacity"), scaling.activities
    )


def _find_activities(account: Account, name: str) -> tuple[Activity, ...]:
    """Newest first, those that did not scale with their reasons."""
    found = account.ask(
        _SERVICE,
        "DescribeScalingActivities",
        ServiceNamespace=NAMESPACE,
        ResourceId=make_resource_id(name),
        ScalableDimension=DIMENSION,
        MaxResults=_ACTIVITIES,
        IncludeNotScaledActivities=True,
    )
    return tuple(
        Activity(
            at=one["StartTime"],
            status=one["StatusCode"],
            description=one["Description"],
            cause=one["Cause"],
            message=_message(one),
        )
        for one in found["ScalingActivities"]
    )


def _message(activity: Mapping[str, Any]) -> str | None:
    reasons = ", ".join(str(one["Code"]) for one in activity.get("NotScaledReasons", ()))
    return reasons or activity.get("StatusMessage")


#: Names that say their content: what differs inside is told in their place.
_CONTENT_NAMES = ("ModelName", "EndpointConfigName")
#: Its values may be secrets: they are not shown.
_ENVIRONMENT = "Environment"
_HIDDEN = "…"
#: What a request leaves out when it is not wanted: found in AWS, it goes.
_LEFT_OUT = (_ENVIRONMENT, "VpcConfig", "KmsKeyId", "VolumeSizeInGB", "InferenceAmiVersion")


def find_changes(what: str, present: Members | None, wanted: Members | None) -> Iterator[Change]:
    """Of one request's members, each by its path; what: the thing that they are of."""
    if wanted is None:
        if present is not None:
            yield Change(what, "there", None)
    elif present is None:
        yield Change(what, None, "new")
    else:
        yield from _compare_members(what, present, wanted)


def _compare_members(path: str, present: Members, wanted: Members) -> Iterator[Change]:
    for name, value in wanted.items():
        if name not in _CONTENT_NAMES:
            yield from _compare_values(f"{path} {name}", present.get(name), value)
    for name in _LEFT_OUT:
        if present.get(name) and name not in wanted:
            yield from _compare_values(f"{path} {name}", present[name], None)


def _compare_values(path: str, present: Any, wanted: Any) -> Iterator[Change]:
    if path.endswith(f" {_ENVIRONMENT}"):
        yield from _compare_environments(path, present or {}, wanted or {})
    elif isinstance(wanted, Mapping) and isinstance(present, Mapping):
        yield from _compare_members(path, present, wanted)
    elif _are_lists_of_members(present, wanted):
        for number, (one, other) in enumerate(zip(present, wanted, strict=True)):
            yield from _compare_members(
                path if len(wanted) == 1 else f"{path}[{number}]", one, other
            )
    elif present != wanted:
        yield Change(path, _shown(present), _shown(wanted))


def _compare_environments(
    path: str, present: Mapping[str, str], wanted: Mapping[str, str]
) -> Iterator[Change]:
    for name in sorted({*present, *wanted}):
        now, then = present.get(name), wanted.get(name)
        if now != then:
            yield Change(
                f"{path} {name}",
                None if now is None else _HIDDEN,
                None if then is None else _HIDDEN,
            )


def _are_lists_of_members(present: Any, wanted: Any) -> bool:
    return (
        isinstance(wanted, Sequence)
        and isinstance(present, Sequence)
        and len(wanted) == len(present)
        and all(isinstance(one, Mapping) for one in (*wanted, *present))
    )


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)


Described = Mapping[str, Any]


@dataclass(frozen=True)
class Present:
    """What AWS has, as it describes it."""

    endpoint: Described
    config: Described | Missing | None
    model: Described | Missing | None
    tags: Mapping[str, str] | Missing
    scaling: Scaling | Missing
    alarms: Sequence[Described] | Missing

    @property
    def variant(self) -> Described:
        """Of the configuration; empty where that is not known."""
        return _variant_of(self.config)


def find_config(account: Account, endpoint: Described) -> Described | None:
    """DescribeEndpointConfig's answer; None where it was deleted. Raises DeployError."""
    name = endpoint["EndpointConfigName"]
    return account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=name)


def find_model(account: Account, config: Described | Missing | None) -> Described | None:
    """DescribeModel's answer; None where it was deleted, or is not known. Raises DeployError."""
    name = _variant_of(config).get("ModelName")
    return None if name is None else account.find("sagemaker", "DescribeModel", ModelName=name)


def find_wanted(account: Account, config: Config, notes: list[str]) -> Wanted | None:
    """What `up` would want now; None, and a note, where that takes what may not be read."""
    try:
        return make_wanted(config, find_facts(account, config, notes.append))
    except DeployError as error:
        notes.append(f"what CONFIG.toml wants is not known: {error}")
        return None


def compare(present: Present, wanted: Wanted | None, notes: Sequence[str]) -> ConfigurationPart:
    """No I/O. notes: those there are already."""
    parts = {
        "the configuration": present.config,
        "the model": present.model,
        "tags": present.tags,
        "autoscaling": present.scaling,
        "alarms": present.alarms,
    }
    missing = [
        f"{what}: not compared: {part.missing}"
        for what, part in parts.items()
        if isinstance(part, Missing)
    ]
    changes = () if wanted is None else tuple(_find_changes(present, wanted))
    return ConfigurationPart(
        name=present.endpoint["EndpointConfigName"],
        wanted_name=None if wanted is None else wanted.config_name,
        is_wanted=None if wanted is None else not changes,
        changes=changes,
        notes=(*notes, *missing),
        image=_image_of(present.endpoint),
        instance_type=present.variant.get("InstanceType"),
    )


def _find_changes(present: Present, wanted: Wanted) -> Iterator[Change]:
    if present.endpoint["EndpointConfigName"] == wanted.config_name:
        yield from _of_count(present.endpoint, wanted)
    else:
        yield from _of_hosting(present, wanted)
    if not isinstance(present.tags, Missing):
        yield from _of_tags(present.tags, wanted)
    if not isinstance(present.scaling, Missing):
        yield from _of_scaling(present.scaling, wanted)
    if not isinstance(present.alarms, Missing):
        yield from _of_alarms(present.alarms, wanted)


def _of_hosting(present: Present, wanted: Wanted) -> Iterator[Change]:
    """Names say the content: a model of the name that is wanted is not looked into."""
    found: list[Change] = []
    if isinstance(present.config, Mapping):
        found += find_changes("configuration", present.config, wanted.endpoint_config)
    if isinstance(present.model, Mapping) and present.model["ModelName"] != wanted.model_name:
        found += find_changes("model", present.model, wanted.model)
    names = present.endpoint["EndpointConfigName"], wanted.config_name
    yield from found or [Change("configuration", *names)]


def _of_count(endpoint: Described, wanted: Wanted) -> Iterator[Change]:
    """Without autoscaling the count is the file's, whoever has changed it."""
    now = (endpoint.get("ProductionVariants") or [{}])[0].get("DesiredInstanceCount")
    then = wanted.endpoint_config["ProductionVariants"][0]["InitialInstanceCount"]
    if wanted.target is None and now not in (then, None):
        yield Change("instances", str(now), str(then))


def _of_tags(tags: Mapping[str, str], wanted: Wanted) -> Iterator[Change]:
    for tag in wanted.tags:
        if (now := tags.get(tag["Key"])) != tag["Value"]:
            yield Change(f"tag {tag['Key']}", now, tag["Value"])


def _of_scaling(scaling: Scaling, wanted: Wanted) -> Iterator[Change]:
    yield from find_changes("autoscaling", scaling.target, wanted.target)
    if wanted.policy is not None and scaling.target is not None:
        policies = {policy["PolicyName"]: policy for policy in scaling.policies}
        present = policies.get(wanted.policy["PolicyName"])
        yield from find_changes("autoscaling's policy", present, wanted.policy)


def _of_alarms(alarms: Sequence[Described], wanted: Wanted) -> Iterator[Change]:
    present = {alarm["AlarmName"]: alarm for alarm in alarms}
    for alarm in wanted.alarms:
        name = alarm["AlarmName"]
        yield from find_changes(f"alarm {name}", present.pop(name, None), alarm)
    for name, alarm in present.items():
        yield from find_changes(f"alarm {name}", alarm, None)


def _image_of(endpoint: Described) -> str | None:
    variant = (endpoint.get("ProductionVariants") or [{}])[0]
    image: Described = next(iter(variant.get("DeployedImages") or ()), {})
    return image.get("ResolvedImage") or image.get("SpecifiedImage")


def _variant_of(config: Described | Missing | None) -> Described:
    if not isinstance(config, Mapping):
        return {}
    variant: Described = config["ProductionVariants"][0]
    return variant
