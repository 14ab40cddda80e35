"""What a target-tracking policy watches: its metric, read from the store minute by minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from merlin_simulator.control.autoscaling.names import VariantId
from merlin_simulator.control.cloudwatch.queries import answer
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, MetricStore, make_metric
from merlin_simulator.control.errors import ServiceError

#: A value for each minute, the newest last.
Series = Sequence[float | None]
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
        return window.reckon(spec["Metrics"])
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
        found = answer(by_the_minute(queries), lambda *_: (), lambda _: ())
    except ServiceError as error:
        raise ServiceError(str(error)) from error  # by this service's own code
    if len(found) != 1:
        raise ServiceError(f"The Metrics are {len(found)} time series: expected one.")


def by_the_minute(queries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A policy's metrics as CloudWatch's queries, which have a period."""
    return [
        {**query, "MetricStat": {**query["MetricStat"], "Period": RESOLUTION_S}}
        if "MetricStat" in query
        else {**query, "Period": RESOLUTION_S}
        for query in queries
    ]


def _dimensions(spec: Mapping[str, Any]) -> dict[str, str]:
    return {one["Name"]: one["Value"] for one in spec.get("Dimensions") or ()}


class _Window:
    """The last whole minutes before now."""

    def __init__(self, store: MetricStore, now: float, minutes: int) -> None:
        self._store = store
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

    def reckon(self, queries: Sequence[Mapping[str, Any]]) -> Series:
        """By metric math; nothing came where these values have no result."""
        first, end = self._begins[0], self._begins[-1] + RESOLUTION_S
        try:
            (found,) = answer(
                by_the_minute(queries),
                lambda metric, *how: self._store.read(metric, first, end, *how),
                lambda _: self._begins,
            )
        except ServiceError:
            return [None] * len(self._begins)
        return [found.values.get(begin) for begin in self._begins]
