"""All metrics of `status` in one GetMetricData call, and how to read its answer. No I/O.

Names, units and statistics: AWS, "Amazon SageMaker AI metrics in Amazon CloudWatch". Times are
microseconds. Each instance reports LoadedModelCount once a minute, so the sum is that of all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from merlin_deploy.desired import INSTANCES, INVOCATIONS, MICROSECONDS, make_dimensions
from merlin_deploy.status.report import TrafficPart

_MINUTE_S = 60
#: Into so many periods the time is cut for percentiles.
_PERIODS = 12
#: By the query's id: namespace, metric, statistic. All of a minute.
_BY_MINUTE = {
    "invocations": (INVOCATIONS, "Invocations", "Sum"),
    "errors4xx": (INVOCATIONS, "Invocation4XXErrors", "Sum"),
    "errors5xx": (INVOCATIONS, "Invocation5XXErrors", "Sum"),
    "hits": (INVOCATIONS, "ModelCacheHit", "Sum"),
    "lookups": (INVOCATIONS, "ModelCacheHit", "SampleCount"),
    "waits": (INVOCATIONS, "ModelLoadingWaitTime", "Sum"),
    "waiting": (INVOCATIONS, "ModelLoadingWaitTime", "SampleCount"),
    "loaded": (INSTANCES, "LoadedModelCount", "Sum"),
    "loadedeach": (INSTANCES, "LoadedModelCount", "Average"),
}
#: Of a longer period each.
_BY_PERIOD = {
    "p50": (INVOCATIONS, "ModelLatency", "p50"),
    "p99": (INVOCATIONS, "ModelLatency", "p99"),
    "answers": (INVOCATIONS, "ModelLatency", "SampleCount"),
}
#: Of one query: its values by when their periods begin, oldest first.
Series = Mapping[datetime, float]


@dataclass(frozen=True)
class Span:
    """The last minutes, the current one among them."""

    now: datetime
    minutes: int

    @property
    def end(self) -> datetime:
        """When the current minute is over."""
        whole = math.floor(self.now.timestamp() / _MINUTE_S) + 1
        return datetime.fromtimestamp(whole * _MINUTE_S, timezone.utc)

    @property
    def start(self) -> datetime:
        """When the first minute begins."""
        return self.end - timedelta(minutes=self.minutes)

    @property
    def period_minutes(self) -> int:
        """One percentile is of so many minutes."""
        return max(1, self.minutes // _PERIODS)


def make_queries(endpoint_name: str, span: Span) -> dict[str, Any]:
    """Members of a GetMetricData call."""
    period_s = span.period_minutes * _MINUTE_S
    queries = [
        *(_make_query(endpoint_name, name, *of, _MINUTE_S) for name, of in _BY_MINUTE.items()),
        *(_make_query(endpoint_name, name, *of, period_s) for name, of in _BY_PERIOD.items()),
    ]
    # CloudWatch cuts time at multiples of a period.
    start = math.floor(span.start.timestamp() / period_s) * period_s
    return {
        "MetricDataQueries": queries,
        "StartTime": datetime.fromtimestamp(start, timezone.utc),
        "EndTime": span.end,
        "ScanBy": "TimestampAscending",
    }


def read_answer(results: Sequence[Mapping[str, Any]], span: Span) -> TrafficPart:
    """results: MetricDataResults of all pages."""
    series: dict[str, dict[datetime, float]] = {name: {} for name in (*_BY_MINUTE, *_BY_PERIOD)}
    for result in results:
        pairs = zip(result["Timestamps"], result["Values"], strict=True)
        series[result["Id"]].update(pairs)
    for name in _BY_MINUTE:
        series[name] = {at: it for at, it in series[name].items() if at >= span.start}
    totals = {name: sum(series[name].values()) for name in _BY_MINUTE}
    waited_us = _divide(totals["waits"], totals["waiting"])
    loaded = _find_newest_whole(series["loaded"], span)
    return TrafficPart(
        minutes=span.minutes,
        start=span.start,
        invocations=round(totals["invocations"]),
        invocations_by_minute=_count_by_minute(series["invocations"], span),
        errors_4xx=round(totals["errors4xx"]),
        errors_5xx=round(totals["errors5xx"]),
        cache_hit_ratio=_divide(totals["hits"], totals["lookups"]),
        loaded_models=None if loaded is None else round(loaded),
        loaded_models_per_instance=_find_newest_whole(series["loadedeach"], span),
        latency_p50_ms=_convert_to_ms(_find_median(series["p50"], series["answers"])),
        latency_p99_ms=_convert_to_ms(max(series["p99"].values(), default=None)),
        latency_period_minutes=span.period_minutes,
        loading_wait_ms=_convert_to_ms(waited_us),
    )


def _make_query(
    endpoint_name: str, name: str, namespace: str, metric: str, statistic: str, period_s: int
) -> dict[str, Any]:
    return {
        "Id": name,
        "MetricStat": {
            "Metric": {
                "Namespace": namespace,
                "MetricName": metric,
                "Dimensions": make_dimensions(endpoint_name),
            },
            "Period": period_s,
            "Stat": statistic,
        },
        "ReturnData": True,
    }


def _count_by_minute(series: Series, span: Span) -> tuple[int, ...]:
    minutes = (span.start + timedelta(minutes=number) for number in range(span.minutes))
    return tuple(round(series.get(minute, 0.0)) for minute in minutes)


def _find_newest_whole(series: Series, span: Span) -> float | None:
    """The minute before the current one, in which some instances may not have reported yet."""
    current = span.end - timedelta(minutes=1)
    whole = [at for at in series if at < current] or list(series)
    return series[max(whole)] if whole else None


def _find_median(values: Series, counts: Series) -> float | None:
    """The median of values, each as often as its count."""
    half, seen = sum(counts.get(at, 1.0) for at in values) / 2, 0.0
    for at in sorted(values, key=lambda at: values[at]):
        seen += counts.get(at, 1.0)
        if seen >= half:
            return values[at]
    return None


def _divide(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _convert_to_ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / MICROSECONDS
