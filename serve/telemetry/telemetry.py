"""Where the container's events are told to whoever tells of them: metrics, log, traces."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from serve.errors import (
    CallerError,
    ModelNotLoaded,
    ModelUnusable,
    Overloaded,
    ResourceExhausted,
    ServeError,
)
from serve.telemetry.access_log import AccessLog
from serve.telemetry.candidate_metrics import CandidateMetrics
from serve.telemetry.causes import find_cause
from serve.telemetry.invocation_record import CALLER_LEFT, InvocationRecord
from serve.telemetry.load_record import LoadRecord
from serve.telemetry.metrics import Metrics

if TYPE_CHECKING:  # the SDK is imported where traces are on
    from serve.telemetry.otel import Headers, OtelTracer

#: What is told has lasted.
_LEAST_S = 1e-9
_REFUSED = (CallerError, ModelUnusable, ResourceExhausted, Overloaded)


class Telemetry:
    """One for a container. metrics, tracer, access_log: None where they are switched off."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        tracer: OtelTracer | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self.metrics, self.tracer, self.access_log = metrics, tracer, access_log
        self.candidates = CandidateMetrics() if metrics is None else metrics.candidates

    # -- invocations: the hot path

    def begin(
        self, model_name: str, request_bytes: int, headers: Headers
    ) -> tuple[InvocationRecord, Headers]:
        """An invocation begins: its record, and the headers that tritonserver is to be given."""
        record = InvocationRecord(
            model_name, began=time.monotonic(), request_bytes=request_bytes, headers=headers
        )
        if self.tracer is not None:
            headers = self.tracer.begin(record, headers)
        return record, headers

    def invoked(
        self, record: InvocationRecord, status: int, error: BaseException | None = None
    ) -> None:
        """An invocation has ended; error: why it was refused. What comes behind the end is none."""
        if record.seconds:
            return
        record.status = status
        record.seconds = (time.monotonic() - record.began) or _LEAST_S
        if error is not None:
            record.sentence = _sentence(error)
        if self.metrics is not None:
            meters = self.metrics.meters
            if error is None:
                meters.of(record.model_name).invoked(record)
            else:
                is_loaded = not isinstance(error, ModelNotLoaded)
                (meters.of(record.model_name) if is_loaded else meters.unknown).invoked(record)
                if status != CALLER_LEFT:
                    self.metrics.refusals.labels(find_cause(error)).inc()
        if self.tracer is not None:
            self.tracer.invoked(record)
        if self.access_log is not None:
            self.access_log.tell(record, error)

    def refused(self, error: ServeError) -> None:
        """Something was refused that is no invocation yet: a connection, a head."""
        if self.metrics is not None:
            self.metrics.refusals.labels(find_cause(error)).inc()

    # -- models

    def loaded(self, record: LoadRecord, error: BaseException | None = None) -> None:
        """A load has ended."""
        record.seconds = time.monotonic() - record.began
        record.result = "loaded" if error is None else _result(error)
        record.sentence = _sentence(error) if error is not None else ""
        if self.metrics is not None:
            self.metrics.loaded(record)
            if error is not None:
                self.metrics.refusals.labels(find_cause(error)).inc()
        if self.tracer is not None:
            self.tracer.loaded(record)

    def tables_made(self, result: str) -> None:
        """A load has a compiled workflow's tables: metrics.TABLES_RESULTS. In any thread."""
        if self.metrics is not None:
            self.metrics.tables.labels(result).inc()

    def begin_model(self, record: LoadRecord) -> None:
        """The model can be invoked from now on: what is asked of it is counted."""
        if self.metrics is not None:
            self.metrics.meters.begin(record.model_name).name_target(record.target_model)

    def unloaded(self, model_name: str, began: float, error: ServeError | None = None) -> None:
        """An unload has ended that began then, by time.monotonic."""
        if self.metrics is not None:
            self.metrics.unloads.labels("failed" if error is not None else "unloaded").inc()
        if self.tracer is not None:
            self.tracer.told("unload", model_name, began, str(error or ""))

    def revived(self, model_name: str, began: float, cause: str, result: str) -> None:
        """A model was loaded again, or not: metrics.REVIVAL_CAUSES and REVIVAL_RESULTS."""
        if self.metrics is not None:
            self.metrics.revivals.labels(cause, result).inc()
        if self.tracer is not None:
            why = "" if result == "revived" else f"it was {result.replace('_', ' ')}; see the log"
            self.tracer.told("revival", model_name, began, why, cause=cause, result=result)

    def restarted(self) -> None:
        """tritonserver was started again."""
        if self.metrics is not None:
            self.metrics.restarts.inc()


def _result(error: BaseException) -> str:
    return "refused" if isinstance(error, _REFUSED) else "failed"


def _sentence(error: BaseException) -> str:
    """Why, without what a caller wrote into his request's data."""
    return error.logged if isinstance(error, ServeError) else str(error)
