"""Series as events that CloudWatch takes, with the numbers that were counted."""

from __future__ import annotations

import json
import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.telemetry.emf import spread_values, write_events
from container.telemetry.series import COUNTER, GAUGE, HISTOGRAM, Distribution, Series, Value
from tests.support.cloudwatch_metrics import metrics_of

BOUNDS = (0.001, 0.01, 0.1, 1.0)


def series(name: str, value: Value, kind: str = COUNTER, **labels: str) -> Series:
    return Series(name, name, kind, labels, value)


def histogram(*observed: float, bounds: tuple[float, ...] = BOUNDS) -> Distribution:
    counts = [0] * (len(bounds) + 1)
    for each in observed:
        counts[bisect_left(bounds, each)] += 1
    return Distribution(bounds, tuple(counts), math.fsum(observed))


def test_an_event_has_what_has_the_same_labels() -> None:
    """Labels and fixed dimensions are its dimensions; units follow from the names."""
    written = write_events(
        [
            series("serve_request_bytes_total", 7, model_name="a"),
            series("nv_inference_queue_duration_us", 5, model_name="a"),
            series("serve_models_loaded", 2.0, GAUGE),
            series("serve_invocations_total", 1, model_name="a", step=""),
            series("unknown", float("nan"), GAUGE),
        ],
        {"Endpoint": "shop"},
        "Merlin",
        7,
    )
    of_a, of_all = map(json.loads, written)
    assert of_a == {
        "_aws": {
            "Timestamp": 7,
            "CloudWatchMetrics": [
                {
                    "Namespace": "Merlin",
                    "Dimensions": [["Endpoint", "model_name"]],
                    "Metrics": [
                        {"Name": "serve_request_bytes_total", "Unit": "Bytes"},
                        {"Name": "nv_inference_queue_duration_us", "Unit": "Microseconds"},
                        {"Name": "serve_invocations_total", "Unit": "Count"},
                    ],
                }
            ],
        },
        "Endpoint": "shop",
        "model_name": "a",
        "serve_request_bytes_total": 7,
        "nv_inference_queue_duration_us": 5,
        "serve_invocations_total": 1,
    }
    assert of_all["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [{"Name": "serve_models_loaded"}]


def test_no_event_has_more_metrics_than_the_format_allows() -> None:
    """100 in one event; the rest goes into the next."""
    many = [series(f"m{n}", n + 1.0) for n in range(250)]
    events = [json.loads(event) for event in write_events(many, {}, "n", 0)]
    sizes = [len(event["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for event in events]
    assert sizes == [100, 100, 50]


def test_a_series_of_more_dimensions_than_cloudwatch_takes_is_left_out() -> None:
    """It would be refused; with one fewer it is sent."""
    labels = {f"l{n}": "x" for n in range(29)}
    for fixed, sent in (({"a": "1"}, 1), ({"a": "1", "b": "2"}, 0)):
        assert len(list(write_events([series("m", 1, **labels)], fixed, "n", 0))) == sent


@pytest.mark.parametrize(
    ("value", "shown"),
    [("Größe", "Gr\\xf6\\xdfe"), ("a\nb", "a\\nb"), ("x" * 2000, "x" * 1024), ("a b", "a b")],
)
def test_dimensions_are_what_cloudwatch_takes(value: str, shown: str) -> None:
    """ASCII without control characters, 1,024 of them."""
    (event,) = write_events([series("m", 1, model=value)], {}, "n", 0)
    assert json.loads(event)["model"] == shown
    assert metrics_of([event], "n").of("m", model=shown).sum == 1


def test_a_label_goes_before_a_fixed_dimension_of_its_name() -> None:
    """Else two series were one. Names that are known are refused at the start."""
    (event,) = write_events([series("m", 1, zone="own")], {"zone": "fixed"}, "n", 0)
    assert json.loads(event)["zone"] == "own"


def test_a_single_observation_is_sent_as_it_was() -> None:
    """Not as its bucket's bound."""
    ((value, count),) = spread_values(histogram(0.0032))
    assert (round(value, 9), count) == (0.0032, 1)


def test_what_is_beyond_the_last_bound_is_told_by_the_sum() -> None:
    """The last bucket has none of its own."""
    values = dict(spread_values(histogram(0.01, 70.0)))
    assert {round(value, 6): count for value, count in values.items()} == {0.01: 1, 70.0: 1}


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=40))
def test_the_values_have_count_sum_and_buckets_of_what_was_observed(observed: list[float]) -> None:
    """So SampleCount, Sum and Average are exact, and a percentile lies in its bucket."""
    spread = histogram(*observed)
    pairs = spread_values(spread)
    assert sum(count for _, count in pairs) == len(observed)
    assert sum(v * count for v, count in pairs) == pytest.approx(sum(observed), abs=1e-9)
    held = [index for index, count in enumerate(spread.counts) if count]
    for (value, count), index in zip(pairs, held, strict=True):
        assert count == spread.counts[index]
        low, high = (0.0, *BOUNDS)[index], (*BOUNDS, 5.0)[index]
        assert low - 1e-9 <= value <= high + 1e-9


def test_a_histogram_of_more_values_than_an_event_takes_becomes_several() -> None:
    """100 in each; together they are all."""
    bounds = tuple(float(n) for n in range(1, 250))
    observed = [n - 0.5 for n in range(1, 250)]
    spread = histogram(*observed, bounds=bounds)
    events = list(write_events([series("h_seconds", spread, HISTOGRAM)], {}, "n", 0))
    assert len(events) == 3
    found = metrics_of(events, "n").of("h_seconds")
    assert found.sample_count == 249
    assert found.sum == pytest.approx(sum(observed))
