"""The metric that a target-tracking policy follows, and the alarms that watch it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from merlin_simulator.control.autoscaling.decision import (
    IN_DATAPOINTS,
    IN_SHARE,
    MINUTES,
    OUT_DATAPOINTS,
    Side,
)
from merlin_simulator.control.autoscaling.variants import VariantId
from merlin_simulator.control.cloudwatch.alarms import read_points
from merlin_simulator.control.cloudwatch.metric_calls import answer
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, MetricStore
from merlin_simulator.control.errors import ServiceError

#: AWS, "PredefinedMetricSpecification": those of a variant of instances that are kept here.
PREDEFINED = "SageMakerVariantInvocationsPerInstance"
_DESCRIPTION = "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {arn}."


def check_metric(config: Mapping[str, Any]) -> None:
    """Raises ServiceError where a policy does not say which metric, or one that is not kept."""
    predefined = config.get("PredefinedMetricSpecification")
    customized = config.get("CustomizedMetricSpecification")
    if (predefined is None) == (customized is None):
        raise ServiceError(
            "Exactly one of PredefinedMetricSpecification and CustomizedMetricSpecification must "
            "be specified"
        )
    if predefined is not None and predefined["PredefinedMetricType"] != PREDEFINED:
        raise ServiceError(
            f"PredefinedMetricType is {predefined['PredefinedMetricType']}: here {PREDEFINED} is "
            "carried out; name it, or give a CustomizedMetricSpecification."
        )
    if customized is not None:
        _check_customized(customized)


def _check_customized(spec: Mapping[str, Any]) -> None:
    single = [name for name in ("MetricName", "Namespace", "Statistic") if spec.get(name)]
    if spec.get("Metrics"):
        if single:
            raise ServiceError(f"Metrics and {single[0]} are given: expected one of them.")
        _check_queries(spec["Metrics"])
    elif len(single) < 3:
        raise ServiceError(
            "CustomizedMetricSpecification needs MetricName, Namespace and Statistic, or Metrics."
        )


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    returned = [query for query in queries if query.get("ReturnData", True)]
    if len(returned) != 1:
        raise ServiceError(
            f"{len(returned)} of the Metrics have ReturnData true, which is the default: "
            "expected exactly one."
        )
    for query in queries:
        metric = query.get("MetricStat", {}).get("Metric")
        if metric is not None and not (metric.get("Namespace") and metric.get("MetricName")):
            raise ServiceError(f"The metric of {query['Id']} needs Namespace and MetricName.")
    try:
        series = answer(_by_the_minute(queries), lambda *_: (), lambda _: ())
    except ServiceError as error:
        raise ServiceError(str(error)) from error  # by this service's own code
    if len(series) != 1:
        raise ServiceError(f"The Metrics are {len(series)} time series: expected one.")


def _by_the_minute(queries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A policy's metrics as CloudWatch's queries, which have a period."""
    return [
        {**query, "MetricStat": {**query["MetricStat"], "Period": RESOLUTION_S}}
        if "MetricStat" in query
        else {**query, "Period": RESOLUTION_S}
        for query in queries
    ]


def read_datapoints(
    config: Mapping[str, Any],
    variant: VariantId,
    store: MetricStore,
    now: float,
    count: int = MINUTES,
) -> list[float | None]:
    """The last whole minutes before now, the newest last; None where no value came.

    config: TargetTrackingScalingPolicyConfiguration, as check_metric lets it pass.
    """
    end = now // RESOLUTION_S * RESOLUTION_S
    try:
        return [point.value for point in read_points(store, _metric(variant, config), end, count)]
    except ServiceError:  # metric math that has no result for these values
        return [None] * count


def alarm_members(
    policy: Mapping[str, Any], config: Mapping[str, Any], variant: VariantId, name: str
) -> dict[str, Any]:
    """Of PutMetricAlarm, for the alarm of this name: one side of a policy."""
    is_high = f"-Alarm{Side.HIGH.value}-" in name
    target = float(config["TargetValue"])
    return {
        "AlarmName": name,
        "AlarmDescription": _DESCRIPTION.format(arn=policy["PolicyARN"]),
        "AlarmActions": [policy["PolicyARN"]],
        "EvaluationPeriods": OUT_DATAPOINTS if is_high else IN_DATAPOINTS,
        "Threshold": target if is_high else target * IN_SHARE,
        "ComparisonOperator": "GreaterThanThreshold" if is_high else "LessThanThreshold",
        **_metric(variant, config),
    }


def _metric(variant: VariantId, config: Mapping[str, Any]) -> dict[str, Any]:
    """As PutMetricAlarm names it."""
    spec = config.get("CustomizedMetricSpecification") or {
        "Namespace": "AWS/SageMaker",
        "MetricName": "InvocationsPerInstance",
        "Statistic": "Sum",
        "Dimensions": [
            {"Name": "EndpointName", "Value": variant.endpoint},
            {"Name": "VariantName", "Value": variant.variant},
        ],
    }
    if "Metrics" in spec:
        return {"Metrics": _by_the_minute(spec["Metrics"])}
    return {"Dimensions": [], **spec, "Period": RESOLUTION_S}
