"""The endpoint as a CloudFormation template.

CloudFormation replaces a resource by making the new one before it removes the old one, and two
cannot have one name. So models, configurations and alarms get names from CloudFormation. Only the
endpoint, which is updated in place, has its own, by which callers know it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from merlin_deploy.archives.aliases import read_store
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import (
    ENDPOINT_TAG,
    Desired,
    Facts,
    Members,
    make_alarm_prefix,
    make_desired,
)
from merlin_deploy.policies import OF_STACK, make_role_policy, make_trust_policy

#: Names of parameters and resources in the template.
_IMAGE, _MODEL_DATA, _ROLE = "Image", "ModelDataUrl", "ExecutionRoleArn"
_MODEL, _CONFIGURATION, _ENDPOINT = "Model", "EndpointConfiguration", "Endpoint"
_TARGET, _POLICY, _MADE_ROLE = "ScalableTarget", "ScalingPolicy", "ExecutionRole"
#: A member of CreateModel that CloudFormation's resource does not have (yet). A test compares
#: cfn-lint's schemas, and fails once it has come.
_CONTAINER_METRICS = "ContainerMetricsConfig"
#: In the place of an archive that is a parameter; the template does not contain it.
_PARAMETER = "s3://parameter"
#: Names in a template are letters and digits.
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9]+")
_Resources = dict[str, dict[str, Any]]


def render(config: Config, *, with_role: bool) -> dict[str, Any]:
    """The template. Its metadata has sentences on what it lacks: LeftOut.

    with_role: the template makes the execution role, too.
    """
    store, single = read_store(config.endpoint.archives), config.endpoint.single_model
    url = store.archives_url if single is None else _PARAMETER
    desired = make_desired(config, Facts(str(config.endpoint.image), url))
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The SageMaker endpoint {desired.endpoint_name}",
        "Metadata": {
            "MadeBy": "python -m deploy render",
            "LeftOut": list(_list_left_out(desired)),
            "Names": "CloudFormation names all but the endpoint: what has a name of its own it "
            "cannot replace",
        },
        "Parameters": _make_parameters(config, with_role=with_role),
        "Resources": _make_resources(desired, config, with_role=with_role),
        "Outputs": {
            "EndpointName": {
                "Description": "What InvokeEndpoint asks for",
                "Value": _get_attribute(_ENDPOINT, "EndpointName"),
            },
            "EndpointArn": {
                "Description": "What policies of callers name",
                "Value": _refer(_ENDPOINT),
            },
        },
    }


def _list_left_out(desired: Desired) -> Iterator[str]:
    metrics = desired.model["PrimaryContainer"].get(_CONTAINER_METRICS)
    if metrics is None:
        return
    (endpoint,) = metrics["MetricsEndpoints"]
    path, seconds = endpoint["MetricsEndpointPath"], endpoint["MetricPublishFrequencyInSeconds"]
    yield (
        f"AWS::SageMaker::Model has no PrimaryContainer.{_CONTAINER_METRICS} in CloudFormation: "
        f"{path} every {seconds} s is asked for, and SageMaker scrapes by its defaults, /metrics "
        "every 60 s"
    )


def _make_parameters(config: Config, *, with_role: bool) -> dict[str, Any]:
    endpoint = config.endpoint
    parameters: dict[str, Any] = {
        _IMAGE: {
            "Type": "String",
            "Default": str(endpoint.image),
            "Description": "With its digest (REPOSITORY@sha256:...): under a tag that has moved, "
            "nothing is deployed anew",
        }
    }
    if endpoint.single_model is not None:
        parameters[_MODEL_DATA] = {
            "Type": "String",
            "AllowedPattern": r"s3://.+\.tar\.gz",
            "Description": f"The archive of {endpoint.single_model}, as `put` printed it",
        }
    if not with_role:
        parameters[_ROLE] = {
            "Type": "String",
            "Default": endpoint.role,
            "Description": "Whose rights the instances have",
        }
    return parameters


def _make_resources(desired: Desired, config: Config, *, with_role: bool) -> _Resources:
    resources = _make_role(desired, config) if with_role else {}
    role = _get_attribute(_MADE_ROLE, "Arn") if with_role else _refer(_ROLE)
    resources[_MODEL] = _make_model(desired, config, role)
    resources[_CONFIGURATION] = _make_configuration(desired)
    for alarm in desired.alarms:
        resources[_name_alarm(desired, alarm["AlarmName"])] = _make_resource(
            "AWS::CloudWatch::Alarm", _leave_out(alarm, "AlarmName")
        )
    resources[_ENDPOINT] = _make_endpoint(desired)
    if desired.target is not None and desired.policy is not None:
        # Their members do not refer to the endpoint or each other, so the order is said.
        target = _make_resource("AWS::ApplicationAutoScaling::ScalableTarget", desired.target)
        policy = _make_resource("AWS::ApplicationAutoScaling::ScalingPolicy", desired.policy)
        resources[_TARGET] = {**target, "DependsOn": _ENDPOINT}
        resources[_POLICY] = {**policy, "DependsOn": _TARGET}
    return resources


def _make_role(desired: Desired, config: Config) -> _Resources:
    document = _substitute(make_role_policy(config, OF_STACK))
    properties = {
        "Description": f"What SageMaker does in the name of the endpoint {desired.endpoint_name}",
        "AssumeRolePolicyDocument": make_trust_policy(),
        # In the role itself: it has its rights as soon as it is there.
        "Policies": [{"PolicyName": "serve", "PolicyDocument": document}],
        "Tags": _make_tags(desired),
    }
    return {_MADE_ROLE: _make_resource("AWS::IAM::Role", properties)}


def _make_model(desired: Desired, config: Config, role: Any) -> dict[str, Any]:
    container = _leave_out(desired.model["PrimaryContainer"], _CONTAINER_METRICS)
    container["Image"] = _refer(_IMAGE)
    if config.endpoint.single_model is not None:
        container["ModelDataUrl"] = _refer(_MODEL_DATA)
    properties = {
        **_leave_out(desired.model, "ModelName"),
        "PrimaryContainer": container,
        "ExecutionRoleArn": role,
        "Tags": _make_tags(desired),
    }
    return _make_resource("AWS::SageMaker::Model", properties)


def _make_configuration(desired: Desired) -> dict[str, Any]:
    (variant,) = desired.endpoint_config["ProductionVariants"]
    properties = {
        **_leave_out(desired.endpoint_config, "EndpointConfigName"),
        "ProductionVariants": [{**variant, "ModelName": _get_attribute(_MODEL, "ModelName")}],
        "Tags": _make_tags(desired),
    }
    return _make_resource("AWS::SageMaker::EndpointConfig", properties)


def _make_endpoint(desired: Desired) -> dict[str, Any]:
    deployment = dict(desired.deployment)
    if "AutoRollbackConfiguration" in deployment:
        alarms = deployment["AutoRollbackConfiguration"]["Alarms"]
        names = [_name_alarm(desired, alarm["AlarmName"]) for alarm in alarms]
        deployment["AutoRollbackConfiguration"] = {
            "Alarms": [{"AlarmName": _refer(name)} for name in names]
        }
    properties: dict[str, Any] = {
        "EndpointName": desired.endpoint_name,
        "EndpointConfigName": _get_attribute(_CONFIGURATION, "EndpointConfigName"),
        "DeploymentConfig": deployment,
        "Tags": _make_tags(desired),
    }
    if desired.target is not None:
        # An update keeps as many instances as autoscaling has made.
        properties["RetainAllVariantProperties"] = True
    return _make_resource("AWS::SageMaker::Endpoint", properties)


def _make_tags(desired: Desired) -> list[Members]:
    """Without the tag by which `up` and `down` know their own: this endpoint is the stack's."""
    return [tag for tag in desired.tags if tag["Key"] != ENDPOINT_TAG]


def _name_alarm(desired: Desired, alarm_name: str) -> str:
    """Such as AlarmErrors5xx for shop/errors-5xx."""
    name = alarm_name.removeprefix(make_alarm_prefix(desired.endpoint_name))
    parts = _NOT_IN_NAMES.split(f"alarm-{name}")
    return "".join(part[:1].upper() + part[1:] for part in parts)


def _make_resource(kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Empty lists are left out."""
    return {
        "Type": kind,
        "Properties": {name: value for name, value in properties.items() if value != []},
    }


def _leave_out(members: Members, name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _refer(name: str) -> dict[str, str]:
    """A parameter's value, or a resource's main attribute."""
    return {"Ref": name}


def _get_attribute(resource: str, attribute: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [resource, attribute]}


def _substitute(value: Any) -> Any:
    """Let CloudFormation replace AWS's variables in all strings of a value."""
    if isinstance(value, str):
        return {"Fn::Sub": value} if "${AWS::" in value else value
    if isinstance(value, Mapping):
        return {name: _substitute(inner) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_substitute(inner) for inner in value]
    return value
