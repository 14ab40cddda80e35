"""Wanted requests as CloudFormation's resources.

What CloudFormation replaces it makes anew before it removes the old one, and two cannot have one
name. So models, configurations and alarms get names from CloudFormation; the endpoint, which is
updated and not replaced, has its own, by which callers know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploy.config.config import Config
from deploy.policies.arns import OF_STACK
from deploy.policies.role import make_role_policy, make_trust_policy
from deploy.template.left_out import without_left_out
from deploy.template.references import attribute, fill_in, logical_name, ref
from deploy.wanted.alarms import make_alarm_prefix
from deploy.wanted.names import ENDPOINT_TAG
from deploy.wanted.wanted import Members, Wanted

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
