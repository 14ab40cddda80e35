"""What endpoints and containers publish to CloudWatch."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, Metric, MetricStore, make_metric
from merlin_simulator.threads import run_in_thread
from merlin_simulator.watch.events import Event
from merlin_simulator.watch.state import GAUGES, EndpointView, InstanceState, measures, variant_of

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

#: Of a histogram or summary, what is published: how many there were, and their sum.
_GROWING = ("_total", "_count", "_sum")


@dataclass(frozen=True)
class Sample:
    """One number of a page."""

    name: str
    labels: frozenset[tuple[str, str]]
    value: float
    grows: bool  # whether it is a total


def parse_samples(text: str) -> list[Sample]:
    """Those that are published: no buckets, quantiles or times of creation, no NaN.

    Raises ValueError for what is no Prometheus text.
    """
    results = list[Sample]()
    for family in _families(text):
        for sample in family.samples:
            grows = family.type != "gauge" and sample.name.endswith(_GROWING)
            if not grows and family.type in ("counter", "histogram", "summary"):
                continue
            if math.isfinite(sample.value) and not sample.name.endswith("_created"):
                labels = frozenset((name, value) for name, value in sample.labels.items() if value)
                results.append(Sample(sample.name, labels, float(sample.value), grows))
    return results


def _families(text: str) -> list[Family]:
    """The parser's own; it fails by other errors, too, on what it does not expect."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return list(text_string_to_metric_families(text))
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"no Prometheus text: {error}") from error


class Deltas:
    """Remembers totals from one scrape to the next."""

    def __init__(self) -> None:
        self._before: Mapping[tuple[str, frozenset[tuple[str, str]]], float] | None = None

    def of(self, samples: Iterable[Sample]) -> list[Sample]:
        """The samples as they are published: of the first page no totals.

        One that comes later for the first time was 0 before.
        """
        now, published = dict[tuple[str, frozenset[tuple[str, str]]], float](), list[Sample]()
        for sample in samples:
            if not sample.grows:
                published.append(sample)
                continue
            key = (sample.name, sample.labels)
            now[key] = sample.value
            if self._before is not None:
                before = self._before.get(key, 0.0)
                # A total that shrank began again: the container is another one.
                more = sample.value - before if sample.value >= before else sample.value
                published.append(Sample(sample.name, sample.labels, more, True))
        self._before = now
        return published


INVOCATIONS, INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"

_INVOKED = ("invoked", "invocation_failed")
#: AWS: "1 is sent; otherwise, 0 is sent".
_ERRORS = ("Invocation4XXErrors", "Invocation5XXErrors", "InvocationModelErrors")
_MICROSECONDS = frozenset(
    {
        "ModelLatency",
        "OverheadLatency",
        "ModelLoadingWaitTime",
        "ModelUnloadingTime",
        "ModelDownloadingTime",
        "ModelLoadingTime",
    }
)
#: AWS publishes ConcurrentRequestsPerModel every ten seconds.
_CONCURRENCY_EVERY_S = 10.0
#: However fast the platform's time goes, this machine's seconds between two looks.
_LEAST_PAUSE_S = 0.05
#: Minutes that are made up for when it goes so fast that some are over between two looks.
_MADE_UP = 60


class EndpointMetrics:
    """Hears of every endpoint's events, and looks at every instance once a minute.

    views: the endpoints as they stand now. in_service: how many instances an endpoint's variant has
    in service now.
    """

    def __init__(
        self,
        store: MetricStore,
        clock: Clock,
        views: Callable[[], Iterable[EndpointView]],
        in_service: Callable[[str, str], int],
    ) -> None:
        self._store, self._clock = store, clock
        self._views, self._in_service = views, in_service
        self._metrics: dict[tuple[str, str, str, str], Metric] = {}

    def hear(self, endpoint_name: str, event: Event) -> None:
        """An event of an endpoint."""
        variant = variant_of(event)
        measured = list(measures(event, self._in_service(endpoint_name, variant)))
        if event.kind in _INVOKED:
            names = {name for name, _ in measured}
            measured += [(name, 0.0) for name in _ERRORS if name not in names]
        for name, value in measured:
            unit = "Microseconds" if name in _MICROSECONDS else "None"
            self._add(INVOCATIONS, endpoint_name, variant, name, value, unit)

    def gauge(self, at: float) -> None:
        """Look at every instance that is in service. at: the time that it is published for.

        AWS, "Instructions for editing a scaling policy": a variant that nobody asks has zeros.
        """
        for view in self._views():
            serving = [it for it in view.instances if it.state is InstanceState.IN_SERVICE]
            for variant in sorted({instance.variant for instance in serving}):
                where = (INVOCATIONS, view.endpoint_name, variant)
                self._add(*where, "InvocationsPerInstance", 0.0, "None", at)
            for instance in serving:
                for name, (_, read) in GAUGES.items():
                    if name == "LoadedModelCount" and not view.multi_model:
                        continue
                    if (value := read(instance)) is not None:
                        unit = "None" if name == "LoadedModelCount" else "Percent"
                        where = (INSTANCES, view.endpoint_name, instance.variant)
                        self._add(*where, name, value, unit, at)

    def gauge_concurrency(self) -> None:
        """Count the requests that are being answered."""
        for view in self._views():
            in_flight = dict[str, int]()
            for instance in view.instances:
                before = in_flight.get(instance.variant, 0)
                in_flight[instance.variant] = before + instance.in_flight
            for variant, count in in_flight.items():
                where = (INVOCATIONS, view.endpoint_name, variant)
                self._add(*where, "ConcurrentRequestsPerModel", float(count), "None")

    async def run(self) -> None:
        """Until cancelled."""
        minute = self._minute() - 1
        while True:
            now = self._minute()
            for passed in range(max(minute + 1, now - _MADE_UP), now + 1):
                self.gauge(passed * float(RESOLUTION_S))
            minute = now
            self.gauge_concurrency()
            await asyncio.sleep(max(_LEAST_PAUSE_S, _CONCURRENCY_EVERY_S / self._clock.scale))

    def _minute(self) -> int:
        return int(self._clock.now() // RESOLUTION_S)

    def _add(
        self,
        namespace: str,
        endpoint: str,
        variant: str,
        name: str,
        value: float,
        unit: str,
        at: float | None = None,
    ) -> None:
        key = (namespace, endpoint, variant, name)
        metric = self._metrics.get(key)
        if metric is None:
            dimensions = {"EndpointName": endpoint, "VariantName": variant}
            metric = self._metrics[key] = make_metric(namespace, name, dimensions)
        self._store.add(metric, value, self._clock.now() if at is None else at, unit)


_logger = logging.getLogger(__name__)

CONTAINERS = "/aws/sagemaker/Endpoints/Container"

_PATH, _EVERY_S = "/metrics", 60
#: Of a page: in seconds of this machine, and in bytes.
_TIMEOUT_S, _LONGEST = 5.0, 8 * 1024 * 1024
#: Between two looks at who is due, in the platform's seconds, and at least in this machine's.
_LOOK_S, _LEAST_S = 5.0, 0.2
#: Samples of one page that are published.
_MOST = 2000


@dataclass(frozen=True)
class Page:
    """Where an instance has its metrics, and how often they are read, in the platform's seconds."""

    endpoint_name: str
    variant: str
    instance: str
    url: str
    every_s: float


def page_of(
    container: Mapping[str, Any], config: Mapping[str, Any] | None
) -> tuple[str, float] | None:
    """Path and frequency by a container's definition and a MetricsConfig; None: it is off."""
    if not (config or {}).get("EnableDetailedObservability", True):
        return None
    endpoints = container.get("ContainerMetricsConfig", {}).get("MetricsEndpoints") or [{}]
    every_s = endpoints[0].get("MetricPublishFrequencyInSeconds") or _EVERY_S
    return endpoints[0].get("MetricsEndpointPath") or _PATH, float(every_s)


@dataclass
class _PageState:
    deltas: Deltas = field(default_factory=Deltas)
    due: float = 0.0
    warned: bool = False


class ContainerMetrics:
    """pages: of all instances that are in service now."""

    def __init__(
        self, store: MetricStore, clock: Clock, pages: Callable[[], Iterable[Page]]
    ) -> None:
        self._store, self._clock, self._pages = store, clock, pages
        self._states: dict[Page, _PageState] = {}

    async def run(self) -> None:
        """Until cancelled."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            while True:
                await self.look(http)
                await asyncio.sleep(max(_LEAST_S, _LOOK_S / self._clock.scale))

    async def look(self, http: aiohttp.ClientSession) -> None:
        """Read the pages whose time it is."""
        pages, now = set(self._pages()), self._clock.now()
        self._states = {page: self._states.get(page, _PageState()) for page in pages}
        due = [page for page, state in self._states.items() if state.due <= now]
        for page in due:
            self._states[page].due = now + page.every_s
        await asyncio.gather(*(self._read(http, page, self._states[page]) for page in due))

    async def _read(self, http: aiohttp.ClientSession, page: Page, state: _PageState) -> None:
        """A container without metrics has none; one that is leaving may not answer."""
        try:
            async with http.get(page.url, headers={"Accept": "text/plain"}) as answer:
                if answer.status != 200:
                    return
                text = (await _read_all(answer.content)).decode(errors="replace")
            samples = await run_in_thread(lambda: parse_samples(text))
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
            _logger.debug("%s: no metrics (%s: %s)", page.url, type(error).__name__, error)
            return
        if len(samples) > _MOST and not state.warned:
            state.warned = True
            _logger.warning(
                "%s has %s samples: the first %s are published", page.url, len(samples), _MOST
            )
        self._publish(page, state.deltas.of(samples[:_MOST]))

    def _publish(self, page: Page, samples: Iterable[Sample]) -> None:
        at = self._clock.now()
        for sample in samples:
            dimensions = {
                **dict(sample.labels),
                "EndpointName": page.endpoint_name,
                "VariantName": page.variant,
                "InstanceId": page.instance,
            }
            metric = make_metric(CONTAINERS, sample.name, dimensions)
            self._store.add(metric, sample.value, at, "Count" if sample.grows else "None")


async def _read_all(content: aiohttp.StreamReader) -> bytes:
    """A page to its end: of half a one, totals would shrink. Raises ValueError for one too long."""
    page = bytearray()
    async for part in content.iter_any():
        page += part
        if len(page) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST} bytes")
    return bytes(page)
