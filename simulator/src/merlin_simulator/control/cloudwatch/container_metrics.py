"""What containers publish: each instance's Prometheus page is read and put into the store.

AWS, "MetricsConfig" and "ContainerMetricsConfig": detailed observability, on by default, reads
/metrics once a minute unless the container's definition says else. AWS keeps these as OpenTelemetry
metrics for PromQL; here they are CloudWatch's, in a namespace of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.prometheus_text import Deltas, Sample, samples_of
from merlin_simulator.control.cloudwatch.store import MetricStore, make_metric
from merlin_simulator.threads import run_in_thread

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
class _Reader:
    deltas: Deltas = field(default_factory=Deltas)
    due: float = 0.0
    warned: bool = False


class ContainerMetrics:
    """pages: of all instances that are in service now."""

    def __init__(
        self, store: MetricStore, clock: Clock, pages: Callable[[], Iterable[Page]]
    ) -> None:
        self._store, self._clock, self._pages = store, clock, pages
        self._readers: dict[Page, _Reader] = {}

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
        self._readers = {page: self._readers.get(page, _Reader()) for page in pages}
        due = [page for page, reader in self._readers.items() if reader.due <= now]
        for page in due:
            self._readers[page].due = now + page.every_s
        await asyncio.gather(*(self._read(http, page, self._readers[page]) for page in due))

    async def _read(self, http: aiohttp.ClientSession, page: Page, reader: _Reader) -> None:
        """A container without metrics has none; one that is leaving may not answer."""
        try:
            async with http.get(page.url, headers={"Accept": "text/plain"}) as answer:
                if answer.status != 200:
                    return
                text = (await _whole(answer.content)).decode(errors="replace")
            samples = await run_in_thread(lambda: samples_of(text))
        except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
            _logger.debug("%s: no metrics (%s: %s)", page.url, type(error).__name__, error)
            return
        if len(samples) > _MOST and not reader.warned:
            reader.warned = True
            _logger.warning(
                "%s has %s samples: the first %s are published", page.url, len(samples), _MOST
            )
        self._publish(page, reader.deltas.of(samples[:_MOST]))

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


async def _whole(content: aiohttp.StreamReader) -> bytes:
    """A page to its end: of half a one, totals would shrink. Raises ValueError for one too long."""
    page = bytearray()
    async for part in content.iter_any():
        page += part
        if len(page) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST} bytes")
    return bytes(page)
