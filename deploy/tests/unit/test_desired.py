"""What AWS should have for each choice: a choice that changes, changes its member alone."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.tests.support.grid import make_config, make_grid
from deploy.tests.support.requests import check_config
from merlin_deploy.desired import (
    Desired,
    Facts,
    has_members,
    is_alarm_of,
    is_content_name,
    make_alarms,
    make_content_name,
    make_deployment_config,
    make_desired,
    make_policy,
    make_rollback_alarm_names,
    make_target,
)

SCALING = "[autoscaling]\nmin = 2\nmax = 8\ninvocations_per_instance = 300.5\n"


def desire(more: str = "", instances: str = "", **endpoint: str) -> Desired:
    """The requests that a configuration asks for."""
    return make_desired(
        make_config(more, instances, **endpoint), Facts("image", "s3://m/archives/")
    )


@pytest.mark.parametrize(
    ("more", "instances", "model_differs", "config_differs"),
    [
        ("", "volume_gb = 64", False, True),
        ("", 'ami = "al2-ami-sagemaker-inference-gpu-2-1"', False, True),
        ("", "startup_timeout = 601", False, True),
        ("", "download_timeout = 601", False, True),
        ("", 'routing = "random"', False, True),
        ("[container]\nmodel_cache = false", "", True, True),
        ("[container]\nmemory_reserve_mb = 0", "", True, True),
        ("[container.environment]\nA = 1", "", True, True),
        ("[network]\nisolated = true", "", True, True),
        ("[network]\nsubnets = ['subnet-1']\nsecurity_groups = ['sg-1']", "", True, True),
        ("[encryption]\nvolume_key = 'alias/a'", "", False, True),
        ("[encryption]\narchives_key = 'alias/a'", "", False, False),
        ("[metrics]\ndetailed = false", "", True, True),
        ("[metrics]\nevery = 61", "", True, True),
        ("[alarms]\nminutes = 6", "", False, False),
        ("[deployment]\nwait = 5", "", False, False),
        ("[costs]\ninstance_hour = 1", "", False, False),
        ("[tags]\na = 1", "", False, False),
        (SCALING, "", False, False),
    ],
)
def test_names_say_content(
    more: str, instances: str, model_differs: bool, config_differs: bool
) -> None:
    """What changes the instances is blue/green; what does not changes no name."""
    before, after = desire(), desire(more, instances)
    assert (before.model_name != after.model_name) == model_differs
    assert (before.config_name != after.config_name) == config_differs
    assert is_content_name("shop", after.model_name)
    assert is_content_name("shop", after.config_name)


def test_count_and_type_are_the_configurations() -> None:
    """Another one is a new configuration of the same model."""
    config = make_config()
    facts = Facts("image", "s3://m/archives/")
    before = make_desired(config, facts)
    for change in ({"count": 3}, {"type": "ml.g5.2xlarge"}):
        instances = config.instances.model_copy(update=change)
        after = make_desired(config.model_copy(update={"instances": instances}), facts)
        assert after.model_name == before.model_name
        assert after.config_name != before.config_name
    for moved in (Facts("other", "s3://m/archives/"), Facts("image", "s3://n/archives/")):
        assert make_desired(config, moved).model_name != before.model_name


def test_names_of_others_are_not_ours() -> None:
    """Of an endpoint whose name begins so, and of what only looks like a digest."""
    name = make_content_name("shop", {"a": 1})
    assert name == make_content_name("shop", {"a": 1}) != make_content_name("shop", {"a": 2})
    assert is_content_name("shop", name)
    for other in (f"{name}0", name[:-1], f"shop-{name}", name.replace("shop", "shopX")):
        assert not is_content_name("shop", other)
    assert not is_content_name("sh.p", name)


def test_a_single_model_is_one_archive() -> None:
    """Without what multi-model endpoints have."""
    (many, item) = (it.model["PrimaryContainer"] for it in (desire(), desire(single_model="a")))
    assert many["Mode"] == "MultiModel"
    assert many["MultiModelConfig"] == {"ModelCacheSetting": "Enabled"}
    assert not {"Mode", "MultiModelConfig"} & item.keys()
    cold = desire("[container]\nmodel_cache = false").model["PrimaryContainer"]
    assert cold["MultiModelConfig"] == {"ModelCacheSetting": "Disabled"}


def test_alarms_are_those_that_have_a_threshold() -> None:
    """Units are CloudWatch's; each says which way is bad."""
    config = make_config(
        "[alarms]\nminutes = 7\nerrors_4xx_above = 100\nlatency_p99_above_ms = 250\n"
        "topics = ['arn:aws:sns:us-east-1:123456789012:oncall']"
    )
    alarms = {item["AlarmName"].removeprefix("shop/"): item for item in make_alarms(config)}
    thresholds = {
        name: (
            item["MetricName"],
            item.get("Statistic") or item["ExtendedStatistic"],
            item["Threshold"],
            item["ComparisonOperator"].removesuffix("ThanThreshold"),
        )
        for name, item in alarms.items()
    }
    assert thresholds == {
        "model-cache-hit": ("ModelCacheHit", "Average", 0.8, "Less"),
        "model-loading-wait": ("ModelLoadingWaitTime", "Average", 10_000_000.0, "Greater"),
        "model-unloading": ("ModelUnloadingTime", "Average", 5_000_000.0, "Greater"),
        "errors-5xx": ("Invocation5XXErrors", "Sum", 0.0, "Greater"),
        "errors-4xx": ("Invocation4XXErrors", "Sum", 100.0, "Greater"),
        "latency-p99": ("ModelLatency", "p99", 250_000.0, "Greater"),
    }
    for name, item in alarms.items():
        assert is_alarm_of("shop", f"shop/{name}")
        assert not is_alarm_of("sho", f"shop/{name}")
        assert item["EvaluationPeriods"] == item["DatapointsToAlarm"] == 7
        assert item["AlarmActions"] == item["OKActions"] == list(config.alarms.topics)
        assert item["TreatMissingData"] == "notBreaching"
    assert not is_alarm_of("shop", "shop/mine")
    assert make_rollback_alarm_names(config) == ("shop/errors-5xx", "shop/latency-p99")


def test_the_alarm_of_unseen_values_is_of_each_archive() -> None:
    """A query on what SageMaker scrapes, over several scrapes; it has no member of a metric's."""
    (*_, alarm) = make_alarms(
        make_config(
            "[alarms]\nminutes = 7\nunseen_above_percent = 2.5\n"
            "topics = ['arn:aws:sns:us-east-1:123456789012:oncall']\n[metrics]\nevery = 300"
        )
    )
    assert alarm["AlarmName"] == "shop/unseen-values"
    assert is_alarm_of("shop", alarm["AlarmName"])
    labels = '{"aws.sagemaker.endpoint.name"="shop"}[1200s]'
    assert alarm["EvaluationCriteria"]["PromQLCriteria"] == {
        "Query": f"100 * sum by (target_model) (increase(serve_feature_unseen_total{labels}))"
        f" / sum by (target_model) (increase(serve_feature_values_total{labels})) > 2.5",
        "PendingPeriod": 420,
        "RecoveryPeriod": 420,
    }
    assert alarm["AlarmActions"] == ["arn:aws:sns:us-east-1:123456789012:oncall"]
    assert not {"Period", "Threshold", "MetricName", "TreatMissingData"} & alarm.keys()
    usual = make_alarms(make_config("[alarms]\nunseen_above_percent = 0"))
    assert "[300s]" in usual[-1]["EvaluationCriteria"]["PromQLCriteria"]["Query"]
    check_config(make_config("[alarms]\nunseen_above_percent = 5"))


def test_a_single_model_has_no_alarms_about_loading() -> None:
    """Nothing is loaded on demand."""
    names = [item["AlarmName"] for item in make_alarms(make_config(single_model="a"))]
    assert names == ["shop/errors-5xx"]


@pytest.mark.parametrize(
    ("more", "policy"),
    [
        ("", {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}),
        (
            "traffic = 'canary'\nstep_percent = 5\nwait = 60",
            {
                "Type": "CANARY",
                "WaitIntervalInSeconds": 60,
                "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 5},
            },
        ),
        (
            "traffic = 'linear'\nstep_percent = 50",
            {
                "Type": "LINEAR",
                "WaitIntervalInSeconds": 300,
                "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
            },
        ),
    ],
)
def test_traffic_shifts_as_is_said(more: str, policy: dict[str, Any]) -> None:
    """Blue/green, in as many steps as is said."""
    deployment = make_deployment_config(make_config(f"[deployment]\n{more}"))
    update = deployment["BlueGreenUpdatePolicy"]
    assert update["TrafficRoutingConfiguration"] == policy
    assert update["TerminationWaitInSeconds"] == 300
    assert deployment["AutoRollbackConfiguration"] == {"Alarms": [{"AlarmName": "shop/errors-5xx"}]}


@pytest.mark.parametrize(
    ("more", "limit"),
    [
        ("traffic = 'all-at-once'\nwait = 3600\ntermination_wait = 0", 3600),
        # 3 steps of 40 %.
        ("traffic = 'linear'\nstep_percent = 40\nwait = 100\ntermination_wait = 7", 3907),
        ("traffic = 'linear'\nstep_percent = 10\nwait = 3600", 28_800),
    ],
)
def test_an_update_has_time_for_its_steps(more: str, limit: int) -> None:
    """And an hour for its instances, within SageMaker's bounds."""
    deployment = make_deployment_config(make_config(f"[deployment]\n{more}"))
    assert deployment["BlueGreenUpdatePolicy"]["MaximumExecutionTimeoutInSeconds"] == limit


def test_rolling_has_no_second_fleet() -> None:
    """Nor a wait of the old one; without alarms nothing brings it back."""
    deployment = make_deployment_config(
        make_config("[deployment]\ntraffic = 'rolling'\nroll_back_on_alarms = false\nwait = 9")
    )
    assert deployment.keys() == {"RollingUpdatePolicy"}
    rolling = deployment["RollingUpdatePolicy"]
    assert rolling["WaitIntervalInSeconds"] == 9
    assert rolling["MaximumBatchSize"]["Value"] == 10
    quiet = make_config("[alarms]\nerrors_5xx_above = 0")
    assert "AutoRollbackConfiguration" in make_deployment_config(quiet)


def test_scaling_follows_invocations() -> None:
    """None of it without its section."""
    assert make_target(make_config()) is make_policy(make_config()) is None
    config = make_config(
        SCALING + "scale_in = false\nscale_in_cooldown = 1\nscale_out_cooldown = 2"
    )
    target, policy = make_target(config), make_policy(config)
    assert target is not None
    assert policy is not None
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 8)
    assert target["ResourceId"] == policy["ResourceId"] == "endpoint/shop/variant/AllTraffic"
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    assert (tracking["ScaleInCooldown"], tracking["ScaleOutCooldown"]) == (1, 2)
    assert (tracking["TargetValue"], tracking["DisableScaleIn"]) == (300.5, True)


@pytest.mark.parametrize(
    ("present", "asked", "has"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 2}}, {"a": {"b": 1}}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": [1]}, {"a": [1]}, True),
        (None, {"a": 1}, False),
        ({"a": None}, {"a": {"b": 1}}, False),
        ({}, {}, True),
    ],
)
def test_what_is_there_against_what_is_wanted(present: Any, asked: Any, has: bool) -> None:
    """AWS adds members of its own; lists are wanted as they are."""
    assert has_members(present, asked) is has


def test_tags_are_the_callers_and_ours() -> None:
    """Whose a thing is stands in each."""
    tags = {item["Key"]: item["Value"] for item in desire("[tags]\nteam = 'a'\nn = 1").tags}
    assert tags == {"team": "a", "n": "1", "deploy:endpoint": "shop"}


def test_requests_pass_botocore_and_the_models_patterns() -> None:
    """Over every shape of a configuration: botocore's own validator, then what it leaves to AWS."""
    operations = set[str]()
    for config in make_grid().values():
        operations |= check_config(config)
    assert len(operations) == 7
