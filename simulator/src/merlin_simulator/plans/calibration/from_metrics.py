"""Figures of an archive from a container's /metrics: its address, or a file that it was kept in."""

from __future__ import annotations

import math
import time
import urllib.request
from collections.abc import Iterable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from merlin_simulator.planning.archives import Figures
from merlin_simulator.plans.bounds import MOST_BYTES, MOST_FILE_BYTES, MOST_SECONDS
from merlin_simulator.plans.errors import UnusableFile, shown
from merlin_simulator.plans.text_files import read_text

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

_ANSWER_S = 10.0
_WHOLE_ANSWER_S, _PIECE = 30.0, 65536
#: Characters of why there is no answer; a server may have made them.
_MOST_SAID = 200
#: Requests of a container.
_MOST_COUNTED = 1e15
_NAMES = frozenset(
    {"serve_model_memory_bytes", "serve_load_seconds_bucket", "serve_invocation_seconds_bucket"}
)
_EXPECTED = "expected a container's /metrics with models that were loaded and asked"


def make_figures_of_metrics(where: str, within_s: float = _WHOLE_ANSWER_S) -> Figures:
    """All archives of the container on average. Raises UnusableFile, within so many seconds.

    Memory: the median of serve_model_memory_bytes. Seconds of a load and of a request: from the
    histograms serve_load_seconds (total) and serve_invocation_seconds (total), which cannot tell
    the cold requests from the warm ones.
    """
    samples = [one for one in _samples(where, _read(where, within_s)) if one.name in _NAMES]
    memory = [one.value for one in samples if one.name == "serve_model_memory_bytes"]
    loads = _histogram(where, samples, "serve_load_seconds", "stage")
    services = _histogram(where, samples, "serve_invocation_seconds", "part")
    if not memory or loads is None or services is None:
        raise UnusableFile(where, f"found no loads, memory or invocations in it, {_EXPECTED}")
    if not all(0 <= one <= MOST_BYTES for one in memory):
        raise UnusableFile(where, f"found memory that no model can have, {_EXPECTED}")
    return Figures("metrics", int(median(memory)), 0, (0.0,), loads, (0.0,), services)


def _read(where: str, within_s: float) -> str:
    if not where.startswith(("http://", "https://")):
        return read_text(Path(where), _EXPECTED, MOST_FILE_BYTES)
    found: SimpleQueue[bytes | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            with urllib.request.urlopen(where, timeout=min(_ANSWER_S, within_s)) as answer:
                found.put(_all_of(answer, time.monotonic() + within_s))
        except HTTPError as error:
            error.close()
            found.put(error)
        except (OSError, ValueError, HTTPException) as error:
            found.put(error)

    # Headers that come byte by byte have no time-out of their own.
    Thread(target=ask, daemon=True).start()
    try:
        page = found.get(timeout=within_s)
        if isinstance(page, Exception):
            raise page
        return page.decode()
    except Empty as error:
        what = f"found no whole answer within {within_s:g} s, {_EXPECTED}"
        raise UnusableFile(where, what) from error
    except (OSError, ValueError, HTTPException) as error:
        said = " ".join(str(error).split())[:_MOST_SAID]
        raise UnusableFile(where, f"found no answer ({said}), {_EXPECTED}") from error


def _all_of(answer: HTTPResponse, end: float) -> bytes:
    """Raises ValueError for a page that has no end, takes for ever to come to it, or lacks it."""
    pieces, size = [], 0
    while piece := answer.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_FILE_BYTES:
            raise ValueError(f"more than {MOST_FILE_BYTES / 1e6:g} MB")
        if time.monotonic() > end:
            raise ValueError("it goes on for too long")
    if answer.length:  # what its Content-Length has beyond
        raise ValueError(f"it ends {answer.length:,} bytes too early")
    return b"".join(pieces)


def _samples(where: str, text: str) -> Iterable[Sample]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(text):
            yield from family.samples
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        what = f"found no Prometheus text ({shown(str(error))}), {_EXPECTED}"
        raise UnusableFile(where, what) from error


def _histogram(
    where: str, samples: Iterable[Sample], name: str, label: str
) -> tuple[float, ...] | None:
    """Quantiles at 0, 5, … 100 %, within a bucket in proportion; None without a value."""
    counts: dict[float, float] = {}
    for one in samples:
        if one.name == f"{name}_bucket" and one.labels.get(label) == "total":
            bound = _read_bound(one.labels.get("le", ""))
            counts[bound] = counts.get(bound, 0.0) + one.value
    bounds = sorted(counts)
    # A bucket counts all that the ones below it count.
    if not all(bound >= 0 for bound in bounds) or not _are_counts([counts[it] for it in bounds]):
        raise UnusableFile(where, f"found {name} whose buckets are none, {_EXPECTED}")
    if not bounds or counts[bounds[-1]] <= 0:
        return None
    total = counts[bounds[-1]]
    return tuple(_quantile(bounds, counts, total * step / 20) for step in range(21))


def _read_bound(text: str) -> float:
    """Seconds; -1 for what is no bound of seconds."""
    try:
        bound = float(text)
    except ValueError:
        return -1.0
    return bound if 0.0 <= bound <= MOST_SECONDS or bound == math.inf else -1.0


def _are_counts(numbers: Sequence[float]) -> bool:
    """None is less than the one before it, and none is what nobody can have counted."""
    pairs = zip([0.0, *numbers], [*numbers, _MOST_COUNTED], strict=True)
    return all(before <= after for before, after in pairs)


def _quantile(bounds: list[float], counts: dict[float, float], wanted: float) -> float:
    low = below = 0.0
    for bound in bounds:
        if counts[bound] >= wanted and counts[bound] > below:
            if math.isinf(bound):
                return low
            return low + (bound - low) * max(0.0, wanted - below) / (counts[bound] - below)
        low, below = bound, counts[bound]
    return low
