"""All metrics in one call, and what its answer says."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from merlin_deploy.status.metrics import Span, make_queries, read_answer

NOW = datetime(2026, 6, 1, 12, 34, 56, tzinfo=timezone.utc)
HOUR = Span(NOW, 60)


def test_span_ends_with_the_minute_that_runs() -> None:
    """An hour has 60 minutes, the one that runs among them."""
    assert HOUR.end == NOW.replace(minute=35, second=0)
    assert HOUR.start == NOW.replace(hour=11, minute=35, second=0)


@pytest.mark.parametrize("minutes", [1, 7, 60, 1440])
def test_query_is_one_that_cloudwatch_takes(minutes: int) -> None:
    """botocore's validator finds nothing, and periods begin where CloudWatch cuts time."""
    span = Span(NOW, minutes)
    members = make_queries("shop", span)
    shape = botocore.session.get_session().get_service_model("cloudwatch")
    asked = shape.operation_model("GetMetricData").input_shape
    assert not ParamValidator().validate(members, asked).has_errors()
    longest = max(one["MetricStat"]["Period"] for one in members["MetricDataQueries"])
    assert members["StartTime"].timestamp() % longest == 0
    assert members["StartTime"] <= span.start


def test_answer_is_added_up() -> None:
    """Sums are of the span's minutes alone; ratios are of requests, not of minutes."""
    early, late = HOUR.start, HOUR.end - timedelta(minutes=2)
    before = early - timedelta(minutes=1)
    part = read_answer(
        [
            result("invocations", {before: 1000, early: 6, late: 4}),
            result("errors4xx", {late: 1}),
            result("hits", {early: 6, late: 1}),
            result("lookups", {early: 6, late: 4}),
            result("waits", {late: 6_000_000}),
            result("waiting", {late: 3}),
        ],
        HOUR,
    )
    assert (part.invocations, part.errors_4xx, part.errors_5xx) == (10, 1, 0)
    assert part.invocations_by_minute == (6, *[0] * 57, 4, 0)
    assert part.cache_hit_ratio == 0.7
    assert part.loading_wait_ms == 2000.0


def test_percentiles_are_those_of_periods() -> None:
    """The median of most requests, and the p99 of the worst period; in ms."""
    first, second, third = (HOUR.start + timedelta(minutes=minutes) for minutes in (0, 5, 10))
    part = read_answer(
        [
            result("p50", {first: 90_000, second: 5_000, third: 1_000}),
            result("p99", {first: 95_000, second: 9_000, third: 2_000}),
            result("answers", {first: 2, second: 100, third: 20}),
        ],
        HOUR,
    )
    assert part.latency_period_minutes == 5
    assert (part.latency_p50_ms, part.latency_p99_ms) == (5.0, 95.0)


def test_minute_that_runs_is_not_yet_counted() -> None:
    """Of it some instances may not have told how many models they have; an only one is taken."""
    running = HOUR.end - timedelta(minutes=1)
    whole = running - timedelta(minutes=1)
    both = read_answer([result("loaded", {whole: 40, running: 20})], HOUR)
    one = read_answer([result("loaded", {running: 20})], HOUR)
    assert (both.loaded_models, one.loaded_models) == (40, 20)


def test_nothing_is_known_of_nobody() -> None:
    """No requests: no ratio, no latency, no wait."""
    part = read_answer([], HOUR)
    assert part.invocations == 0
    unknown = (part.cache_hit_ratio, part.latency_p50_ms, part.latency_p99_ms, part.loaded_models)
    assert unknown == (None,) * 4


def result(name: str, values: dict[datetime, float]) -> dict[str, Any]:
    """One of MetricDataResults."""
    return {"Id": name, "Timestamps": list(values), "Values": list(values.values())}
