"""PutMetricAlarm's members, one alarm for each threshold that is set.

Which metrics are watched: those of AWS's guide to multi-model endpoints (ModelCacheHit,
ModelLoadingWaitTime, ModelUnloadingTime), and errors. CloudWatch has times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deploy.config.config import Config
from deploy.wanted.names import VARIANT

_MICROSECONDS = 1000.0
#: What an alarm of ours may be called behind the endpoint's prefix; a name stays here when it is no
#: longer made, so that it goes.
_NAMES = frozenset(
    {
        "model-cache-hit",
        "model-loading-wait",
        "model-unloading",
        "errors-5xx",
        "errors-4xx",
        "latency-p99",
    }
)
#: Alarms that end an update.
_OF_UPDATES = ("errors-5xx", "latency-p99")


@dataclass(frozen=True)
class _Watch:
    """Of one threshold. statistic: CloudWatch's, or a percentile as it writes one."""

    name: str
    metric: str
    statistic: str
    threshold: float
    below: bool = False


def make_alarms(config: Config) -> tuple[dict[str, Any], ...]:
    """All of them."""
    return tuple(_make_alarm(config, watch) for watch in _watches(config))


def make_rollback_alarm_names(config: Config) -> tuple[str, ...]:
    """Those that say that an update is bad: errors and latency.

    New instances have nothing loaded, so those about loading would end every update.
    """
    prefix = make_alarm_prefix(config.endpoint.name)
    names = (alarm["AlarmName"] for alarm in make_alarms(config))
    return tuple(name for name in names if name.removeprefix(prefix) in _OF_UPDATES)


def make_alarm_prefix(endpoint_name: str) -> str:
    """What the names of an endpoint's alarms begin with, and no other's do: no name has a slash."""
    return f"{endpoint_name}/"


def is_alarm_of(endpoint_name: str, alarm_name: str) -> bool:
    """Whether make_alarms makes one of that name; others' may begin with the prefix, too."""
    prefix = make_alarm_prefix(endpoint_name)
    return alarm_name.startswith(prefix) and alarm_name.removeprefix(prefix) in _NAMES


def _watches(config: Config) -> Iterator[_Watch]:
    alarms = config.alarms
    of_many = config.endpoint.single_model is None
    if of_many and alarms.cache_hit_below is not None:
        yield _Watch("model-cache-hit", "ModelCacheHit", "Average", alarms.cache_hit_below, True)
    if of_many and (limit := alarms.loading_wait_above_ms) is not None:
        yield _Watch("model-loading-wait", "ModelLoadingWaitTime", "Average", limit * _MICROSECONDS)
    if of_many and (limit := alarms.unloading_above_ms) is not None:
        yield _Watch("model-unloading", "ModelUnloadingTime", "Average", limit * _MICROSECONDS)
    if alarms.errors_5xx_above is not None:
        yield _Watch("errors-5xx", "Invocation5XXErrors", "Sum", alarms.errors_5xx_above)
    if alarms.errors_4xx_above is not None:
        yield _Watch("errors-4xx", "Invocation4XXErrors", "Sum", alarms.errors_4xx_above)
    if (limit := alarms.latency_p99_above_ms) is not None:
        yield _Watch("latency-p99", "ModelLatency", "p99", limit * _MICROSECONDS)


def _make_alarm(config: Config, watch: _Watch) -> dict[str, Any]:
    statistic = (
        {"ExtendedStatistic": watch.statistic}
        if watch.statistic.startswith("p")
        else {"Statistic": watch.statistic}
    )
    sign = "Less" if watch.below else "Greater"
    return {
        "AlarmName": f"{make_alarm_prefix(config.endpoint.name)}{watch.name}",
        "AlarmDescription": f"{watch.metric} of the endpoint {config.endpoint.name}",
        "Namespace": "AWS/SageMaker",
        "MetricName": watch.metric,
        "Dimensions": [
            {"Name": "EndpointName", "Value": config.endpoint.name},
            {"Name": "VariantName", "Value": VARIANT},
        ],
        **statistic,
        "Period": 60,
        "EvaluationPeriods": config.alarms.minutes,
        "DatapointsToAlarm": config.alarms.minutes,
        "Threshold": watch.threshold,
        "ComparisonOperator": f"{sign}ThanThreshold",
        # An endpoint that nobody asks is none that fails.
        "TreatMissingData": "notBreaching",
        "AlarmActions": list(config.alarms.topics),
        "OKActions": list(config.alarms.topics),
    }
