"""What endpoints and containers publish to CloudWatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.published import (
    CONTAINERS,
    ContainerMetrics,
    Deltas,
    EndpointMetrics,
    Page,
    page_of,
    parse_samples,
)
from merlin_simulator.control.cloudwatch.store import MetricStore, Statistics, make_metric
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import EndpointView, InstanceState, InstanceView
from simulator.tests.unit.plain_http import plain_http

START = 1795572000.0
WHERE = {"EndpointName": "shop", "VariantName": "one"}


def instance(name: str, state: InstanceState, cpu: float, in_flight: int = 0) -> InstanceView:
    return InstanceView(
        name, "http://x", state, "", 500, 1000, 30, 300, in_flight, (), cpu, variant="one"
    )


VIEW = EndpointView(
    "shop",
    True,
    "s3://models/",
    "Enabled",
    0,
    (
        instance("one-1", InstanceState.IN_SERVICE, 10.0, 3),
        instance("one-2", InstanceState.IN_SERVICE, 30.0, 1),
        instance("one-3", InstanceState.STARTING, 99.0),
    ),
)


@pytest.fixture
def store() -> MetricStore:
    return MetricStore()


@pytest.fixture
def metrics(store: MetricStore) -> EndpointMetrics:
    clock = Clock(wall=lambda: START, monotonic=lambda: 0.0)
    return EndpointMetrics(store, clock, lambda: (VIEW,), lambda *_: 4)


def read(store: MetricStore, name: str, namespace: str = "AWS/SageMaker") -> Statistics | None:
    found = store.read(make_metric(namespace, name, WHERE), START, START + 60)
    return found[0][1] if found else None


def tell(metrics: EndpointMetrics, kind: str, **fields: Any) -> None:
    log = EventLog().tagged(variant="one")
    log.listen(lambda event: metrics.hear("shop", event))
    common = {"target_model": "a.tar.gz", "seconds": 0.5, "waiting_seconds": 0.1, "cold": False}
    log.tell(kind, "one-1", **{**common, **fields})


def test_an_answered_invocation(store: MetricStore, metrics: EndpointMetrics) -> None:
    tell(metrics, "invoked", status=200)
    expected = {
        "Invocations": (1.0, "None"),
        "InvocationsPerInstance": (0.25, "None"),
        "ModelLatency": (400_000.0, "Microseconds"),
        "OverheadLatency": (100_000.0, "Microseconds"),
        "ModelCacheHit": (1.0, "None"),
        "Invocation4XXErrors": (0.0, "None"),
        "Invocation5XXErrors": (0.0, "None"),
        "InvocationModelErrors": (0.0, "None"),
    }
    for name, (total, unit) in expected.items():
        found = read(store, name)
        assert found is not None, name
        assert found.total == pytest.approx(total), name
        assert (found.count, found.unit) == (1, unit), name
    assert {metric.name for metric in store.metrics()} == expected.keys()


def test_a_failed_invocation(store: MetricStore, metrics: EndpointMetrics) -> None:
    tell(metrics, "invocation_failed", status=424, original_status=500, error="ModelError")
    tell(metrics, "invoked", status=200)
    for name, total in [
        ("Invocation5XXErrors", 1.0),
        ("InvocationModelErrors", 1.0),
        ("Invocation4XXErrors", 0.0),
    ]:
        found = read(store, name)
        assert found is not None
        assert (found.total, found.count) == (total, 2)


def test_instances_are_looked_at(store: MetricStore, metrics: EndpointMetrics) -> None:
    """Those in service; a variant that nobody asks has zeros."""
    metrics.gauge(START)
    for name, values in [
        ("CPUUtilization", (10.0, 30.0)),
        ("MemoryUtilization", (50.0, 50.0)),
        ("DiskUtilization", (10.0, 10.0)),
        ("LoadedModelCount", (0.0, 0.0)),
    ]:
        found = read(store, name, "/aws/sagemaker/Endpoints")
        assert found is not None
        assert (found.least, found.most, found.count) == (*values, 2), name
    silent = read(store, "InvocationsPerInstance")
    assert silent is not None
    assert (silent.total, silent.count) == (0.0, 1)
    assert read(store, "Invocations") is None


def test_requests_at_once(store: MetricStore, metrics: EndpointMetrics) -> None:
    metrics.gauge_concurrency()
    found = read(store, "ConcurrentRequestsPerModel")
    assert found is not None
    assert found.most == 4.0


@pytest.mark.parametrize(
    ("container", "config", "page"),
    [
        ({}, None, ("/metrics", 60.0)),
        ({}, {"EnableDetailedObservability": False}, None),
        ({"ContainerMetricsConfig": {"MetricsEndpoints": []}}, {}, ("/metrics", 60.0)),
        (
            {
                "ContainerMetricsConfig": {
                    "MetricsEndpoints": [
                        {"MetricsEndpointPath": "/m", "MetricPublishFrequencyInSeconds": 10}
                    ]
                }
            },
            {"EnableDetailedObservability": True},
            ("/m", 10.0),
        ),
    ],
)
def test_where_a_container_has_its_metrics(
    container: dict[str, Any], config: dict[str, Any] | None, page: tuple[str, float] | None
) -> None:
    assert page_of(container, config) == page


LONG = "".join(f'things{{number="{number}",filling="{"x" * 600}"}} 1\n' for number in range(1500))


async def published(texts: Sequence[str]) -> MetricStore:
    """What the store has of instances whose pages these are."""
    store = MetricStore()
    with plain_http(lambda _, path: texts[int(path.strip("/"))].encode()) as port:
        pages = [
            Page("shop", "all", f"all-{number}", f"http://127.0.0.1:{port}/{number}", 60.0)
            for number in range(len(texts))
        ]
        async with aiohttp.ClientSession() as http:
            await ContainerMetrics(store, Clock(), lambda: pages).look(http)
    return store


async def test_a_long_page_is_read_to_its_end() -> None:
    store = await published([LONG])
    numbers = {dict(one.dimensions)["number"] for one in store.metrics()}
    assert numbers == {str(number) for number in range(1500)}


@pytest.mark.parametrize("bad", ["<html>", 'asked{code="200", ="x"} 1\n', "x" * (9 * 1024 * 1024)])
async def test_a_page_that_is_none_leaves_those_of_others(bad: str) -> None:
    store = await published([bad, "things 7\n"])
    (metric,) = store.metrics()
    assert (metric.namespace, metric.name) == (CONTAINERS, "things")
    assert dict(metric.dimensions)["InstanceId"] == "all-1"


PAGE = """# HELP serve_invocations_total Invocations.
# TYPE serve_invocations_total counter
serve_invocations_total{code="200",step=""} %d
# TYPE serve_models_loaded gauge
serve_models_loaded 3
# TYPE serve_load_seconds histogram
serve_load_seconds_bucket{le="1"} 1
serve_load_seconds_bucket{le="+Inf"} 2
serve_load_seconds_sum %s
serve_load_seconds_count 2
serve_load_seconds_created 1.7e9
# TYPE rate gauge
rate NaN
untyped_things 7
"""


def publish(page: str, deltas: Deltas) -> dict[str, float]:
    return {sample.name: sample.value for sample in deltas.of(parse_samples(page))}


def test_totals_are_published_as_what_came_since() -> None:
    deltas = Deltas()
    assert publish(PAGE % (5, "1.5"), deltas) == {"serve_models_loaded": 3, "untyped_things": 7}
    assert publish(PAGE % (9, "2.0"), deltas) == {
        "serve_invocations_total": 4,
        "serve_models_loaded": 3,
        "serve_load_seconds_sum": 0.5,
        "serve_load_seconds_count": 0,
        "untyped_things": 7,
    }


def test_a_total_that_comes_later_was_nothing_before() -> None:
    """A model's, as soon as it is asked."""
    deltas = Deltas()
    publish("# TYPE a counter\na_total 5\n", deltas)
    page = "# TYPE a counter\na_total 6\n# TYPE b counter\nb_total 3\n"
    assert publish(page, deltas) == {"a_total": 1, "b_total": 3}


def test_a_total_that_began_again_is_what_it_is() -> None:
    deltas = Deltas()
    publish(PAGE % (100, "9.0"), deltas)
    assert publish(PAGE % (2, "0.5"), deltas)["serve_invocations_total"] == 2


def test_labels_without_a_value_are_no_dimensions() -> None:
    (sample,) = [one for one in parse_samples(PAGE % (1, "1")) if one.name.endswith("ns_total")]
    assert sample.labels == {("code", "200")}


def test_what_is_no_page_is_an_error() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        parse_samples("<html>no metrics</html> {")


@pytest.mark.parametrize("line", ['a{b="c", ="e"} 1', '{"x.y,z}"q"} 3', "a{b", "{", "a{b} 1"])
def test_what_no_parser_expects_is_no_page(line: str) -> None:
    """One container's nonsense is an error of the one kind that its reader awaits."""
    with pytest.raises(ValueError, match="no Prometheus text"):
        parse_samples(f"{line}\n")
