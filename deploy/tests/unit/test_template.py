"""`render`'s templates, held against cfn-lint and against what `up` sends."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.tests.support.cfn_lint import lint_template, read_schema
from deploy.tests.support.grid import make_config, make_grid
from merlin_deploy.desired import Facts, make_desired
from merlin_deploy.template import render

pytestmark = pytest.mark.slow

SCALING = "[autoscaling]\nmax = 4\ninvocations_per_instance = 300"


def test_cfn_lint_accepts_every_template() -> None:
    """Without a warning, for every shape of a configuration; each second one has its role."""
    for number, (words, config) in enumerate(make_grid().items()):
        with_role = (number + number // 2) % 2 == 1
        template = render(config, with_role=with_role)
        assert lint_template(template) == [], (words, with_role)


def test_cfn_lint_accepts_other_partitions() -> None:
    """A region of China has templates of the same shape."""
    config = make_config(role="arn:aws-cn:iam::123456789012:role/sagemaker")
    assert lint_template(render(config, with_role=True), "cn-north-1") == []


def test_an_alarm_on_promql_is_one_of_cloudformation() -> None:
    """Its members, as `up` sends them."""
    config = make_config("[alarms]\nunseen_above_percent = 5")
    template = render(config, with_role=False)
    assert "PromQLCriteria" in properties(template, "AlarmUnseenValues")["EvaluationCriteria"]
    assert lint_template(template) == []


def test_what_is_left_out_is_what_cloudformation_lacks() -> None:
    """It is told where it is wanted, and only there; a schema that has it by now fails here."""
    schema = read_schema("AWS::SageMaker::Model")["definitions"]["ContainerDefinition"]
    assert "ContainerMetricsConfig" not in schema["properties"]
    template = render(make_config("[metrics]\nevery = 10"), with_role=False)
    (sentence,) = template["Metadata"]["LeftOut"]
    assert "/metrics every 10 s is asked for" in sentence
    quiet = render(make_config("[metrics]\ndetailed = false"), with_role=False)
    assert quiet["Metadata"]["LeftOut"] == []


def test_everything_else_is_what_up_sends() -> None:
    """Members are those of the requests, where nothing of the stack takes their place."""
    for config in make_grid().values():
        template = render(config, with_role=False)
        wanted = make_desired(config, Facts(str(config.endpoint.image), config.endpoint.archives))
        configuration = properties(template, "EndpointConfiguration")
        for name in ("KmsKeyId", "MetricsConfig"):
            assert configuration.get(name) == wanted.endpoint_config.get(name)
        (variant,), (sent,) = (
            configuration["ProductionVariants"],
            wanted.endpoint_config["ProductionVariants"],
        )
        assert {**variant, "ModelName": ""} == {**sent, "ModelName": ""}
        model = properties(template, "Model")
        for name in ("EnableNetworkIsolation", "VpcConfig"):
            assert model.get(name) == wanted.model.get(name)
        environment = wanted.model["PrimaryContainer"].get("Environment")
        assert model["PrimaryContainer"].get("Environment") == environment
        alarms = [name for name in template["Resources"] if name.startswith("Alarm")]
        assert len(alarms) == len(wanted.alarms)


def test_only_the_endpoint_has_a_name() -> None:
    """What is replaced cannot keep a name; alarms that roll back are those of the stack."""
    template = render(make_config(SCALING), with_role=True)
    named = {
        f"{resource}.{name}"
        for resource in template["Resources"]
        for name in properties(template, resource)
        if name in ("ModelName", "EndpointConfigName", "EndpointName", "AlarmName", "RoleName")
    }
    assert named == {"Endpoint.EndpointName", "Endpoint.EndpointConfigName"}
    endpoint = properties(template, "Endpoint")
    assert endpoint["EndpointConfigName"] == {
        "Fn::GetAtt": ["EndpointConfiguration", "EndpointConfigName"]
    }
    alarms = endpoint["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    assert alarms == [{"AlarmName": {"Ref": "AlarmErrors5xx"}}]


def test_up_does_not_take_a_stacks_endpoint_for_its_own() -> None:
    """It has the tags of the configuration, and not the one that `up` and `down` look for."""
    template = render(make_config('[tags]\nteam = "a"'), with_role=False)
    assert properties(template, "Endpoint")["Tags"] == [{"Key": "team", "Value": "a"}]


def test_scaling_comes_after_the_endpoint_and_keeps_its_count() -> None:
    """Application Auto Scaling takes no variant that is not there."""
    template = render(make_config(SCALING), with_role=False)
    assert template["Resources"]["ScalableTarget"]["DependsOn"] == "Endpoint"
    assert template["Resources"]["ScalingPolicy"]["DependsOn"] == "ScalableTarget"
    assert properties(template, "Endpoint")["RetainAllVariantProperties"] is True


def test_what_only_aws_knows_is_a_parameter() -> None:
    """The single archive has no default: which one is newest stands in the table of aliases."""
    template = render(make_config(single_model="shop-a"), with_role=True)
    assert set(template["Parameters"]) == {"Image", "ModelDataUrl"}
    assert "Default" not in template["Parameters"]["ModelDataUrl"]
    container = properties(template, "Model")["PrimaryContainer"]
    assert container["ModelDataUrl"] == {"Ref": "ModelDataUrl"}
    assert container["Image"] == {"Ref": "Image"}


def properties(template: dict[str, Any], resource: str) -> dict[str, Any]:
    """The properties of a resource."""
    return dict(template["Resources"][resource]["Properties"])
