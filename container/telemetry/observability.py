"""Joins all that operators are told: metrics page, CloudWatch, traces, captures, access log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from container import __version__, limits
from container.addresses import Addresses
from container.background import restart_for_ever
from container.settings.reading import Settings
from container.telemetry.cloudwatch import MetricsPublisher
from container.telemetry.event_loop import watch_lag
from container.telemetry.feature_totals import FeatureTotals
from container.telemetry.machine_gauges import MachineGauges
from container.telemetry.outside_counts import OutsideCounts
from container.telemetry.triton_metrics import fetch_page
from container.tritonserver.runtime import ModelsPython
from serve.deadline import within
from serve.http.metrics_route import MetricsRoute
from serve.http.routes import FeatureRoute
from serve.models.registry import Registry
from serve.resources.model_memory import Life, ModelMemory
from serve.telemetry.access_log import AccessLog
from serve.telemetry.captures import CaptureQueue
from serve.telemetry.exposition import ModelNumbers
from serve.telemetry.metrics import Metrics
from serve.telemetry.page import MetricsPage, Sources
from serve.telemetry.telemetry import Telemetry
from serve.threads import run_in_daemon_thread
from serve.triton.client import TritonClient

if TYPE_CHECKING:
    from container.telemetry.capture.writer import CaptureWriter
    from serve.telemetry.otel import OtelTracer

log = logging.getLogger(__name__)

#: Of the time to stop in, what the last spans get, beside tritonserver's own end.
_LAST_TRACES_S = 2.0
#: From one look at departed models to the next, in seconds.
_FORGET_S = 10.0
#: How long a page waits for tritonserver's version, in seconds, where it is not known yet.
_LEARN_S = 0.25


class Observability:
    """What operators are told: a container has one.

    models: what Python models are run with, as far as it is known. outside: what others count.
    traces: where spans are sent to, None for nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        addresses: Addresses,
        serving_repository: Path,
        registry: Registry,
        triton: TritonClient,
        models: Callable[[], ModelsPython],
        outside: OutsideCounts,
        traces: str | None = None,
    ) -> None:
        self._settings = settings
        self._registry, self._triton, self._models = registry, triton, models
        self._metrics = Metrics() if settings.metrics or settings.publish_metrics else None
        self._tracer = _make_tracer(traces)
        self.telemetry = Telemetry(
            self._metrics, self._tracer, AccessLog(settings.access_log, settings.slow_ms / 1000)
        )
        self._memory = ModelMemory(serving_repository)
        self._features = FeatureTotals(
            serving_repository, by_column=settings.feature_metrics == "columns"
        )
        self._serving_repository = serving_repository
        self._gauges = MachineGauges(lambda: len(registry.all_loaded()), self._versions, outside)
        self._sources = Sources(
            numbers=self._model_numbers,
            machine=self._machine,
            triton=lambda: run_in_daemon_thread(lambda: fetch_page(addresses.metrics), "metrics"),
        )
        self._publisher: MetricsPublisher | None = None
        if self._metrics is not None and settings.publish_metrics:
            self._publisher = MetricsPublisher(settings, self._metrics, self._sources)
        self._capture = self._start_capture(serving_repository.with_name("capture"))
        self._sending: list[asyncio.Future[None]] = []

    def metrics_route(self) -> MetricsRoute | None:
        """The metrics page; None where there is none."""
        if self._metrics is None or not self._settings.metrics:
            return None
        return MetricsRoute(MetricsPage(self._metrics, self._sources))

    def feature_route(self) -> FeatureRoute:
        """What the compiled workflows of a model have counted."""
        target_of = self._metrics.meters.target_of if self._metrics is not None else str
        repository, setting = self._serving_repository, limits.FEATURE_METRICS
        return FeatureRoute(self._registry, repository, target_of, setting)

    def running(self) -> Iterator[Awaitable[None]]:
        """Runs in the block for as long as the container does."""
        metrics = self._metrics
        if metrics is not None:
            yield restart_for_ever("lag", lambda: watch_lag(metrics.lag.observe))
            yield restart_for_ever("departed models", self._forget_departed)
            yield restart_for_ever("models' memory", lambda: self._memory.run(self._lives))
        if self._publisher is not None:
            yield restart_for_ever("metrics", self._publisher.run)

    async def publish_last(self, limit_s: float) -> None:
        """Publish the rest to CloudWatch, in `limit_s` at most; nothing is answered any more.

        tritonserver is still asked for its numbers.
        """
        if self._publisher is not None:
            await self._publisher.finish(limit_s)

    def send_last(self, captures_s: float) -> None:
        """Begin to send the last traces, and captures for so long at most; until_sent awaits it."""
        if self._tracer is not None:
            self._sending.append(asyncio.ensure_future(self._tracer.close(_LAST_TRACES_S)))
        capture = self._capture
        if capture is not None:
            ending = run_in_daemon_thread(lambda: capture.end(captures_s), "last captures")
            self._sending.append(asyncio.ensure_future(ending))

    async def until_sent(self) -> None:
        """Or until their time is over, which began with send_last."""
        for outcome in await asyncio.gather(*self._sending, return_exceptions=True):
            if isinstance(outcome, Exception):  # no thread to be had
                log.warning("the last captures were lost", extra={"reason": str(outcome)})

    @property
    def captures(self) -> CaptureQueue | None:
        """Where a sample of requests and answers goes; None where they are not captured."""
        return None if self._capture is None else self._capture.queue

    def _start_capture(self, spool_folder: Path) -> CaptureWriter | None:
        """None where it is off. Raises SettingsError."""
        if self._settings.capture is None or not self._settings.capture_percent:
            return None
        if self._settings.inference_type == "generate_stream":
            log.warning("SERVE_CAPTURE has no effect: answers that stream are not captured")
            return None
        from container.telemetry.capture.writer import start_capture

        registry = CollectorRegistry() if self._metrics is None else self._metrics.events
        return start_capture(self._settings, spool_folder, registry)

    async def _forget_departed(self) -> None:
        """Until cancelled; where nobody reads the meters, nobody else forgets them."""
        assert self._metrics is not None
        while True:
            self._metrics.meters.forget({model.name for model in self._registry.all_busy()})
            await asyncio.sleep(_FORGET_S)

    def _lives(self) -> list[Life]:
        assert self._metrics is not None
        meters = self._metrics.meters
        return [(model.name, meters.of(model.name).lives) for model in self._registry.all_busy()]

    def _model_numbers(self) -> ModelNumbers:
        in_flight = {model.name: model.in_flight for model in self._registry.all_busy()}
        lives = self._lives()
        memory, shared = self._memory.measure(lives)
        entries = self._registry.find_entries()
        return ModelNumbers(in_flight, memory, shared, entries, self._features.of(lives))

    async def _machine(self) -> CollectorRegistry:
        """The models' features are read anew, too: they stand in _model_numbers."""
        with contextlib.suppress(asyncio.TimeoutError):  # a page is worth more than a version
            await within(self._triton.control.learn_version(), _LEARN_S)
        plans = [model.plan for model in self._registry.all_busy()]
        of_lives = dict(zip(self._lives(), plans, strict=True))

        def refresh() -> None:
            self._gauges.refresh()
            self._features.refresh(of_lives)

        await run_in_daemon_thread(refresh, "metrics")
        return self._gauges.registry

    def _versions(self) -> Mapping[str, str]:
        """The known versions; the models' Python is unknown in the image's own arrangement."""
        python = self._models().python
        versions = {"version": __version__, "tritonserver": self._triton.control.version}
        if python is not None:
            versions |= {
                "models_python": python.version,
                "models_numpy": python.numpy,
                "nvtabular": python.nvtabular,
            }
        return versions


def _make_tracer(endpoint: str | None) -> OtelTracer | None:
    """None where traces are off: then nothing of OpenTelemetry's SDK is imported."""
    if endpoint is None:
        return None
    from serve.telemetry.otel import make_tracer

    return make_tracer(endpoint, __version__)
