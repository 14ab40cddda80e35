"""Metrics of policies, read from the store minute by minute."""

from __future__ import annotations

from typing import Any

import pytest

from merlin_simulator.control.autoscaling.metrics import (
    alarm_members,
    check_metric,
    read_datapoints,
)
from merlin_simulator.control.autoscaling.variants import VariantId
from merlin_simulator.control.cloudwatch.store import MetricStore, make_metric
from merlin_simulator.control.errors import ServiceError

VARIANT = VariantId("shop", "all")
PREDEFINED = {
    "PredefinedMetricSpecification": {
        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
    }
}


def customized(**spec: Any) -> dict[str, Any]:
    return {"CustomizedMetricSpecification": spec}


def query(name: str, metric: str, **more: Any) -> dict[str, Any]:
    stat = {"Metric": {"Namespace": "Mine", "MetricName": metric}, "Stat": "Average"}
    return {"Id": name, "MetricStat": stat, **more}


def test_the_predefined_metric_is_the_sum_of_each_whole_minute() -> None:
    store = MetricStore()
    dimensions = {"EndpointName": "shop", "VariantName": "all"}
    metric = make_metric("AWS/SageMaker", "InvocationsPerInstance", dimensions)
    for at in (0, 30, 125, 180):
        store.add(metric, 0.5, at)
    assert read_datapoints(PREDEFINED, VARIANT, store, 181, 4) == [None, 1.0, None, 0.5]


def test_a_customized_metric_by_its_dimensions_statistic_and_unit() -> None:
    store = MetricStore()
    for value in (10, 30):
        store.add(make_metric("Mine", "Queue", {"Name": "a"}), value, 10, "Count")
    store.add(make_metric("Mine", "Queue", {"Name": "b"}), 99, 10, "Count")
    spec = {
        "Namespace": "Mine",
        "MetricName": "Queue",
        "Dimensions": [{"Name": "Name", "Value": "a"}],
        "Statistic": "Maximum",
    }
    for unit, expected in (({}, 30), ({"Unit": "Count"}, 30), ({"Unit": "Seconds"}, None)):
        config = customized(**spec, **unit)
        check_metric(config)
        assert read_datapoints(config, VARIANT, store, 60, 1) == [expected]


def test_a_policys_alarms_watch_what_it_reads() -> None:
    """Its unit, too; the lower one below 90 % of the target."""
    spec = {"Namespace": "Mine", "MetricName": "Queue", "Statistic": "Average", "Unit": "Count"}
    config = {"TargetValue": 50, **customized(**spec)}
    name = "TargetTracking-endpoint/shop/variant/all-Alarm{}-1"
    high, low = (
        alarm_members({"PolicyARN": "arn:p"}, config, VARIANT, name.format(side))
        for side in ("High", "Low")
    )
    for alarm, threshold, periods in ((high, 50.0, 3), (low, 45.0, 15)):
        assert {key: alarm[key] for key in spec} == spec
        assert (alarm["Threshold"], alarm["EvaluationPeriods"]) == (threshold, periods)
        assert (alarm["Period"], alarm["AlarmActions"]) == (60, ["arn:p"])
    assert low["ComparisonOperator"] == "LessThanThreshold"


def test_metric_math_over_metrics() -> None:
    store = MetricStore()
    for minute, (waiting, running) in enumerate([(10, 2), (9, 0), (8, 4)]):
        store.add(make_metric("Mine", "Waiting", {}), waiting, minute * 60)
        store.add(make_metric("Mine", "Running", {}), running, minute * 60)
    config = customized(
        Metrics=[
            query("m1", "Waiting", ReturnData=False),
            query("m2", "Running", ReturnData=False),
            query("m3", "Absent", ReturnData=False),
            {"Id": "e1", "Expression": "m1 / m2 + FILL(m3, 1)"},
        ]
    )
    check_metric(config)
    assert read_datapoints(config, VARIANT, store, 180, 3) == [6.0, None, 3.0]


def test_metric_math_without_a_result_is_no_datapoint() -> None:
    """All of AVG(m1) is a number: it cannot be divided by another that is 0."""
    store = MetricStore()
    store.add(make_metric("Mine", "Waiting", {}), 0.0, 0)
    config = customized(
        Metrics=[
            query("m1", "Waiting", ReturnData=False),
            {"Id": "e1", "Expression": "1 / AVG(m1)"},
        ]
    )
    check_metric(config)
    assert read_datapoints(config, VARIANT, store, 120, 2) == [None, None]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "Exactly one of"),
        ({**PREDEFINED, **customized(MetricName="a")}, "Exactly one of"),
        (
            {"PredefinedMetricSpecification": {"PredefinedMetricType": "ALBRequestCountPerTarget"}},
            "here SageMakerVariantInvocationsPerInstance is carried out",
        ),
        (customized(MetricName="a", Namespace="b"), "needs MetricName, Namespace and Statistic"),
        (customized(Metrics=[query("a", "A"), query("b", "B")]), "expected exactly one"),
        (customized(Metrics=[query("a", "A"), query("a", "B", ReturnData=False)]), "not unique"),
        (customized(Metrics=[{"Id": "e", "Expression": "a"}]), "names 'a'"),
        (customized(Metrics=[{"Id": "e", "Expression": "a b"}]), "names 'a'"),
        (
            customized(
                Metrics=[
                    query("a", "A", ReturnData=False),
                    query("b", "B", ReturnData=False),
                    {"Id": "e", "Expression": "METRICS()"},
                ]
            ),
            "2 time series",
        ),
        (customized(Metrics=[query("a", "")]), "needs Namespace and MetricName"),
        (customized(Metrics=[{"Id": "e"}]), "either MetricStat or Expression"),
    ],
)
def test_a_policy_that_does_not_say_which_metric(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ServiceError, match=words):
        check_metric(config)


@pytest.mark.parametrize("text", ["(" * 1000 + "m1" + ")" * 1000, "-" * 2000 + "m1"])
def test_what_is_too_deep_is_refused_when_it_is_put(text: str) -> None:
    """Calculated later, it would fail at each look."""
    queries = [query("m1", "Waiting", ReturnData=False), {"Id": "e1", "Expression": text}]
    with pytest.raises(ServiceError, match="nested too deeply"):
        check_metric(customized(Metrics=queries))


def test_what_grows_out_of_all_numbers_is_no_datapoint() -> None:
    store = MetricStore()
    for minute, waiting in enumerate((1e200, 2.0)):
        store.add(make_metric("Mine", "Waiting", {}), waiting, minute * 60)
    queries = [query("m1", "Waiting", ReturnData=False), {"Id": "e1", "Expression": "m1 * m1"}]
    config = customized(Metrics=queries)
    assert read_datapoints(config, VARIANT, store, 120, 2) == [None, 4.0]
