"""/metrics: sums of what was told, gauges of what is there, under CloudWatch's names."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from merlin_simulator.watch.cloudwatch import CloudWatchMetrics, make_metrics_routes
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import (
    EndpointView,
    InstanceState,
    InstanceView,
    ModelState,
    ModelView,
)


class Endpoint:
    """Something to look at: two instances in service and one that starts."""

    def __init__(self) -> None:
        self.instances: tuple[InstanceView, ...] = (
            _instance("instance-1", InstanceState.IN_SERVICE, loaded=3, memory_used=1000),
            _instance("instance-2", InstanceState.IN_SERVICE, loaded=1, memory_used=None),
            _instance("instance-3", InstanceState.STARTING, loaded=0, memory_used=0),
        )

    def view(self) -> EndpointView:
        return EndpointView("shop", True, "s3://bucket/models/", "Enabled", 0, self.instances)


def _instance(
    name: str, state: InstanceState, loaded: int, memory_used: int | None
) -> InstanceView:
    models = tuple(_model(f"{n}.tar.gz", ModelState.LOADED) for n in range(loaded))
    models += (_model("unloaded.tar.gz", ModelState.ON_DISK),)
    return InstanceView(name, "http://x", state, "", memory_used, 4000, 50, None, 0, models)


def _model(target_model: str, state: ModelState) -> ModelView:
    return ModelView(target_model, target_model, state, 10, 20, 0, 0, None)


@pytest.fixture
def log() -> EventLog:
    return EventLog()


@pytest.fixture
def metrics(log: EventLog) -> CloudWatchMetrics:
    return CloudWatchMetrics(log, Endpoint())


Samples = dict[tuple[str, str], float]


def samples(metrics: CloudWatchMetrics) -> Samples:
    """Every sample by its name and instance, as a scraper reads them."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, sample.labels["InstanceName"]): sample.value
        for family in families
        for sample in family.samples
    }


def invoked(log: EventLog, instance: str, *, cold: bool, seconds: float, waiting: float) -> None:
    log.tell(
        "invoked",
        instance,
        target_model="a.tar.gz",
        status=200,
        seconds=seconds,
        cold=cold,
        request_id="r",
        cold_seconds=waiting,
        waiting_seconds=waiting,
    )


def failed(
    log: EventLog,
    status: int,
    error: str,
    instance: str | None = "instance-1",
    original: int | None = None,
) -> None:
    log.tell(
        "invocation_failed",
        instance,
        target_model="a.tar.gz",
        status=status,
        seconds=0.1,
        cold=False,
        error=error,
        message="no",
        request_id="r",
        original_status=original,
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("download_finished", "ModelDownloadingTime"),
        ("loaded", "ModelLoadingTime"),
        ("unloaded", "ModelUnloadingTime"),
    ],
)
def test_times_are_microseconds(
    log: EventLog, metrics: CloudWatchMetrics, kind: str, name: str
) -> None:
    """Sums are microseconds over the events told, counts are how many, each per instance."""
    for seconds in (0.25, 1.5):
        log.tell(kind, "instance-1", target_model="a", seconds=seconds, bytes=1, reason="507")
    log.tell(kind, "instance-2", target_model="a", seconds=3, bytes=1, reason="507")
    found = samples(metrics)
    assert found[f"{name}_sum", "instance-1"] == 1_750_000
    assert found[f"{name}_count", "instance-1"] == 2
    assert found[f"{name}_sum", "instance-2"] == 3_000_000


def test_latencies_split_an_invocation(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """ModelLatency and OverheadLatency are the whole of it; only cold ones waited for loading."""
    invoked(log, "instance-1", cold=True, seconds=2.5, waiting=2.0)
    invoked(log, "instance-1", cold=False, seconds=0.25, waiting=0.125)
    found = samples(metrics)
    assert found["ModelLatency_sum", "instance-1"] == 625_000
    assert found["OverheadLatency_sum", "instance-1"] == 2_125_000
    assert found["OverheadLatency_count", "instance-1"] == 2
    assert found["ModelLoadingWaitTime_sum", "instance-1"] == 2_000_000
    assert found["ModelLoadingWaitTime_count", "instance-1"] == 1


def test_the_cache_hits_average_is_the_hit_ratio(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """Hits are the sum, invocations that reached a model the count, failed ones too."""
    for cold in (True, False, False):
        invoked(log, "instance-1", cold=cold, seconds=1, waiting=0)
    failed(log, 424, "ModelError")
    failed(log, 400, "ValidationError")
    found = samples(metrics)
    assert found["ModelCacheHit_sum", "instance-1"] == 3
    assert found["ModelCacheHit_count", "instance-1"] == 4


def test_a_single_models_endpoint_has_no_cache(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """An invocation without a target model is neither a hit nor a miss."""
    log.tell(
        "invoked",
        "instance-1",
        status=200,
        seconds=1,
        cold=False,
        request_id="r",
        cold_seconds=0.0,
        waiting_seconds=0.0,
    )
    found = samples(metrics)
    assert found["Invocations_total", "instance-1"] == 1
    assert ("ModelCacheHit_count", "instance-1") not in found


def test_invocations_and_errors_are_counted(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """Failed ones are invocations too; only the container's errors are the model's."""
    invoked(log, "instance-1", cold=False, seconds=1, waiting=0)
    failed(log, 424, "ModelError", original=400)
    failed(log, 503, "ServiceUnavailable", instance=None)
    found = samples(metrics)
    assert found["Invocations_total", "instance-1"] == 2
    assert found["Invocations_total", ""] == 1
    assert found["Invocation4XXErrors_total", "instance-1"] == 1
    assert found["Invocation5XXErrors_total", ""] == 1
    assert found["InvocationModelErrors_total", "instance-1"] == 1
    assert ("InvocationModelErrors_total", "") not in found


@pytest.mark.parametrize("original", [500, 507, 0])
def test_a_model_error_counts_by_the_containers_status(
    log: EventLog, metrics: CloudWatchMetrics, original: int
) -> None:
    """The caller's 424 says nothing of it; a container that did not answer counts as 5xx."""
    failed(log, 424, "ModelError", original=original)
    found = samples(metrics)
    assert found["Invocation5XXErrors_total", "instance-1"] == 1
    assert ("Invocation4XXErrors_total", "instance-1") not in found


def test_an_invocation_is_shared_by_the_instances_in_service(
    log: EventLog, metrics: CloudWatchMetrics
) -> None:
    """InvocationsPerInstance adds one divided by the instances that are in service."""
    for _ in range(3):
        invoked(log, "instance-1", cold=False, seconds=1, waiting=0)
    assert samples(metrics)["InvocationsPerInstance_total", "instance-1"] == 1.5


def test_instances_that_leave_have_no_share(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """An invocation is divided by the instances that are in service when it ends."""
    log.tell("instance_in_service", "instance-3", seconds=1.0)
    log.tell("instance_unhealthy", "instance-1", message="no answer")
    log.tell("instance_ended", "instance-2", message="killed")
    invoked(log, "instance-3", cold=False, seconds=1, waiting=0)
    assert samples(metrics)["InvocationsPerInstance_total", "instance-3"] == 1.0


def test_gauges_are_read_at_each_scrape(log: EventLog) -> None:
    """Loaded models are counted, utilizations are percent, what is not known is left out."""
    endpoint = Endpoint()
    metrics = CloudWatchMetrics(log, endpoint)
    found = samples(metrics)
    assert found["LoadedModelCount", "instance-1"] == 3
    assert found["MemoryUtilization", "instance-1"] == 25.0
    assert ("MemoryUtilization", "instance-2") not in found
    assert ("DiskUtilization", "instance-1") not in found
    endpoint.instances = endpoint.instances[1:]
    assert ("LoadedModelCount", "instance-1") not in samples(metrics)


def test_every_sample_has_the_dimensions(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """Each sample is labelled with the endpoint, the variant and the instance."""
    invoked(log, "instance-1", cold=True, seconds=1, waiting=0)
    families = list(text_string_to_metric_families(metrics.text().decode()))
    labels = [sample.labels for family in families for sample in family.samples]
    assert labels
    assert {frozenset(names) for names in labels} == {
        frozenset({"EndpointName", "VariantName", "InstanceName"})
    }
    assert {names["EndpointName"] for names in labels} == {"shop"}


def test_it_stops_listening(log: EventLog, metrics: CloudWatchMetrics) -> None:
    """After close nothing is added any more."""
    metrics.close()
    log.tell("loaded", "instance-1", target_model="a", seconds=1.0, memory=None)
    assert ("ModelLoadingTime_count", "instance-1") not in samples(metrics)


async def test_the_route_answers_as_scrapers_expect(metrics: CloudWatchMetrics) -> None:
    """/metrics is Prometheus' text format and is not kept by caches."""
    transport = httpx.ASGITransport(Starlette(routes=make_metrics_routes(metrics)))
    async with httpx.AsyncClient(transport=transport, base_url="http://simulator") as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert "LoadedModelCount" in answer.text
