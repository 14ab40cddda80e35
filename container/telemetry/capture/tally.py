"""What became of captures: counters of the metrics page, and a line of the log now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from serve.telemetry.captures import QUEUE, TOO_LARGE

_log = logging.getLogger(__name__)

#: Why an exchange was dropped, beside TOO_LARGE and QUEUE: a column is to be hidden and nobody can
#: say where it is; SERVE_CAPTURE_MB lie on this machine; the disk took no more.
UNREAD, FULL, DISK = "unread", "full", "disk"
DROP_REASONS = (TOO_LARGE, QUEUE, UNREAD, FULL, DISK)
#: What happened to a record.
WRITTEN, UPLOADED = "written", "uploaded"
#: Of each kind of failure a line is logged once in so many seconds.
_AGAIN_S = 60.0


class CaptureTally:
    """Any thread may call it."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._records = Counter(
            "serve_capture_records",
            "Captured requests with their answers, by what happened: written to this machine's"
            " disk, and from there uploaded to the bucket.",
            ["result"],
            registry=registry,
        )
        self._dropped = Counter(
            "serve_capture_dropped",
            "Requests of the sample that were not captured, by reason.",
            ["reason"],
            registry=registry,
        )
        self._failed_uploads = Counter(
            "serve_capture_failed_uploads",
            "Uploads of captures that failed; each is tried again.",
            registry=registry,
        )
        for result in (WRITTEN, UPLOADED):
            self._records.labels(result)
        for reason in DROP_REASONS:
            self._dropped.labels(reason)
        self._clock = clock
        self._told: dict[str, float] = {}

    def wrote(self, records: int) -> None:
        """So many are on disk."""
        self._records.labels(WRITTEN).inc(records)

    def uploaded(self, records: int) -> None:
        """So many are in the bucket."""
        self._records.labels(UPLOADED).inc(records)

    def drop(self, reason: str, records: int = 1) -> None:
        """One of DROP_REASONS."""
        self._dropped.labels(reason).inc(records)

    def fail_upload(self, failure: str, why: str, files: int) -> None:
        """files: how many wait now."""
        self._failed_uploads.inc()
        self.tell("captures were not uploaded", failure=failure, reason=why, files=files)

    def tell(self, sentence: str, *, exc_info: bool = False, **facts: object) -> None:
        """A warning, unless the same was told within the last minute."""
        now = self._clock()
        if now - self._told.get(sentence, -_AGAIN_S) >= _AGAIN_S:
            self._told[sentence] = now
            _log.warning("%s", sentence, extra=facts, exc_info=exc_info)
