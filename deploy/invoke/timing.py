"""How long answers took. No I/O."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deploy.quantities import show_count, show_ms

_MS = 1000.0


def percentile(seconds: Sequence[float], share: float) -> float:
    """Nearest rank; of one or more."""
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


def write_times(seconds: Sequence[float]) -> str:
    """Of one or more; the first one apart, since it may have waited for a load."""
    first = show_ms(seconds[0] * _MS)
    if len(seconds) == 1:
        return first
    p50, p99 = (show_ms(percentile(seconds, share) * _MS) for share in (0.5, 0.99))
    return f"{show_count(len(seconds))} answers: p50 {p50}, p99 {p99}; the first {first}"
