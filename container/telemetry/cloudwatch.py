"""Publishes all metrics to CloudWatch once a minute: counts since the last, gauges, histograms.

They go to CloudWatch Logs as events in the Embedded Metric Format, from which CloudWatch makes
metrics in the namespace (decision 32). Events wait in a bounded queue while it does not
answer; what no longer fits is counted on the metrics page. What fails is logged, once for each kind
of failure, and never stops serving.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from container.settings.reading import Settings
from container.telemetry.deltas import Increments, subtract
from container.telemetry.emf import write_events
from container.telemetry.event_queue import Event, EventQueue
from container.telemetry.log_stream import (
    LogStream,
    is_passing,
    is_refusal,
    make_boto3_client,
    name_failure,
)
from container.telemetry.series import (
    MeterKey,
    MeterReading,
    read_families,
    read_meter,
    read_meters,
    read_triton_page,
)
from serve.deadline import within
from serve.telemetry.exposition import ModelNumbers
from serve.telemetry.meters import ModelMeter, Reader
from serve.telemetry.metrics import Metrics
from serve.telemetry.page import Sources
from serve.threads import run_in_daemon_thread

log = logging.getLogger(__name__)

INTERVAL_S = 60.0  # CloudWatch's standard resolution
#: Between tries of one publication, in seconds; then the events wait for the next publication.
BACKOFF_S = (1.0, 2.0, 4.0)
#: What tritonserver's page gets of the time for the last publication.
_TRITON_SHARE = 0.5
#: Meters, and events, that are looked at before others get their turn.
_METERS_AT_ONCE, _EVENTS_AT_ONCE = 64, 50
_PAUSE_S = 0.0005
#: Why events are dropped, as the label `reason` says it: no room, or CloudWatch refused them.
_FULL, _REFUSED = "full", "refused"


@dataclass(frozen=True)
class _Snapshot:
    """All numbers of one moment."""

    at_ms: int
    meters: Sequence[MeterReading]
    numbers: ModelNumbers
    machine: CollectorRegistry
    #: tritonserver's page of metrics, empty where none came.
    triton: str
    #: How often tritonserver was restarted so far.
    restarts: float


def make_counters(registry: CollectorRegistry) -> tuple[Counter, Counter]:
    """The metrics page's counters of publications: events that were sent, and given up."""
    sent = Counter(
        "serve_cloudwatch_events", "Events that CloudWatch Logs has taken.", registry=registry
    )
    dropped = Counter(
        "serve_cloudwatch_dropped_events",
        "Events that were given up, by reason: no room in the queue, or refused by CloudWatch.",
        ["reason"],
        registry=registry,
    )
    for reason in (_FULL, _REFUSED):
        dropped.labels(reason)
    return sent, dropped


class MetricsPublisher:
    """Publishes until it is cancelled, and once more when it is told that it is the last time."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        sources: Sources,
        *,
        client: Callable[[], Any] = make_boto3_client,
        interval_s: float = INTERVAL_S,
        backoff_s: Sequence[float] = BACKOFF_S,
        queue: EventQueue | None = None,
        stream: str | None = None,
    ) -> None:
        """`client` makes the CloudWatch Logs client; `stream` is the host, if not given."""
        assert settings.cloudwatch_log_group
        assert settings.cloudwatch_metric_namespace
        self._group = settings.cloudwatch_log_group
        self._namespace = settings.cloudwatch_metric_namespace
        self._dimensions = dict(settings.metric_dimensions)
        self._metrics, self._sources = metrics, sources
        self._reader = Reader(metrics.meters)
        self._make_client, self._stream = client, stream or socket.gethostname()
        self._interval_s, self._backoff_s = interval_s, backoff_s
        self._queue = EventQueue() if queue is None else queue
        self._log_stream: LogStream | None = None
        self._own = self._triton = Increments()
        self._restarts = 0.0
        #: What was read of meters and not compared yet: a model that has left is read once.
        self._unhanded: dict[ModelMeter, MeterReading] = {}
        self._stopping = threading.Event()
        self._current: asyncio.Future[None] | None = None
        self._known_failures: set[str] = set()
        self._failures_to_send: set[str] = set()
        self._sent, self._dropped = make_counters(metrics.events)

    async def run(self) -> None:
        """Publishes every `interval_s`, the first time after one; never raises of itself."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due = max(due + self._interval_s, loop.time())
            await asyncio.sleep(due - loop.time())
            # What was read of a model that left is read once: it is not given up halfway.
            self._current = asyncio.ensure_future(self.publish())
            await asyncio.shield(self._current)

    async def publish(self, triton_within_s: float | None = None) -> None:
        """Once; one at a time. What fails is logged."""
        try:
            reading = await self._read(triton_within_s)
            await run_in_daemon_thread(lambda: self._hand_on(reading), "cloudwatch")
            self._unhanded.clear()
        except Exception as error:  # no thread, or a bug: none may stop serving
            self._report(error)

    async def finish(self, limit_s: float) -> None:
        """The last publication, behind one that is under way; takes at most `limit_s` seconds."""
        self._stopping.set()
        in_time = True
        try:
            await within(self._finish(limit_s * _TRITON_SHARE), limit_s)
        except asyncio.TimeoutError:
            in_time = False
        if not in_time or len(self._queue):
            log.warning("the last metrics were lost", extra={"events": len(self._queue)})

    async def _finish(self, triton_within_s: float) -> None:
        if self._current is not None:
            await asyncio.wait({self._current})
        await self.publish(triton_within_s)

    async def _read(self, triton_within_s: float | None) -> _Snapshot:
        """On the event loop, as the meters are counted there; callers get their turns between."""
        machine, triton = await asyncio.gather(
            self._sources.machine(), self._read_triton(triton_within_s)
        )
        numbers, restarts = self._sources.numbers(), self._metrics.count_restarts()
        meters = iter(self._reader.read(numbers.in_flight))
        while some := list(islice(meters, _METERS_AT_ONCE)):
            self._unhanded |= {meter: read_meter(meter) for meter in some}
            await asyncio.sleep(0)
        readings = list(self._unhanded.values())
        return _Snapshot(int(time.time() * 1000), readings, numbers, machine, triton, restarts)

    async def _read_triton(self, limit_s: float | None) -> str:
        page = self._sources.triton()
        try:
            text = await (page if limit_s is None else within(page, limit_s))
        except asyncio.TimeoutError:
            text = ""
        if not text:
            self._tell("NoTritonserver", "tritonserver's metrics page did not come")
        return text

    # -- in a thread

    def _hand_on(self, reading: _Snapshot) -> None:
        """Put what has changed into the queue, and from there to CloudWatch."""
        own, triton = self._compare(reading)
        series = chain(own.changed, triton.changed)
        texts = write_events(series, self._dimensions, self._namespace, reading.at_ms)
        events = [Event(reading.at_ms, text) for text in _pause_between(texts)]
        self._drop(self._queue.put(events), _FULL)
        self._own, self._triton, self._restarts = own, triton, reading.restarts
        self._send()

    def _compare(self, reading: _Snapshot) -> tuple[Increments, Increments]:
        """With what was handed on last, of ours and of tritonserver's."""
        meters = self._metrics.meters

        def goes_on(key: Hashable) -> bool:
            return isinstance(key, MeterKey) and meters.holds(key.meter)

        models = read_meters(reading.meters, reading.numbers)
        registries = (self._metrics.events, reading.machine)
        others = chain.from_iterable(read_families(registry.collect()) for registry in registries)
        own = subtract(self._own.known, _pause_between(chain(models, others)), goes_on)
        if not reading.triton:  # between two lives, or busy: its numbers may go on
            return own, Increments([], self._triton.known)
        # A new one counts from 0, however far it has come already.
        known = self._triton.known if reading.restarts == self._restarts else {}
        try:
            entries = reading.numbers.entries
            theirs = read_triton_page(reading.triton, meters.target_of, entries)
            return own, subtract(known, _pause_between(theirs))
        except Exception as error:  # no page of Prometheus': ours is not lost for that
            self._tell("BadPage", f"tritonserver's metrics page cannot be read: {error}")
            return own, Increments([], self._triton.known)

    def _send(self) -> None:
        """Send all that waits; where that fails, try a few times more."""
        for pause_s in (*self._backoff_s, None):
            try:
                self._send_calls()
                self._known_failures -= self._failures_to_send  # the next one is news again
                self._failures_to_send.clear()
                break
            except Exception as error:  # the network, the credentials
                self._failures_to_send.add(name_failure(error))
                self._report(error)
                if pause_s is None or not is_passing(error) or self._stopping.wait(pause_s):
                    break

    def _send_calls(self) -> None:
        stream = self._open_stream()
        while call := self._queue.take_call():
            try:
                refused = stream.put(call)
            except Exception as error:
                if not is_refusal(error):
                    raise
                self._report(error)  # these would be refused for ever, and hold up all others
                refused = len(call)
            self._queue.take(len(call))
            self._sent.inc(len(call) - refused)
            self._drop(refused, _REFUSED)

    def _open_stream(self) -> LogStream:
        if self._log_stream is None:
            self._log_stream = LogStream(self._make_client(), self._group, self._stream)
        return self._log_stream

    # -- what is told

    def _drop(self, count: int, reason: str) -> None:
        self._dropped.labels(reason).inc(count)
        if count:
            self._tell(f"dropped: {reason}", f"{count} events were dropped")

    def _report(self, error: Exception) -> None:
        self._tell(name_failure(error), str(error))

    def _tell(self, kind: str, reason: str) -> None:
        if kind not in self._known_failures:
            self._known_failures.add(kind)
            log.warning("metrics were not published", extra={"failure": kind, "reason": reason})


def _pause_between(things: Iterator[Any]) -> Iterator[Any]:
    """The same; now and then whoever waits for the interpreter's lock gets it."""
    for number, thing in enumerate(things, 1):
        if number % _EVENTS_AT_ONCE == 0:
            time.sleep(_PAUSE_S)
        yield thing
