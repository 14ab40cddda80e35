"""The Terraform example, parsed, and held against what `render` makes of the same configuration.

Terraform itself is not run: what its provider knows is not looked at here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hcl2
import pytest

from deploy.tests.support.grid import make_config
from merlin_deploy.desired import make_alarms
from merlin_deploy.policies import Location, make_role_policy, make_trust_policy
from merlin_deploy.template import render

EXAMPLE = Path(__file__).parents[2] / "examples/terraform"
SCALING = "[autoscaling]\nmin = 2\nmax = 8\ninvocations_per_instance = 3000"
AMI = 'ami = "al2-ami-sagemaker-inference-gpu-3-1"'
Block = dict[str, Any]


class Module:
    """All files, with the variables' defaults and the locals in their places."""

    def __init__(self) -> None:
        options = hcl2.SerializationOptions(
            with_comments=False, explicit_blocks=False, strip_string_quotes=True
        )
        self.files = [
            hcl2.loads(path.read_text(), serialization_options=options)
            for path in sorted(EXAMPLE.glob("*.tf"))
        ]
        self.variables = {
            name.strip('"'): block
            for file in self.files
            for one in file.get("variable", ())
            for name, block in one.items()
        }
        self.locals = {
            name: value
            for file in self.files
            for one in file.get("locals", ())
            for name, value in one.items()
        }

    def find(self, kind: str, name: str = "this", of: str = "resource") -> Block:
        """A resource, or a datum."""
        (match,) = (
            self.fill_in(block[name])
            for file in self.files
            for one in file.get(of, ())
            for its_kind, blocks in one.items()
            for block in [{key.strip('"'): value for key, value in blocks.items()}]
            if its_kind.strip('"') == kind and name in block
        )
        return dict(match)

    def fill_in(self, value: Any) -> Any:
        """Defaults and locals where they are asked for; everything else as it stands."""
        if isinstance(value, dict):
            return {name: self.fill_in(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.fill_in(one) for one in value]
        if isinstance(value, str):
            if whole := re.fullmatch(r"\$\{(var|local)\.(\w+)\}", value):
                return self.value_of(whole[1], whole[2])
            return re.sub(
                r"\$\{(var|local)\.(\w+)\}",
                lambda match: str(self.value_of(match[1], match[2])),
                value,
            )
        return value

    def value_of(self, kind: str, name: str) -> Any:
        """Of a variable without a default: its name in angle brackets."""
        if kind == "var":
            return self.variables[name].get("default", f"<{name}>")
        return self.fill_in(self.locals[name])


@pytest.fixture(scope="module")
def module() -> Module:
    """Read once."""
    return Module()


@pytest.fixture(scope="module")
def resources() -> Block:
    """Of the template for what the variables' defaults say."""
    config = make_config(SCALING, AMI)
    return dict(render(config, with_role=True)["Resources"])


def test_the_variant_is_the_templates(module: Module, resources: Block) -> None:
    """Type, count, weight, host image, timeouts and routing."""
    (ours,) = resources["EndpointConfiguration"]["Properties"]["ProductionVariants"]
    (theirs,) = module.find("aws_sagemaker_endpoint_configuration")["production_variants"]
    (routing,) = theirs.pop("routing_config")
    assert routing["routing_strategy"] == ours["RoutingConfig"]["RoutingStrategy"]
    assert theirs.pop("model_name") == "${aws_sagemaker_model.this.name}"
    assert {camel(name): value for name, value in theirs.items()} == {
        name: value for name, value in ours.items() if name not in ("RoutingConfig", "ModelName")
    }


def test_the_model_is_the_templates(module: Module, resources: Block) -> None:
    """A multi-model container that looks below the prefix's archives/."""
    ours = resources["Model"]["Properties"]
    theirs = module.find("aws_sagemaker_model")
    (container,) = theirs["primary_container"]
    assert container["mode"] == ours["PrimaryContainer"]["Mode"]
    url = container["model_data_url"].replace("<bucket>", "models")
    assert url == ours["PrimaryContainer"]["ModelDataUrl"]
    assert theirs["enable_network_isolation"] == ours["EnableNetworkIsolation"]
    assert module.variables["model_cache"]["default"] is True
    (cache,) = container["multi_model_config"]
    assert '? "Enabled" : "Disabled"' in cache["model_cache_setting"]


def test_updates_go_as_the_templates(module: Module, resources: Block) -> None:
    """Blue/green with its times, and the alarm that brings the old instances back."""
    ours = resources["Endpoint"]["Properties"]["DeploymentConfig"]
    (theirs,) = module.find("aws_sagemaker_endpoint")["deployment_config"]
    (policy,) = theirs["blue_green_update_policy"]
    (routing,) = policy.pop("traffic_routing_configuration")
    assert {camel(name): value for name, value in policy.items()} == {
        name: value
        for name, value in ours["BlueGreenUpdatePolicy"].items()
        if name != "TrafficRoutingConfiguration"
    }
    assert {camel(name): value for name, value in routing.items()} == ours["BlueGreenUpdatePolicy"][
        "TrafficRoutingConfiguration"
    ]
    (rollback,) = theirs["auto_rollback_configuration"]
    (alarm,) = rollback["alarms"]
    assert alarm["alarm_name"] == '${aws_cloudwatch_metric_alarm.this["errors-5xx"].alarm_name}'
    assert ours["AutoRollbackConfiguration"]["Alarms"] == [{"AlarmName": {"Ref": "AlarmErrors5xx"}}]


def test_alarms_are_those_of_the_configurations_defaults(module: Module) -> None:
    """Metrics, statistics, thresholds and names; and what all of them have."""
    theirs = module.find("aws_cloudwatch_metric_alarm")
    assert theirs["for_each"] == module.locals["alarms"]
    ours = {alarm["AlarmName"]: alarm for alarm in make_alarms(make_config())}
    assert {f"shop/{name}" for name in module.locals["alarms"]} == set(ours)
    for name, one in module.locals["alarms"].items():
        alarm = ours[f"shop/{name}"]
        assert one == {
            "metric": alarm["MetricName"],
            "statistic": alarm["Statistic"],
            "threshold": alarm["Threshold"],
            "below": alarm["ComparisonOperator"] == "LessThanThreshold",
        }
        assert theirs["alarm_name"] == "shop/${each.key}"
        assert theirs["namespace"] == alarm["Namespace"]
        dimensions = {one["Name"]: one["Value"] for one in alarm["Dimensions"]}
        assert theirs["dimensions"] == dimensions
        for member in ("Period", "EvaluationPeriods", "DatapointsToAlarm", "TreatMissingData"):
            assert theirs[snake(member)] == alarm[member]


def test_autoscaling_is_the_templates(module: Module, resources: Block) -> None:
    """The variant by its resource id, bounds, target and cooldowns."""
    ours = resources["ScalableTarget"]["Properties"]
    theirs = module.find("aws_appautoscaling_target")
    endpoint = "${aws_sagemaker_endpoint.this.name}"
    assert theirs.pop("resource_id").replace(endpoint, "shop") == ours["ResourceId"]
    assert {camel(name): value for name, value in theirs.items()} == {
        name: value for name, value in ours.items() if name != "ResourceId"
    }
    policy = module.find("aws_appautoscaling_policy")
    expected = resources["ScalingPolicy"]["Properties"]
    assert policy["name"] == expected["PolicyName"]
    assert policy["policy_type"] == expected["PolicyType"]
    (tracking,) = policy["target_tracking_scaling_policy_configuration"]
    (metric,) = tracking.pop("predefined_metric_specification")
    wanted = dict(expected["TargetTrackingScalingPolicyConfiguration"])
    assert {camel(name): value for name, value in metric.items()} == wanted.pop(
        "PredefinedMetricSpecification"
    )
    assert {camel(name): value for name, value in tracking.items()} == wanted


def test_the_role_has_the_same_rights(module: Module) -> None:
    """Statement by statement: actions, places and conditions, with a VPC and without."""
    trust = module.find("aws_iam_policy_document", "trust", "data")["statement"][0]
    (statement,) = make_trust_policy()["Statement"]
    assert trust["principals"][0]["identifiers"] == [statement["Principal"]["Service"]]
    network = '[network]\nsubnets = ["subnet-1"]\nsecurity_groups = ["sg-1"]'
    where = Location("<partition>", "<region>", "<account>")
    ours = {one["Sid"]: one for one in make_role_policy(make_config(network), where)["Statement"]}
    document = module.find("aws_iam_policy_document", "role", "data")
    plain = document["statement"]
    dynamic = [one["statement"]["content"][0] for one in unquoted(document["dynamic"])]
    assert {one["sid"] for one in (*plain, *dynamic)} == set(ours)
    for one in (*plain, *dynamic):
        assert one["actions"] == ours[one["sid"]]["Action"]
    for one in plain:
        expected = ours[one["sid"]]
        assert [in_place(arn) for arn in one["resources"]] == as_list(expected["Resource"])
        conditions = {
            item["test"]: {item["variable"]: item["values"]} for item in one.get("condition", ())
        }
        assert conditions == expected.get("Condition", {})


def in_place(arn: str) -> str:
    """As our policies have it: the data that Terraform asks for, and what has no default."""
    for match, name in (
        ("${data.aws_partition.this.partition}", "<partition>"),
        ("${data.aws_region.this.region}", "<region>"),
        ("${data.aws_caller_identity.this.account_id}", "<account>"),
        ("<bucket>", "models"),
        (
            "<repository_arn>",
            "arn:<partition>:ecr:us-east-1:123456789012:repository/team/merlin-sagemaker",
        ),
    ):
        arn = arn.replace(match, name)
    return arn


def unquoted(blocks: list[Block]) -> list[Block]:
    """Blocks with labels, whose labels have their quotes."""
    return [{name.strip('"'): one for name, one in block.items()} for block in blocks]


def camel(name: str) -> str:
    """CloudFormation's spelling of a name of Terraform's."""
    return "".join(word.capitalize() for word in name.split("_")).replace("InGb", "InGB")


def snake(name: str) -> str:
    """And back."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def as_list(value: Any) -> list[str]:
    """One resource stands without a list."""
    return [value] if isinstance(value, str) else list(value)
