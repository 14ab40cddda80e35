"""Compare the endpoint that there is with the one that CONFIG.toml asks for. No I/O.

AWS adds members of its own to what it was given, so only members that `up` would send are compared.
A part that may not be read is not compared, which is noted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_deploy.desired import Desired, Members
from merlin_deploy.endpoint.state import desired_count, variant_of
from merlin_deploy.status.report import Activity, Change, ConfigurationPart, Missing

#: Names that are digests of a content: the differences inside are told.
_CONTENT_NAMES = ("ModelName", "EndpointConfigName")
#: Its values may be secrets, so they are not shown.
_ENVIRONMENT = "Environment"
_HIDDEN = "…"
#: A request leaves these out if they are not desired: if AWS has one, `up` takes it away.
_LEFT_OUT = (_ENVIRONMENT, "VpcConfig", "KmsKeyId", "VolumeSizeInGB", "InferenceAmiVersion")


@dataclass(frozen=True)
class Scaling:
    """Autoscaling as AWS describes it. target is None without autoscaling."""

    target: Members | None
    policies: Sequence[Members]
    activities: tuple[Activity, ...]


@dataclass(frozen=True)
class Present:
    """The endpoint as AWS describes it. config and model are None if they were deleted."""

    endpoint: Members
    config: Members | Missing | None
    model: Members | Missing | None
    tags: Mapping[str, str] | Missing
    scaling: Scaling | Missing
    alarms: Sequence[Members] | Missing

    @property
    def variant(self) -> Members:
        """The configuration's one variant; empty if that is not known."""
        return {} if isinstance(self.config, Missing) else variant_of(self.config)


def compare(present: Present, desired: Desired | None, notes: Sequence[str]) -> ConfigurationPart:
    """desired: None if it is not known. notes: those that there are already."""
    parts = {
        "the configuration": present.config,
        "the model": present.model,
        "tags": present.tags,
        "autoscaling": present.scaling,
        "alarms": present.alarms,
    }
    not_compared = [
        f"{what}: not compared: {part.missing}"
        for what, part in parts.items()
        if isinstance(part, Missing)
    ]
    changes = () if desired is None else tuple(_list_changes(present, desired))
    images = variant_of(present.endpoint).get("DeployedImages") or [{}]
    return ConfigurationPart(
        name=present.endpoint["EndpointConfigName"],
        wanted_name=None if desired is None else desired.config_name,
        is_wanted=None if desired is None else not changes,
        changes=changes,
        notes=(*notes, *not_compared),
        image=images[0].get("ResolvedImage") or images[0].get("SpecifiedImage"),
        instance_type=present.variant.get("InstanceType"),
    )


def _list_changes(present: Present, desired: Desired) -> Iterator[Change]:
    if present.endpoint["EndpointConfigName"] != desired.config_name:
        yield from _compare_hosting(present, desired)
    elif desired.target is None:  # without autoscaling the count is the file's, whoever changed it
        now = desired_count(present.endpoint)
        count = variant_of(desired.endpoint_config)["InitialInstanceCount"]
        if now not in (count, None):
            yield Change("instances", str(now), str(count))
    if not isinstance(present.tags, Missing):
        for tag in desired.tags:
            if (value := present.tags.get(tag["Key"])) != tag["Value"]:
                yield Change(f"tag {tag['Key']}", value, tag["Value"])
    if not isinstance(present.scaling, Missing):
        yield from _compare_scaling(present.scaling, desired)
    if not isinstance(present.alarms, Missing):
        alarms = {alarm["AlarmName"]: alarm for alarm in present.alarms}
        for alarm in desired.alarms:
            name = alarm["AlarmName"]
            yield from find_changes(f"alarm {name}", alarms.pop(name, None), alarm)
        for name, alarm in alarms.items():
            yield from find_changes(f"alarm {name}", alarm, None)


def _compare_hosting(present: Present, desired: Desired) -> Iterator[Change]:
    """A model of the desired name has the desired content: it is not looked into."""
    changes: list[Change] = []
    if isinstance(present.config, Mapping):
        changes += find_changes("configuration", present.config, desired.endpoint_config)
    if isinstance(present.model, Mapping) and present.model["ModelName"] != desired.model_name:
        changes += find_changes("model", present.model, desired.model)
    names = present.endpoint["EndpointConfigName"], desired.config_name
    yield from changes or [Change("configuration", *names)]


def _compare_scaling(scaling: Scaling, desired: Desired) -> Iterator[Change]:
    yield from find_changes("autoscaling", scaling.target, desired.target)
    if desired.policy is not None and scaling.target is not None:
        policies = {policy["PolicyName"]: policy for policy in scaling.policies}
        present = policies.get(desired.policy["PolicyName"])
        yield from find_changes("autoscaling's policy", present, desired.policy)


def find_changes(what: str, present: Members | None, desired: Members | None) -> Iterator[Change]:
    """Differences of one request's members, each by its path. what: the beginning of the paths."""
    if desired is None:
        if present is not None:
            yield Change(what, "there", None)
    elif present is None:
        yield Change(what, None, "new")
    else:
        yield from _compare_members(what, present, desired)


def _compare_members(path: str, present: Members, desired: Members) -> Iterator[Change]:
    for name, value in desired.items():
        if name not in _CONTENT_NAMES:
            yield from _compare_values(f"{path} {name}", present.get(name), value)
    for name in _LEFT_OUT:
        if present.get(name) and name not in desired:
            yield from _compare_values(f"{path} {name}", present[name], None)


def _compare_values(path: str, present: Any, desired: Any) -> Iterator[Change]:
    if path.endswith(f" {_ENVIRONMENT}"):
        before, after = present or {}, desired or {}
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                hidden = [_HIDDEN if name in variables else None for variables in (before, after)]
                yield Change(f"{path} {name}", *hidden)
    elif isinstance(desired, Mapping) and isinstance(present, Mapping):
        yield from _compare_members(path, present, desired)
    elif _are_lists_of_members(present, desired):
        for number, (before, after) in enumerate(zip(present, desired, strict=True)):
            member = path if len(desired) == 1 else f"{path}[{number}]"
            yield from _compare_members(member, before, after)
    elif present != desired:
        yield Change(path, _show(present), _show(desired))


def _are_lists_of_members(present: Any, desired: Any) -> bool:
    return (
        isinstance(desired, Sequence)
        and isinstance(present, Sequence)
        and len(desired) == len(present)
        and all(isinstance(item, Mapping) for item in (*desired, *present))
    )


def _show(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_show(inner)}" for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
