"""Metrics into CloudWatch, which moto plays: what is summed there is what was asked here."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from prometheus_client import CollectorRegistry, Gauge

from container.settings.reading import Settings, read_settings
from container.telemetry.cloudwatch import MetricsPublisher
from container.telemetry.event_queue import EventQueue
from serve.telemetry.exposition import ModelNumbers
from serve.telemetry.invocation_record import InvocationRecord
from serve.telemetry.meters import ModelMeter
from serve.telemetry.metrics import Metrics
from serve.telemetry.page import Sources
from tests.support.clock import Clock
from tests.support.cloudwatch_metrics import CloudWatchMetrics, metrics_of, read_events
from tests.unit.container.conftest import WAIT_S, until

SETTINGS = {
    "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": "true",
    "SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP": "/endpoint",
    "SAGEMAKER_TRITON_CLOUDWATCH_METRIC_NAMESPACE": "Merlin",
    "SERVE_METRIC_DIMENSIONS": "Endpoint=shop, Variant=a=b",
}
FIXED = {"Endpoint": "shop", "Variant": "a=b"}


def settings() -> Settings:
    return read_settings(SETTINGS)


@pytest.fixture
def logs() -> Iterator[Any]:
    """A client of CloudWatch Logs in this process; it lasts as long as a thread that asks it."""
    with mock_aws():
        yield boto3.client(
            "logs", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        for thread in threading.enumerate():
            if thread.name == "cloudwatch":
                thread.join(30.0)
                assert not thread.is_alive()


@dataclass
class Instance:
    """What a container counts: its models, and tritonserver's page."""

    metrics: Metrics = field(default_factory=Metrics)
    loaded: set[str] = field(default_factory=set)
    triton: dict[str, int] | None = None
    triton_takes_s: float = 0.0
    page: str | None = None
    pages: int = 0
    machine: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        Gauge("serve_memory_free_bytes", "x", registry=self.machine).set(1e9)

    def load(self, name: str) -> None:
        self.loaded.add(name)
        self.metrics.meters.begin(name).name_target(f"{name}.tar.gz")

    def invoke(self, name: str, times: int = 1, seconds: float = 0.02) -> None:
        """Also counted by tritonserver, if it is there."""
        for _ in range(times):
            record = InvocationRecord(name, status=200, seconds=seconds, request_bytes=10)
            self.metrics.meters.of(name).invoked(record)
        if self.triton is not None:
            self.triton[name] = self.triton.get(name, 0) + times

    def sources(self) -> Sources:
        return Sources(
            numbers=lambda: ModelNumbers(
                dict.fromkeys(self.loaded, 0), dict.fromkeys(self.loaded, 1000)
            ),
            machine=self._machine,
            triton=self._page,
        )

    async def _machine(self) -> CollectorRegistry:
        return self.machine

    async def _page(self) -> str:
        self.pages += 1
        await asyncio.sleep(self.triton_takes_s)
        if self.page is not None:
            return self.page
        if self.triton is None:
            return ""
        rows = [
            f'nv_inference_count{{model="{n}",version="1"}} {v}' for n, v in self.triton.items()
        ]
        return "\n".join(["# TYPE nv_inference_count counter", *rows, ""])

    def publisher(
        self,
        client: Any,
        interval_s: float = 60.0,
        queue: EventQueue | None = None,
    ) -> MetricsPublisher:
        return MetricsPublisher(
            settings(),
            self.metrics,
            self.sources(),
            client=lambda: client,
            interval_s=interval_s,
            backoff_s=(0.01, 0.01),
            queue=queue,
            stream="host",
        )

    def own(self, name: str, **labels: str) -> float:
        """What the metrics page says."""
        value: float = self.metrics.events.get_sample_value(name, labels)
        return value


@dataclass
class Failing:
    """A client whose calls fail with `error`, or take `takes_s`, for as long as these are set.

    held: until it is set, none returns.
    """

    client: Any
    error: Exception | None = None
    takes_s: float = 0.0
    held: threading.Event | None = None
    calls: int = 0

    def put_log_events(self, **arguments: Any) -> Any:
        self.calls += 1
        time.sleep(self.takes_s)
        if self.held is not None:
            self.held.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        return self.client.put_log_events(**arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


def client_error(code: str, status: int = 400) -> ClientError:
    metadata: Any = {"HTTPStatusCode": status}
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": metadata}, "PutLogEvents")


def summed(logs: Any) -> CloudWatchMetrics:
    return metrics_of(read_events(logs, "/endpoint"), "Merlin")


def invocations(found: CloudWatchMetrics, name: str) -> float:
    model = {"target_model": f"{name}.tar.gz", "model_name": name, "code": "200"}
    return found.of("serve_invocations_total", **FIXED, **model).sum


def triton_count(found: CloudWatchMetrics, name: str) -> float:
    model = {"target_model": f"{name}.tar.gz", "model_name": name, "version": "1"}
    return found.of("nv_inference_count", **FIXED, **model).sum


async def test_what_is_summed_is_what_was_asked(logs: Any) -> None:
    """Over several publications, of counters, histograms and gauges, ours and tritonserver's."""
    instance = Instance(triton={})
    publisher = instance.publisher(logs)
    instance.load("a")
    for times, seconds in ((3, 0.02), (0, 0.0), (4, 0.3), (1, 0.02)):
        instance.invoke("a", times, seconds)
        await publisher.publish()
    found = summed(logs)
    assert invocations(found, "a") == triton_count(found, "a") == 8
    part = {"target_model": "a.tar.gz", "part": "total"}
    total = found.of("serve_invocation_seconds", **FIXED, **part)
    assert total.sample_count == 8
    assert total.sum == pytest.approx(4 * 0.02 + 4 * 0.3)
    assert sorted(total.values)[3:5] == [pytest.approx(0.02), pytest.approx(0.3)]
    assert found.of("serve_memory_free_bytes", **FIXED).last == 1e9
    model = {"target_model": "a.tar.gz", "model_name": "a"}
    assert found.of("serve_request_bytes_total", **FIXED, **model).sum == 80
    assert found.of("serve_invocations_in_flight", **FIXED, **model).sample_count == 4


async def test_where_nothing_happened_no_counter_is_sent(logs: Any) -> None:
    """A metric that is sent is paid for."""
    instance = Instance()
    instance.load("a")
    await instance.publisher(logs).publish()
    assert summed(logs).names() == {
        "serve_memory_free_bytes",
        "serve_invocations_in_flight",
        "serve_model_memory_bytes",
    }


async def test_models_come_and_go_between_publications(logs: Any) -> None:
    """The last numbers of one that left are sent; one that comes back is not counted twice."""
    instance = Instance()
    publisher = instance.publisher(logs)
    instance.load("a")
    instance.invoke("a", 2)
    await publisher.publish()
    instance.invoke("a", 5)
    instance.loaded.remove("a")
    instance.load("b")  # and leaves before the next
    instance.invoke("b", 7)
    instance.loaded.remove("b")
    for _ in range(3):
        await publisher.publish()
    instance.load("a")
    instance.invoke("a", 1)
    await publisher.publish()
    found = summed(logs)
    assert (invocations(found, "a"), invocations(found, "b")) == (8, 7)


async def test_a_model_that_was_forgotten_counts_anew(logs: Any) -> None:
    """After a thousand others its meter is another one, which may have more than the old one."""
    instance = Instance()
    publisher = instance.publisher(logs)
    instance.load("a")
    instance.invoke("a", 2)
    await publisher.publish()
    instance.loaded.remove("a")
    for number in range(1_001):
        instance.metrics.meters.begin(f"other{number}")
    await publisher.publish()
    instance.load("a")
    instance.invoke("a", 3)
    await publisher.publish()
    assert invocations(summed(logs), "a") == 5


@pytest.mark.slow
async def test_models_that_were_forgotten_are_forgotten_here(logs: Any) -> None:
    """A container that lives for months does not remember all that it ever had."""

    def meters() -> int:
        gc.collect()
        return sum(isinstance(each, ModelMeter) for each in gc.get_objects())

    instance, before = Instance(), meters()
    publisher = instance.publisher(Failing(logs))
    for number in range(1_500):
        instance.metrics.meters.begin(f"m{number}").invoked(InvocationRecord(f"m{number}"))
        if number in (700, 1_400):
            await publisher.publish()
    await publisher.publish()
    await publisher.publish()
    assert meters() - before <= 1_001


async def test_asked_of_models_that_are_not_there(logs: Any) -> None:
    """Empty labels are no dimensions: CloudWatch takes none."""
    instance = Instance()
    record = InvocationRecord("x", status=404, seconds=1.0)
    instance.metrics.meters.unknown.invoked(record)
    await instance.publisher(logs).publish()
    assert summed(logs).of("serve_invocations_total", **FIXED, code="404").sum == 1


async def test_a_restart_of_tritonserver_takes_nothing_away(logs: Any) -> None:
    """Its counters begin anew; between its two lives its page does not come."""
    instance = Instance(triton={})
    publisher = instance.publisher(logs)
    instance.load("a")
    instance.invoke("a", 10)
    await publisher.publish()
    instance.triton = None
    await publisher.publish()
    instance.triton = {"a": 4}
    await publisher.publish()
    assert triton_count(summed(logs), "a") == 14


async def test_a_new_tritonserver_that_has_come_further_than_the_last(logs: Any) -> None:
    """All that it counted is new, though its numbers are not lower than those before."""
    instance = Instance(triton={})
    publisher = instance.publisher(logs)
    instance.load("a")
    instance.invoke("a", 10)
    await publisher.publish()
    instance.metrics.restarts.inc()
    instance.triton = {"a": 12}
    await publisher.publish()
    assert triton_count(summed(logs), "a") == 22


async def test_a_page_that_is_none_takes_nothing_of_ours_along(logs: Any) -> None:
    """A model that left is read once: what is wrong elsewhere then does not lose it."""
    instance = Instance(triton={})
    publisher = instance.publisher(logs)
    instance.load("a")
    instance.invoke("a", 1)
    await publisher.publish()
    instance.invoke("a", 7)
    instance.loaded.clear()
    instance.page = 'nv_inference_count{model="a",ver\n'
    await publisher.publish()
    instance.page = None
    await publisher.publish()
    assert invocations(summed(logs), "a") == 8


async def test_a_publication_that_fails_halfway_loses_nothing(logs: Any) -> None:
    instance = Instance()
    publisher = instance.publisher(logs)
    instance.load("a")
    instance.invoke("a", 8)
    instance.loaded.clear()
    whole, instance.machine = instance.machine, cast(CollectorRegistry, None)
    await publisher.publish()
    instance.machine = whole
    await publisher.publish()
    assert invocations(summed(logs), "a") == 8


async def test_a_page_that_does_not_come_once_is_no_restart(
    logs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What was counted before is not counted again; that it did not come is logged once."""
    instance = Instance(triton={"a": 4})
    publisher = instance.publisher(logs)
    instance.load("a")
    for page in ({"a": 4}, None, None, {"a": 6}):
        instance.triton = page
        await publisher.publish()
    assert triton_count(summed(logs), "a") == 6
    failures = [getattr(record, "failure", None) for record in caplog.records]
    assert failures == ["NoTritonserver"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (client_error("ThrottlingException"), 3),
        (client_error("InternalFailure", 500), 3),
        (OSError("no route to host"), 3),
        (client_error("AccessDeniedException"), 1),
    ],
)
async def test_a_cloudwatch_that_recovers_has_all_of_it(
    logs: Any, error: Exception, calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What could not be sent waits; tries are bounded, and logged once for each kind."""
    instance, failing = Instance(), Failing(logs, error)
    publisher = instance.publisher(failing)
    instance.load("a")
    for times in (1, 2):
        instance.invoke("a", times)
        await publisher.publish()
    assert failing.calls == 2 * calls
    assert len(caplog.records) == 2  # no page, and this
    assert instance.own("serve_cloudwatch_events_total") == 0
    failing.error = None
    instance.invoke("a", 4)
    await publisher.publish()
    found = summed(logs)
    assert invocations(found, "a") == 7
    part = {"target_model": "a.tar.gz", "part": "total"}
    assert found.of("serve_invocation_seconds", **FIXED, **part).sample_count == 7
    sent = len(read_events(logs, "/endpoint"))
    assert instance.own("serve_cloudwatch_events_total") == sent
    for reason in ("full", "refused"):
        assert instance.own("serve_cloudwatch_dropped_events_total", reason=reason) == 0


async def test_a_failure_is_healed_within_a_publication(logs: Any) -> None:
    """The second try goes well: nobody waits for the next minute."""
    instance = Instance()
    failing = Failing(logs, client_error("ThrottlingException"))
    publisher = MetricsPublisher(
        settings(), instance.metrics, instance.sources(), client=lambda: failing, backoff_s=(0.5,)
    )
    task = asyncio.ensure_future(publisher.publish())
    await until(lambda: failing.calls == 1)
    failing.error = None
    await task
    assert summed(logs).names()


async def test_events_that_are_refused_hold_up_no_others(logs: Any) -> None:
    """They are given up and counted; what comes after is sent."""
    instance = Instance()
    failing = Failing(logs, client_error("InvalidParameterException"))
    publisher = instance.publisher(failing)
    await publisher.publish()
    assert failing.calls == 1
    refused = instance.own("serve_cloudwatch_dropped_events_total", reason="refused")
    assert refused == 1
    failing.error = None
    await publisher.publish()
    found = summed(logs)
    dropped = found.of("serve_cloudwatch_dropped_events_total", **FIXED, reason="refused")
    assert dropped.sum == 1


async def test_what_a_queue_has_no_room_for_is_counted(logs: Any) -> None:
    """The newest are kept: 2 of 8 models' numbers."""
    instance = Instance()
    publisher = instance.publisher(logs, queue=EventQueue(most_events=2))
    await publisher.publish()
    for number in range(8):
        instance.load(f"m{number}")
    before = len(read_events(logs, "/endpoint"))
    await publisher.publish()
    assert len(read_events(logs, "/endpoint")) == before + 2
    assert instance.own("serve_cloudwatch_events_total") == before + 2
    dropped = instance.own("serve_cloudwatch_dropped_events_total", reason="full")
    assert dropped == 8 + 1 - 2  # 8 models, and what has no labels


async def test_the_last_publication_has_the_last_minute(logs: Any) -> None:
    """Behind one that is under way when the container stops; nothing is sent twice."""
    logs.create_log_group(logGroupName="/endpoint")
    logs.create_log_stream(logGroupName="/endpoint", logStreamName="host")
    instance, failing = Instance(), Failing(logs, takes_s=0.3)
    publisher = instance.publisher(failing, interval_s=0.01)
    instance.load("a")
    instance.invoke("a", 1)
    running = asyncio.ensure_future(publisher.run())
    await until(lambda: failing.calls == 1)
    running.cancel()
    instance.invoke("a", 2)
    await publisher.finish(WAIT_S)
    assert invocations(summed(logs), "a") == 3


@pytest.mark.slow
@pytest.mark.parametrize("knobs", [{"held": threading.Event()}, {"error": OSError()}])
async def test_the_last_publication_has_a_bound(
    logs: Any, knobs: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A container that stops is not held up; that numbers are lost is logged."""
    failing = Failing(logs, **knobs)
    await asyncio.wait_for(Instance().publisher(failing).finish(0.2), WAIT_S / 2)
    assert "the last metrics were lost" in caplog.text
    if failing.held is not None:
        failing.held.set()


async def test_the_last_publication_waits_for_no_other_try(logs: Any) -> None:
    """Neither its own nor that of the one before it, which goes first and is tried again."""
    instance, failing = Instance(), Failing(logs, OSError())
    publisher = MetricsPublisher(
        settings(),
        instance.metrics,
        instance.sources(),
        client=lambda: failing,
        interval_s=0.01,
        backoff_s=(10 * WAIT_S,),
    )
    running = asyncio.ensure_future(publisher.run())
    await until(lambda: failing.calls == 1)
    running.cancel()
    await asyncio.wait_for(publisher.finish(10 * WAIT_S), WAIT_S)
    assert failing.calls == 2


async def test_a_tritonserver_that_hangs_takes_not_the_last_of_ours(
    clock: Clock, logs: Any
) -> None:
    """Its page gets half of the time."""
    instance = Instance(triton={}, triton_takes_s=1e6)
    instance.load("a")
    instance.invoke("a", 3)
    finishing = asyncio.ensure_future(instance.publisher(logs).finish(2 * WAIT_S))
    await until(lambda: instance.pages == 1)
    clock.advance(WAIT_S)
    await finishing
    assert invocations(summed(logs), "a") == 3


async def test_it_publishes_until_it_is_cancelled(logs: Any) -> None:
    """Again and again, by its interval, whatever its sources raise."""
    instance = Instance()
    failing = Failing(logs)
    task = asyncio.create_task(instance.publisher(failing, interval_s=0.01).run())
    await until(lambda: failing.calls >= 3)
    task.cancel()
    await asyncio.wait({task})


async def test_sources_that_fail_stop_nothing(logs: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Their failure is logged once."""

    async def failing() -> CollectorRegistry:
        raise OSError("no descriptor")

    sources: Sources = Sources(ModelNumbers, failing, _no_page)
    publisher = MetricsPublisher(settings(), Metrics(), sources, client=lambda: logs)
    await publisher.publish()
    await publisher.publish()
    failures = [getattr(record, "failure", None) for record in caplog.records]
    assert failures.count("OSError") == 1


async def _no_page() -> str:
    return ""
