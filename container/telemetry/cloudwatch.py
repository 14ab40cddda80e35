"""tritonserver's metrics, once a minute, into CloudWatch.

They go to CloudWatch Logs as events in the Embedded Metric Format, from which CloudWatch makes
metrics in the namespace. What fails is logged, once for each kind of failure, and never stops
serving. boto3 is imported when it is used first: it costs about 30 MB.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from container.ports import LOOPBACK
from container.settings import Settings
from serve.threads import in_daemon_thread

log = logging.getLogger(__name__)

INTERVAL_S = 60.0  # CloudWatch's standard resolution
SCRAPE_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 5.0  # of AWS; a call in flight holds the container's exit
METRICS_PER_EVENT = 100  # limit of the Embedded Metric Format
EVENTS_PER_CALL = 1_000  # PutLogEvents takes 10,000 events and 1 MiB; ours have about 1 KB
PAGE_MAX = 16 * 1024 * 1024  # bytes of a metrics page; thousands of models fit

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sample:
    """One number of the metrics page."""

    name: str
    labels: Labels
    value: float


def parse_metrics(page: str) -> list[Sample]:
    """The samples of a Prometheus page; numbers that JSON cannot hold are left out.

    The parser adds OpenMetrics' `_total` to counters; tritonserver's names have none.
    """
    return [
        Sample(
            _own_name(family.type, sample.name),
            tuple(sorted(sample.labels.items())),
            float(sample.value),
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if math.isfinite(sample.value)
    ]


def _own_name(kind: str, name: str) -> str:
    return name.removesuffix("_total") if kind == "counter" else name


def to_events(samples: Iterable[Sample], namespace: str, now_ms: int) -> list[str]:
    """Embedded Metric Format, one event for each set of labels; the labels are the dimensions."""
    by_labels: dict[Labels, dict[str, float]] = {}
    for sample in samples:
        by_labels.setdefault(sample.labels, {})[sample.name] = sample.value
    return [
        _event(dict(labels), dict(part), namespace, now_ms)
        for labels, values in by_labels.items()
        for part in _parts(list(values.items()), METRICS_PER_EVENT)
    ]


def _event(
    labels: Mapping[str, str], values: Mapping[str, float], namespace: str, now_ms: int
) -> str:
    directive = {
        "Namespace": namespace,
        "Dimensions": [sorted(labels)],
        "Metrics": [{"Name": name} for name in values],
    }
    metadata = {"Timestamp": now_ms, "CloudWatchMetrics": [directive]}
    return json.dumps({"_aws": metadata, **labels, **values})


def _parts(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


class LogStream:
    """One stream of a log group, made when it is missing. Blocks; not for several threads."""

    def __init__(self, client: Any, group: str, stream: str) -> None:
        self._client, self._group, self._stream = client, group, stream

    def put(self, events: Sequence[str], now_ms: int) -> None:
        """Sends the events. Raises what botocore raises."""
        for part in _parts(events, EVENTS_PER_CALL):
            try:
                self._put(part, now_ms)
            except self._client.exceptions.ResourceNotFoundException:
                self._create()
                self._put(part, now_ms)

    def _put(self, events: Sequence[str], now_ms: int) -> None:
        self._client.put_log_events(
            logGroupName=self._group,
            logStreamName=self._stream,
            logEvents=[{"timestamp": now_ms, "message": event} for event in events],
        )

    def _create(self) -> None:
        there = self._client.exceptions.ResourceAlreadyExistsException
        for create, names in (
            (self._client.create_log_group, {"logGroupName": self._group}),
            (
                self._client.create_log_stream,
                {"logGroupName": self._group, "logStreamName": self._stream},
            ),
        ):
            try:
                create(**names)
            except there:
                continue


class MetricsPublisher:
    """Scrapes and sends until it is cancelled."""

    def __init__(
        self,
        settings: Settings,
        metrics_port: int,
        *,
        client: Callable[[], Any] | None = None,
        interval_s: float = INTERVAL_S,
        stream: str | None = None,
    ) -> None:
        """`client` makes the CloudWatch Logs client, by default boto3's; `stream` is the host."""
        assert settings.cloudwatch_log_group
        assert settings.cloudwatch_metric_namespace
        self._group = settings.cloudwatch_log_group
        self._namespace = settings.cloudwatch_metric_namespace
        self._url = f"http://{LOOPBACK}:{metrics_port}/metrics"
        self._make_client = client or boto3_client
        self._interval_s = interval_s
        self._stream = stream or socket.gethostname()
        self._log_stream: LogStream | None = None
        self._known_failures: set[str] = set()

    async def run(self) -> None:
        """Publishes every `interval_s`, the first time after one; never raises of itself."""
        while True:
            await asyncio.sleep(self._interval_s)
            await in_daemon_thread(self.publish, "cloudwatch")

    def publish(self) -> None:
        """Once. Blocks; what fails is logged."""
        try:
            samples = parse_metrics(scrape(self._url))
            now_ms = int(time.time() * 1000)
            self._destination().put(to_events(samples, self._namespace, now_ms), now_ms)
        except Exception as error:  # the network, the credentials, the page: none may stop serving
            self._report(error)

    def _destination(self) -> LogStream:
        if self._log_stream is None:
            self._log_stream = LogStream(self._make_client(), self._group, self._stream)
        return self._log_stream

    def _report(self, error: Exception) -> None:
        kind = failure_kind(error)
        if kind not in self._known_failures:
            self._known_failures.add(kind)
            log.warning("metrics were not published", extra={"failure": kind, "reason": str(error)})


def scrape(url: str) -> str:
    """The metrics page. Blocks, at most `SCRAPE_TIMEOUT_S` for each step."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback: no proxy
    with opener.open(url, timeout=SCRAPE_TIMEOUT_S) as answer:
        page: bytes = answer.read(PAGE_MAX)
    return page.decode("utf-8")


def failure_kind(error: Exception) -> str:
    """What makes two failures the same one: AWS's code if there is one, else the type."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
    return str(code or type(error).__name__)


def boto3_client() -> Any:
    """CloudWatch Logs by the container's role and region."""
    import boto3
    from botocore.config import Config

    limits = Config(
        connect_timeout=CALL_TIMEOUT_S,
        read_timeout=CALL_TIMEOUT_S,
        retries={"total_max_attempts": 2},
    )
    return boto3.client("logs", config=limits)
