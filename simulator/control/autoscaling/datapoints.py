"""What a target-tracking policy watches: its metric, read from the store minute by minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.control.autoscaling.metric_math import Expression, NotMath, Series
from simulator.control.autoscaling.names import VariantId
from simulator.control.cloudwatch.store import RESOLUTION_S, MetricStore, make_metric
from simulator.control.errors import ServiceError

#: AWS, "PredefinedMetricSpecification": those of a variant of instances that are kept here.
PREDEFINED = "SageMakerVariantInvocationsPerInstance"


def read_datapoints(
    config: Mapping[str, Any], target: VariantId, store: MetricStore, now: float, minutes: int
) -> Series:
    """The last whole minutes before now, the newest last; None where no value came.

    config: TargetTrackingScalingPolicyConfiguration, as check_metric lets it pass.
    """
    window = _Window(store, now, minutes)
    if "PredefinedMetricSpecification" in config:
        dimensions = {"EndpointName": target.endpoint, "VariantName": target.variant}
        return window.read("AWS/SageMaker", "InvocationsPerInstance", dimensions, "Sum", None)
    spec = config["CustomizedMetricSpecification"]
    if "Metrics" in spec:
        return _calculated(spec["Metrics"], window)
    dimensions = _dimensions(spec)
    return window.read(
        spec["Namespace"], spec["MetricName"], dimensions, spec["Statistic"], spec.get("Unit")
    )


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
    ids = [query["Id"] for query in queries]
    if len(set(ids)) < len(ids):
        raise ServiceError("Metrics have an Id twice: each must have its own.")
    returned = [query for query in queries if query.get("ReturnData", True)]
    if len(returned) != 1:
        raise ServiceError(
            f"{len(returned)} of the Metrics have ReturnData true, which is the default: "
            "expected exactly one."
        )
    before = set[str]()
    for query in queries:
        if ("Expression" in query) == ("MetricStat" in query):
            raise ServiceError(f"{query['Id']} needs one of Expression and MetricStat.")
        if "Expression" in query:
            _check_expression(query, before)
        before.add(query["Id"])


def _check_expression(query: Mapping[str, Any], before: set[str]) -> None:
    try:
        unknown = sorted(Expression(query["Expression"]).names - before)
    except NotMath as error:
        raise ServiceError(f"Expression {query['Expression']!r}: {error}.") from error
    if unknown:
        raise ServiceError(
            f"Expression {query['Expression']!r} names {', '.join(unknown)}: "
            "expected Ids of Metrics before it."
        )


def _calculated(queries: Sequence[Mapping[str, Any]], window: _Window) -> Series:
    series = dict[str, Series]()
    returned: Series = ()
    for query in queries:
        if "Expression" in query:
            found = Expression(query["Expression"]).value(series, window.minutes)
        else:
            stat = query["MetricStat"]
            metric, unit = stat["Metric"], stat.get("Unit")
            name = metric.get("MetricName", "")
            found = window.read(
                metric.get("Namespace", ""), name, _dimensions(metric), stat["Stat"], unit
            )
        series[query["Id"]] = found
        if query.get("ReturnData", True):
            returned = found
    return returned


def _dimensions(spec: Mapping[str, Any]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in spec.get("Dimensions") or ()}


class _Window:
    """The last whole minutes before now."""

    def __init__(self, store: MetricStore, now: float, minutes: int) -> None:
        self._store, self.minutes = store, minutes
        end = int(now // RESOLUTION_S)
        self._begins = [minute * RESOLUTION_S for minute in range(end - minutes, end)]

    def read(
        self, namespace: str, name: str, dimensions: Mapping[str, str], stat: str, unit: str | None
    ) -> Series:
        metric = make_metric(namespace, name, dimensions)
        end = self._begins[-1] + RESOLUTION_S
        found = {
            int(begin): statistics.read(stat)
            for begin, statistics in self._store.read(metric, self._begins[0], end)
            if unit is None or statistics.unit == unit
        }
        return [found.get(begin) for begin in self._begins]
