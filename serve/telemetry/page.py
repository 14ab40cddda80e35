"""The metrics page: what is counted here, what the machine has, what tritonserver says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest

from serve.telemetry.exposition import SCRAPED, ModelNumbers, write_models
from serve.telemetry.meters import ModelMeter, Reader
from serve.telemetry.metrics import Metrics
from serve.telemetry.triton_page import rename_models


@dataclass(frozen=True)
class Sources:
    """The three parts of the page."""

    numbers: Callable[[], ModelNumbers]  # those in flight name all models that are loaded
    machine: Callable[[], Awaitable[CollectorRegistry]]  # gauges, refreshed
    triton: Callable[[], Awaitable[str]]  # tritonserver's own page, in bounded time; may be empty


class MetricsPage:
    """Writes the page, in pieces between which callers are answered."""

    def __init__(self, metrics: Metrics, sources: Sources) -> None:
        self._metrics, self._sources = metrics, sources
        self._reader = Reader(metrics.meters)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The page as Prometheus' text; a piece takes at most about a millisecond.

        What cannot be found out now, for want of a thread or of a tritonserver that answers, is
        left out: the rest is wanted most then.
        """
        fetching = asyncio.ensure_future(self._sources.triton())
        try:
            yield generate_latest(self._metrics.events)
            await asyncio.sleep(0)
            with contextlib.suppress(Exception):
                yield generate_latest(await self._sources.machine())
            numbers, meters = self._read()
            targets = {meter.model_name: meter.target_model for meter in meters}
            timed = self._metrics.meters.of_targets(set(targets.values()))
            for piece in write_models(meters, numbers, list(timed)):
                yield piece
                await asyncio.sleep(0)
            await asyncio.wait({fetching})
            triton = "" if fetching.exception() else fetching.result()
            yield SCRAPED.head + f"{SCRAPED.name} {int(bool(triton))}\n".encode()
            for piece in rename_models(triton, targets, numbers.entries):
                yield piece
                await asyncio.sleep(0)
        finally:
            fetching.cancel()

    def _read(self) -> tuple[ModelNumbers, Sequence[ModelMeter]]:
        numbers = self._sources.numbers()
        return numbers, self._reader.read(numbers.in_flight)
