"""Statistic sets by the minute, and what is read of them."""

from __future__ import annotations

import pytest

from merlin_simulator.control.cloudwatch.store import MetricStore, Statistics, make_metric

METRIC = make_metric("AWS/SageMaker", "ModelLatency", {"EndpointName": "shop"})


def test_statistics_of_a_minute() -> None:
    store = MetricStore()
    for value in (3.0, 1.0, 2.0):
        store.add(METRIC, value, 125.0, "Microseconds")
    ((begin, statistics),) = store.read(METRIC, 120.0, 180.0)
    assert begin == 120.0
    assert statistics.unit == "Microseconds"
    names = ("SampleCount", "Sum", "Average", "Minimum", "Maximum", "p50", "p100", "p0", "other")
    assert [statistics.read(name) for name in names] == [3, 6, 2, 1, 3, 2, 3, 1, None]


def test_a_longer_period_has_all_of_its_minutes() -> None:
    store = MetricStore()
    for minute in (4, 5, 9, 10):
        store.add(METRIC, float(minute), minute * 60.0)
    found = [(begin, one.total) for begin, one in store.read(METRIC, 300.0, 660.0, 300)]
    assert found == [(300.0, 14.0), (600.0, 10.0)]


def test_reading_a_longer_period_changes_nothing() -> None:
    store = MetricStore()
    for minute in range(5):
        store.add(METRIC, 1.0, minute * 60.0)
    for _ in range(2):
        ((_, statistics),) = store.read(METRIC, 0.0, 300.0, 300)
        assert statistics.count == 5
    assert [one.count for _, one in store.read(METRIC, 0.0, 300.0)] == [1] * 5


@pytest.mark.parametrize("statistic", ["p1", "p50", "p90", "p99"])
def test_percentiles_of_many_values_are_near(statistic: str) -> None:
    statistics = Statistics()
    for number in range(1, 20_001):
        statistics.add(number * 1.0003)
    assert len(statistics.spread()) <= 1000
    exact = float(statistic[1:]) / 100 * 20_000 * 1.0003
    assert statistics.read(statistic) == pytest.approx(exact, rel=0.06)


def test_a_percentile_counts_how_often_a_value_came() -> None:
    statistics = Statistics()
    statistics.add(1.0, 98.0)
    statistics.add(100.0, 2.0)
    assert (statistics.read("p98"), statistics.read("p99")) == (1.0, 100.0)


def test_a_set_whose_values_nobody_knows_has_no_percentiles() -> None:
    store = MetricStore()
    store.add_set(METRIC, Statistics(10.0, 50.0, 1.0, 9.0), 0.0)
    ((_, statistics),) = store.read(METRIC, 0.0, 60.0)
    assert (statistics.read("Average"), statistics.read("p50")) == (5.0, None)


def test_old_minutes_keep_their_sums_and_few_values() -> None:
    store = MetricStore()
    for number in range(500):
        store.add(METRIC, 1.0 + number / 1000, 0.0)
    before = store.read(METRIC, 0.0, 60.0)[0][1].read("p50")
    store.add(METRIC, 1.0, 180 * 60.0)
    ((_, statistics),) = store.read(METRIC, 0.0, 60.0)
    assert len(statistics.spread()) <= 50
    assert statistics.count == 500
    assert statistics.read("p50") == pytest.approx(before, rel=0.05)


def test_metrics_that_are_forgotten() -> None:
    store = MetricStore()
    other = make_metric("AWS/SageMaker", "Invocations", {"EndpointName": "other"})
    for metric in (METRIC, other):
        store.add(metric, 1.0, 0.0)
    store.forget("AWS/SageMaker", {"EndpointName": "shop"})
    assert list(store.metrics()) == [other]
