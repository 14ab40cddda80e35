"""Choices that contradict one another, and bounds of AWS's on more than one value."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ensemble_tools.shipping import FORMER_SETTINGS
from merlin_deploy.config.container_settings import RESERVE, SETTINGS
from merlin_deploy.config.sections import (
    AlarmsSection,
    AutoscalingSection,
    ContainerSection,
    DeploymentSection,
    EndpointSection,
    InstancesSection,
    MetricsSection,
    NetworkSection,
)
from merlin_deploy.config.values import MOST_IMAGE, show, show_name

#: The path to a choice, and a sentence about it.
Contradiction = tuple[tuple[str, ...], str]
#: CreateModel, Environment: entries; characters of each name and value; bytes of all together.
MOST_VARIABLES, MOST_VARIABLE, MOST_ENVIRONMENT = 100, 1024, 32 * 1024
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: CreateModel, Tags: all of them, those that `up` adds itself among them; characters.
MOST_TAGS, MOST_TAG_NAME, MOST_TAG_VALUE = 50 - 3, 128, 256
#: Tags of AWS's own, and of `up`'s.
_RESERVED = {"aws:": "AWS's", "deploy:": "`up`'s"}
#: Tags may have Unicode's letters, digits and separators: its categories.
_TAG_KINDS, _TAG_SIGNS = ("L", "N", "Z"), "_.:/=+-@"
#: Of an image by its digest, characters before that.
_MOST_REPOSITORY = MOST_IMAGE - len("@sha256:") - 64
_OURS, _NEAR = "SERVE_", 0.8
#: EC2's: T and a number.
_BURSTABLE = re.compile(r"ml\.t\d")
#: TrafficRoutingConfig, LinearStepSize: 10 to 50 % of the instances.
_LEAST_LINEAR = 10
#: Settings of the container without which there is no share of unseen values.
_NEEDED_FOR_UNSEEN = ("SERVE_METRICS", "SERVE_FEATURE_METRICS")


def find_contradictions(
    sections: Mapping[str, Any], tags: Mapping[str, str]
) -> Iterator[Contradiction]:
    """sections: those that could be read, by their names."""
    for names, check in _CHECKS:
        if all(name in sections for name in names):
            yield from check(*(sections[name] for name in names))
    yield from _check_tags(tags)


def _check_image(endpoint: EndpointSection) -> Iterator[Contradiction]:
    if (length := len(endpoint.image.repository_uri)) > _MOST_REPOSITORY:
        yield (
            ("endpoint", "image"),
            f"endpoint.image: found {length} characters before the tag, expected at most "
            f"{_MOST_REPOSITORY}: its digest comes behind; take a shorter repository",
        )


def _check_network(network: NetworkSection) -> Iterator[Contradiction]:
    if bool(network.subnets) != bool(network.security_groups):
        present = "subnets" if network.subnets else "security_groups"
        yield (
            ("network", present),
            "subnets and security_groups are given together or not at all",
        )


def _check_counts(
    instances: InstancesSection, scaling: AutoscalingSection | None
) -> Iterator[Contradiction]:
    if scaling is None:
        return
    if scaling.min > scaling.max:
        yield (
            ("autoscaling", "min"),
            f"autoscaling.min is {scaling.min}, more than autoscaling.max, which is {scaling.max}",
        )
    elif not scaling.min <= instances.count <= scaling.max:
        yield (
            ("instances", "count"),
            f"instances.count is {instances.count}, expected a number from autoscaling.min to "
            f"autoscaling.max ({scaling.min} to {scaling.max})",
        )


def _check_burstable(
    instances: InstancesSection, scaling: AutoscalingSection | None
) -> Iterator[Contradiction]:
    # RegisterScalableTarget would refuse them once the endpoint is there. ml.trn1 is not burstable.
    if scaling is not None and _BURSTABLE.match(instances.type):
        yield (
            ("instances", "type"),
            f"instances.type is {instances.type}: AWS scales no burstable instances; take another "
            "type, or leave [autoscaling] out",
        )


def _check_cache(endpoint: EndpointSection, container: ContainerSection) -> Iterator[Contradiction]:
    if not container.model_cache and endpoint.single_model:
        yield (
            ("container", "model_cache"),
            "model_cache is about multi-model endpoints, and endpoint.single_model is given",
        )


def _check_traffic(deployment: DeploymentSection) -> Iterator[Contradiction]:
    if deployment.traffic == "linear" and deployment.step_percent < _LEAST_LINEAR:
        yield (
            ("deployment", "step_percent"),
            f"deployment.step_percent is {deployment.step_percent}, expected {_LEAST_LINEAR} to 50 "
            'where deployment.traffic is "linear"',
        )


def _check_unseen(
    alarms: AlarmsSection, metrics: MetricsSection, container: ContainerSection
) -> Iterator[Contradiction]:
    """The alarm needs numbers that somebody counts, and somebody reads."""
    variables = container.environment or {}
    needed = {
        "metrics.detailed is false": not metrics.detailed,
        **{f"{name} is off": variables.get(name) == "off" for name in _NEEDED_FOR_UNSEEN},
    }
    if alarms.unseen_above_percent is not None and any(needed.values()):
        reason = next(sentence for sentence, is_so in needed.items() if is_so)
        yield (
            ("alarms", "unseen_above_percent"),
            f"alarms.unseen_above_percent is given, and {reason}: nobody would know the share",
        )


def _check_environment(container: ContainerSection) -> Iterator[Contradiction]:
    variables = dict(container.environment or {})
    here = ("container", "environment")
    for name, value in variables.items():
        if wrong := _wrong_variable(name, value):
            yield (*here, name), f"container.environment: {wrong}"
    if container.memory_reserve_mb is not None:
        if RESERVE in variables:
            yield (*here, RESERVE), f"{RESERVE} and memory_reserve_mb are both given"
        variables[RESERVE] = str(container.memory_reserve_mb)
    if len(variables) > MOST_VARIABLES:
        yield here, f"found {len(variables)} variables, expected at most {MOST_VARIABLES}"
    size = sum(len(f"{name}{value}".encode()) for name, value in variables.items())
    if size > MOST_ENVIRONMENT:
        yield here, f"found {size} bytes of variables, expected at most {MOST_ENVIRONMENT}"


def _wrong_variable(name: str, value: str) -> str | None:
    if name in ("SAGEMAKER_MULTI_MODEL", "SAGEMAKER_BIND_TO_PORT"):
        return f"{name} is SageMaker's own to set; leave it out"
    if not _VARIABLE.fullmatch(name):
        return f"found the name {show(name)}, expected letters, digits and _, no digit first"
    if instead := FORMER_SETTINGS.get(name.upper()):
        return f"{show_name(name)} is no setting any more: {instead}; leave it out"
    if name.upper().startswith(_OURS) and name not in SETTINGS:
        near = difflib.get_close_matches(name.upper(), SETTINGS, 1, _NEAR)
        meant = f"did you mean {near[0]}? " if near else ""
        return (
            f"found {show_name(name)}, which is no setting of the container; {meant}they are "
            f"{', '.join(SETTINGS)}; variables of your own begin otherwise"
        )
    for what, text in (("name", name), ("value", value)):
        if len(text.encode()) > MOST_VARIABLE:
            return (
                f"the {what} of {show(name)} has {len(text.encode())} bytes, expected at most "
                f"{MOST_VARIABLE}"
            )
    return f"the value of {name} has a NUL, which no variable can have" if "\0" in value else None


def _check_tags(tags: Mapping[str, str]) -> Iterator[Contradiction]:
    if len(tags) > MOST_TAGS:
        yield ("tags",), f"found {len(tags)} tags, expected at most {MOST_TAGS}"
    for name, value in tags.items():
        if wrong := _wrong_tag(name, value):
            yield ("tags", name), f"the tag {show(name)}: {wrong}"


def _wrong_tag(name: str, value: str) -> str | None:
    for prefix, whose in _RESERVED.items():
        if name.lower().startswith(prefix):
            return f"names that begin with {prefix} are {whose} own; take another one"
    if not 1 <= len(name) <= MOST_TAG_NAME:
        return f"found a name of {len(name)} characters, expected 1 to {MOST_TAG_NAME}"
    if len(value) > MOST_TAG_VALUE:
        return f"found a value of {len(value)} characters, expected at most {MOST_TAG_VALUE}"
    refused = sorted({sign for sign in name + value if not _may_be_in_tag(sign)})
    if refused:
        return f"found {show(''.join(refused))}, expected letters, digits, blanks and {_TAG_SIGNS}"
    return None


def _may_be_in_tag(character: str) -> bool:
    return unicodedata.category(character)[0] in _TAG_KINDS or character in _TAG_SIGNS


_CHECKS: tuple[tuple[tuple[str, ...], Callable[..., Iterator[Contradiction]]], ...] = (
    (("endpoint",), _check_image),
    (("network",), _check_network),
    (("instances", "autoscaling"), _check_counts),
    (("instances", "autoscaling"), _check_burstable),
    (("endpoint", "container"), _check_cache),
    (("deployment",), _check_traffic),
    (("container",), _check_environment),
    (("alarms", "metrics", "container"), _check_unseen),
)
