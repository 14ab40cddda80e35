"""Events as SageMaker's metrics; where a container's own are read."""

from __future__ import annotations

from typing import Any

import pytest

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.published import EndpointMetrics, page_of
from merlin_simulator.control.cloudwatch.store import MetricStore, Statistics, make_metric
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import EndpointView, InstanceState, InstanceView

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
