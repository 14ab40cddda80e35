"""The configuration that an endpoint has, against the one that CONFIG.toml wants.

What one may not read is not compared, and noted; the rest is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.aws.account import Account
from deploy.config.config import Config
from deploy.endpoint.facts import find_facts
from deploy.errors import DeployError
from deploy.status.differences import find_changes
from deploy.status.report import Change, ConfigurationPart, Missing
from deploy.status.scaling import Scaling
from deploy.wanted.wanted import Wanted, make_wanted

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
