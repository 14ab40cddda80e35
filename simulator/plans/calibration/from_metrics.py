"""Figures of an archive from a container's /metrics: its address, or a file that it was kept in."""

from __future__ import annotations

import math
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from simulator.planning.archives import Figures
from simulator.plans.errors import UnusableFile

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

_ANSWER_S = 10.0
_MOST_BYTES = 50_000_000
_EXPECTED = "expected a container's /metrics with models that were loaded and asked"


def make_figures_of_metrics(where: str) -> Figures:
    """All archives of the container on average. Raises UnusableFile.

    Memory: the median of serve_model_memory_bytes. Seconds of a load and of a request: from the
    histograms serve_load_seconds (total) and serve_invocation_seconds (total), which cannot tell
    the cold requests from the warm ones.
    """
    samples = list(_samples(where, _read(where)))
    memory = [one.value for one in samples if one.name == "serve_model_memory_bytes"]
    loads = _histogram(samples, "serve_load_seconds", "stage")
    services = _histogram(samples, "serve_invocation_seconds", "part")
    if not memory or loads is None or services is None:
        raise UnusableFile(where, f"found no loads, memory or invocations in it, {_EXPECTED}")
    return Figures("metrics", int(median(memory)), 0, (0.0,), loads, (0.0,), services)


def _read(where: str) -> str:
    try:
        if where.startswith(("http://", "https://")):
            with urllib.request.urlopen(where, timeout=_ANSWER_S) as answer:
                data: bytes = answer.read(_MOST_BYTES)
            return data.decode()
        return Path(where).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UnusableFile(where, f"found no answer ({error}), {_EXPECTED}") from error


def _samples(where: str, text: str) -> Iterable[Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(text):
            yield from family.samples
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise UnusableFile(where, f"found no Prometheus text ({error}), {_EXPECTED}") from error


def _histogram(samples: Iterable[Sample], name: str, label: str) -> tuple[float, ...] | None:
    """Quantiles at 0, 5, … 100 %, within a bucket in proportion; None without a value."""
    counts: dict[float, float] = {}
    for one in samples:
        if one.name == f"{name}_bucket" and one.labels.get(label) == "total":
            bound = float(one.labels["le"])
            counts[bound] = counts.get(bound, 0.0) + one.value
    bounds = sorted(counts)
    if not bounds or counts[bounds[-1]] <= 0:
        return None
    total = counts[bounds[-1]]
    return tuple(_quantile(bounds, counts, total * step / 20) for step in range(21))


def _quantile(bounds: list[float], counts: dict[float, float], wanted: float) -> float:
    low = below = 0.0
    for bound in bounds:
        if counts[bound] >= wanted and counts[bound] > below:
            if math.isinf(bound):
                return low
            return low + (bound - low) * max(0.0, wanted - below) / (counts[bound] - below)
        low, below = bound, counts[bound]
    return low
