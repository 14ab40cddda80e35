"""The endpoint as a CloudFormation template.

CloudFormation replaces a resource by making the new one before it removes the old one, and two
cannot have one name. So models, configurations and alarms get names from CloudFormation. Only the
endpoint, which is updated in place, has its own, by which callers know it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.archives.aliases import read_place
from deploy.config.sections import Config
from deploy.desired.monitoring import ENDPOINT_TAG, make_alarm_prefix
from deploy.desired.requests import Facts, Members, Wanted, make_wanted
from deploy.documents.iam import OF_STACK
from deploy.documents.policies import make_role_policy, make_trust_policy

CONTAINER_METRICS = "ContainerMetricsConfig"


@dataclass(frozen=True)
class LeftOut:
    """member: with the resource's property that it would be in. instead: what happens now."""

    resource: str
    member: str
    instead: str

    def __str__(self) -> str:
        return f"{self.resource} has no {self.member} in CloudFormation: {self.instead}"


def find_left_out(wanted: Wanted) -> tuple[LeftOut, ...]:
    """Those that are wanted; the same ones are gone from make_container's."""
    config = wanted.model["PrimaryContainer"].get(CONTAINER_METRICS)
    if config is None:
        return ()
    (endpoint,) = config["MetricsEndpoints"]
    path = endpoint["MetricsEndpointPath"]
    seconds = endpoint["MetricPublishFrequencyInSeconds"]
    return (
        LeftOut(
            "AWS::SageMaker::Model",
            f"PrimaryContainer.{CONTAINER_METRICS}",
            f"{path} every {seconds} s is asked for, and SageMaker scrapes by its defaults, "
            "/metrics every 60 s",
        ),
    )


def without_left_out(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container as CloudFormation takes it."""
    return {name: value for name, value in container.items() if name != CONTAINER_METRICS}


#: Names in a template are letters and digits.
_LOGICAL = re.compile(r"[^a-zA-Z0-9]+")


def ref(name: str) -> dict[str, str]:
    """A parameter's value, or a resource's main name."""
    return {"Ref": name}


def attribute(resource: str, name: str) -> dict[str, list[str]]:
    """Of a resource."""
    return {"Fn::GetAtt": [resource, name]}


def logical_name(words: str) -> str:
    """Such as AlarmErrors5xx for alarm-errors-5xx."""
    return "".join(word[:1].upper() + word[1:] for word in _LOGICAL.split(words))


def fill_in(value: Any) -> Any:
    """Strings that have AWS's variables, within anything, as CloudFormation fills them in."""
    if isinstance(value, str):
        return {"Fn::Sub": value} if "${AWS::" in value else value
    if isinstance(value, Mapping):
        return {name: fill_in(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [fill_in(one) for one in value]
    return value


IMAGE, MODEL_DATA, ROLE = "Image", "ModelDataUrl", "ExecutionRoleArn"
MODEL, CONFIGURATION, ENDPOINT = "Model", "EndpointConfiguration", "Endpoint"
TARGET, POLICY, MADE_ROLE = "ScalableTarget", "ScalingPolicy", "ExecutionRole"
Resources = dict[str, dict[str, Any]]


def make_resources(wanted: Wanted, config: Config, *, with_role: bool) -> Resources:
    """All of them, by their names in the template."""
    role = attribute(MADE_ROLE, "Arn") if with_role else ref(ROLE)
    return {
        **(_make_role(wanted, config) if with_role else {}),
        MODEL: _make_model(wanted, config, role),
        CONFIGURATION: _make_configuration(wanted),
        **{
            _name_alarm(wanted, alarm): _resource(
                "AWS::CloudWatch::Alarm", _without(alarm, "AlarmName")
            )
            for alarm in wanted.alarms
        },
        ENDPOINT: _make_endpoint(wanted),
        **_make_scaling(wanted),
    }


def _make_role(wanted: Wanted, config: Config) -> Resources:
    properties = {
        "Description": f"What SageMaker does in the name of the endpoint {wanted.endpoint_name}",
        "AssumeRolePolicyDocument": make_trust_policy(),
        # In the role itself: it has its rights as soon as it is there.
        "Policies": [
            {"PolicyName": "serve", "PolicyDocument": fill_in(make_role_policy(config, OF_STACK))}
        ],
        "Tags": _make_tags(wanted),
    }
    return {MADE_ROLE: _resource("AWS::IAM::Role", properties)}


def _make_model(wanted: Wanted, config: Config, role: Any) -> dict[str, Any]:
    container = {
        **without_left_out(wanted.model["PrimaryContainer"]),
        "Image": ref(IMAGE),
    }
    if config.endpoint.single_model is not None:
        container["ModelDataUrl"] = ref(MODEL_DATA)
    properties = {
        **_without(wanted.model, "ModelName"),
        "PrimaryContainer": container,
        "ExecutionRoleArn": role,
        "Tags": _make_tags(wanted),
    }
    return _resource("AWS::SageMaker::Model", properties)


def _make_configuration(wanted: Wanted) -> dict[str, Any]:
    variants = [
        {**variant, "ModelName": attribute(MODEL, "ModelName")}
        for variant in wanted.endpoint_config["ProductionVariants"]
    ]
    properties = {
        **_without(wanted.endpoint_config, "EndpointConfigName"),
        "ProductionVariants": variants,
        "Tags": _make_tags(wanted),
    }
    return _resource("AWS::SageMaker::EndpointConfig", properties)


def _make_endpoint(wanted: Wanted) -> dict[str, Any]:
    deployment = dict(wanted.deployment)
    if "AutoRollbackConfiguration" in deployment:
        logical = {alarm["AlarmName"]: _name_alarm(wanted, alarm) for alarm in wanted.alarms}
        alarms = deployment["AutoRollbackConfiguration"]["Alarms"]
        deployment["AutoRollbackConfiguration"] = {
            "Alarms": [{"AlarmName": ref(logical[alarm["AlarmName"]])} for alarm in alarms]
        }
    properties: dict[str, Any] = {
        "EndpointName": wanted.endpoint_name,
        "EndpointConfigName": attribute(CONFIGURATION, "EndpointConfigName"),
        "DeploymentConfig": deployment,
        "Tags": _make_tags(wanted),
    }
    if wanted.target is not None:
        # An update leaves as many instances as autoscaling has made of them.
        properties["RetainAllVariantProperties"] = True
    return _resource("AWS::SageMaker::Endpoint", properties)


def _make_scaling(wanted: Wanted) -> Resources:
    """Nothing in their members leads to the endpoint, or to each other: the order is said."""
    if wanted.target is None or wanted.policy is None:
        return {}
    target = _resource("AWS::ApplicationAutoScaling::ScalableTarget", wanted.target)
    policy = _resource("AWS::ApplicationAutoScaling::ScalingPolicy", wanted.policy)
    return {
        TARGET: {**target, "DependsOn": ENDPOINT},
        POLICY: {**policy, "DependsOn": TARGET},
    }


def _make_tags(wanted: Wanted) -> list[Members]:
    """Without the tag by which `up` and `down` know their own: this endpoint is the stack's."""
    return [tag for tag in wanted.tags if tag["Key"] != ENDPOINT_TAG]


def _name_alarm(wanted: Wanted, alarm: Members) -> str:
    name = alarm["AlarmName"].removeprefix(make_alarm_prefix(wanted.endpoint_name))
    return logical_name(f"alarm-{name}")


def _resource(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Without empty lists, which say nothing."""
    return {
        "Type": kind,
        "Properties": {name: value for name, value in properties.items() if value != []},
    }


def _without(members: Members, name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


#: In the place of an archive that is a parameter; it is nowhere in the template.
_PARAMETER = "s3://parameter"


@dataclass(frozen=True)
class Rendered:
    """left_out: what CONFIG.toml asks for and the template does not have."""

    template: dict[str, Any]
    left_out: tuple[LeftOut, ...]


def render(config: Config, *, with_role: bool) -> Rendered:
    """Pure. with_role: the execution role is made by the template, too."""
    place, single = read_place(config.endpoint.archives), config.endpoint.single_model
    url = place.archives_url if single is None else _PARAMETER
    wanted = make_wanted(config, Facts(config.endpoint.image, url))
    left_out = find_left_out(wanted)
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The SageMaker endpoint {wanted.endpoint_name}",
        "Metadata": {
            "MadeBy": "python -m deploy render",
            "LeftOut": [str(one) for one in left_out],
            "Names": "CloudFormation names all but the endpoint: what has a name of its own it "
            "cannot replace",
        },
        "Parameters": _make_parameters(config, with_role=with_role),
        "Resources": make_resources(wanted, config, with_role=with_role),
        "Outputs": {
            "EndpointName": {
                "Description": "What InvokeEndpoint asks for",
                "Value": attribute(ENDPOINT, "EndpointName"),
            },
            "EndpointArn": {
                "Description": "What policies of callers name",
                "Value": ref(ENDPOINT),
            },
        },
    }
    return Rendered(template, left_out)


def _make_parameters(config: Config, *, with_role: bool) -> dict[str, Any]:
    endpoint = config.endpoint
    parameters: dict[str, Any] = {
        IMAGE: {
            "Type": "String",
            "Default": endpoint.image,
            "Description": "With its digest (REPOSITORY@sha256:...): under a tag that has moved, "
            "nothing is deployed anew",
        }
    }
    if endpoint.single_model is not None:
        parameters[MODEL_DATA] = {
            "Type": "String",
            "AllowedPattern": r"s3://.+\.tar\.gz",
            "Description": f"The archive of {endpoint.single_model}, as `put` printed it",
        }
    if not with_role:
        parameters[ROLE] = {
            "Type": "String",
            "Default": endpoint.role,
            "Description": "Whose rights the instances have",
        }
    return parameters
