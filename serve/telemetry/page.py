"""The metrics page: what is counted here, what the machine has, what tritonserver says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest

from serve.telemetry.exposition import ModelNumbers, write_models
from serve.telemetry.meters import Reader
from serve.telemetry.metrics import Metrics
from serve.telemetry.triton_page import rename_models


@dataclass(frozen=True)
class Sources:
    """What a page asks for. numbers: of the models; those in flight name all that are loaded.

    machine: gauges, refreshed. triton: tritonserver's own page, empty where there is none.
    """

    numbers: Callable[[], ModelNumbers]
    machine: Callable[[], Awaitable[CollectorRegistry]]
    triton: Callable[[], Awaitable[str]]


class MetricsPage:
    """Writes the page, in pieces between which callers are answered."""

    def __init__(self, metrics: Metrics, sources: Sources) -> None:
        self._metrics, self._sources = metrics, sources
        self._reader = Reader(metrics.meters)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The page as Prometheus' text; a piece takes at most about half a millisecond."""
        machine, triton = await asyncio.gather(self._sources.machine(), self._sources.triton())
        numbers = self._sources.numbers()
        meters = self._reader.read(numbers.in_flight)
        yield generate_latest(machine)
        yield generate_latest(self._metrics.events)
        for piece in write_models(meters, numbers):
            yield piece
            await asyncio.sleep(0)
        targets = {meter.model_name: meter.target_model for meter in meters}
        for piece in rename_models(triton, targets):
            yield piece
            await asyncio.sleep(0)
