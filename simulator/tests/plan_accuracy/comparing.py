"""A plan beside the replay that it is like: how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: How far a plan may be from what was measured: points of hit ratio, shares of the others.
HIT_POINTS, EVICTIONS_SHARE, COLD_P50_SHARE = 2.0, 0.10, 0.25


@dataclass(frozen=True)
class Compared:
    """One figure. near: within its bound; None: it has none."""

    name: str
    real: float
    planned: float
    near: bool | None


def compare(real: Mapping[str, Any], planned: Mapping[str, Any]) -> Iterator[Compared]:
    """Two reports by the same keys."""
    hits = [100 * (report["hit_ratio"] or 0.0) for report in (real, planned)]
    yield Compared("hit ratio, %", hits[0], hits[1], abs(hits[0] - hits[1]) <= HIT_POINTS)
    evictions = [float(report["loading"]["evictions"]) for report in (real, planned)]
    # Of few, one is more than a tenth.
    bound = max(1.0, EVICTIONS_SHARE * evictions[0])
    yield Compared(
        "evictions", evictions[0], evictions[1], abs(evictions[0] - evictions[1]) <= bound
    )
    for key, share in (("p50", COLD_P50_SHARE), ("p99", None)):
        seconds = [float(report["latency_s"]["cold"][key] or 0.0) for report in (real, planned)]
        apart = abs(seconds[0] - seconds[1])
        near = None if share is None else apart <= share * seconds[0]
        yield Compared(f"cold {key}, s", seconds[0], seconds[1], near)
    for key in ("p50", "p99"):
        seconds = [float(report["latency_s"]["warm"][key] or 0.0) for report in (real, planned)]
        yield Compared(f"warm {key}, s", seconds[0], seconds[1], None)
