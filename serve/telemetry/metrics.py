"""Everything that is counted, by name. Counters of rare events are prometheus_client's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

from serve.telemetry.candidate_metrics import CandidateMetrics
from serve.telemetry.causes import CAUSES
from serve.telemetry.load_record import STAGES, LoadRecord
from serve.telemetry.meters import Meters

disable_created_metrics()  # a gauge beside each counter that nobody asks for

_Metric = TypeVar("_Metric", bound=MetricWrapperBase)
LOAD_RESULTS = ("loaded", "refused", "failed")
UNLOAD_RESULTS = ("unloaded", "failed")
TABLES_RESULTS = ("hit", "miss")
REVIVAL_CAUSES = ("stub", "tritonserver", "renewal")
REVIVAL_RESULTS = ("revived", "postponed", "given_up")
_LOAD_BUCKETS_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 360.0)
_LAG_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """The container's counters. Every value of a label is there from the start, at 0."""

    def __init__(self) -> None:
        self.meters = Meters()
        self.events = CollectorRegistry()
        self._loads = self._counter("loads", "Loads by how they ended.", result=LOAD_RESULTS)
        self._load_seconds = self._histogram(
            "load_seconds",
            "Seconds of a load's stages; tables are a part of publish, total is all of it.",
            _LOAD_BUCKETS_S,
            stage=("total", *STAGES),
        )
        self.tables = self._counter(
            "tables",
            "Compiled workflows' tables, by whether those of an earlier load were taken (hit) or"
            " they were written (miss).",
            result=TABLES_RESULTS,
        )
        self.unloads = self._counter(
            "unloads",
            "Unloads by how they ended; one that failed left its model listed.",
            result=UNLOAD_RESULTS,
        )
        self.revivals = self._counter(
            "revivals",
            "Models that were loaded again, by what had lost them (a stub or a tritonserver that"
            " died, or one that was replaced) and how that ended.",
            cause=REVIVAL_CAUSES,
            result=REVIVAL_RESULTS,
        )
        self.refusals = self._counter(
            "refusals", "Loads and invocations that were refused or failed, by cause.", cause=CAUSES
        )
        self.restarts = Counter(
            "serve_tritonserver_restarts",
            "Starts of tritonserver but the first.",
            registry=self.events,
        )
        self.candidates = CandidateMetrics(self.events, self.meters.target_of)
        self.lag = Histogram(
            "serve_event_loop_lag_seconds",
            "Seconds by which the event loop was late, looked at four times a second.",
            buckets=_LAG_BUCKETS_S,
            registry=self.events,
        )

    def loaded(self, record: LoadRecord) -> None:
        """Count one load, however it ended."""
        self._loads.labels(record.result).inc()
        self._load_seconds.labels("total").observe(record.seconds)
        seconds: dict[str, float] = defaultdict(float)
        for stage in record.stages:  # one may come in parts: an archive is read, then planned
            seconds[stage.name] += stage.seconds
        for name, taken in seconds.items():
            self._load_seconds.labels(name).observe(taken)

    def count_restarts(self) -> float:
        """How many starts of tritonserver after the first there were."""
        return self.events.get_sample_value("serve_tritonserver_restarts_total") or 0.0

    def _counter(self, name: str, meaning: str, **labels: Sequence[str]) -> Counter:
        counter = Counter(f"serve_{name}", meaning, list(labels), registry=self.events)
        return _filled(counter, list(labels.values()))

    def _histogram(
        self, name: str, meaning: str, buckets: Sequence[float], **labels: Sequence[str]
    ) -> Histogram:
        histogram = Histogram(
            f"serve_{name}", meaning, list(labels), buckets=buckets, registry=self.events
        )
        return _filled(histogram, list(labels.values()))


def _filled(metric: _Metric, values: Sequence[Sequence[str]]) -> _Metric:
    """With a series for each value: a rate needs the 0 before the first event."""
    for combination in product(*values):
        metric.labels(*combination)
    return metric
