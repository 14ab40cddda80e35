"""Counts since the last publication: CloudWatch sums what it is sent. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from container.telemetry.series import GAUGE, Distribution, Series, Value

Known = Mapping[Hashable, Value]


@dataclass(frozen=True)
class Increments:
    """How series have changed since they were last read."""

    #: Gauges as they are, of the others what came to them. A series that did not count since is
    #: left out.
    changed: list[Series] = field(default_factory=list)
    #: The values to compare with the next time.
    known: Known = field(default_factory=dict)


def subtract(
    known: Known,
    series: Iterable[Series],
    keeps: Callable[[Hashable], bool] = lambda _: False,
) -> Increments:
    """How much more the series have than was known; a series that is not known counts from 0.

    keeps: whether a series that is not among them now may come and go on where it was. Any other
    begins anew when it comes again.
    """
    changed: list[Series] = []
    now: dict[Hashable, Value] = {}
    for each in series:
        if each.kind == GAUGE:
            changed.append(each)
            continue
        now[each.key] = each.value
        more = _measure_increase(known.get(each.key), each.value)
        if more.count if isinstance(more, Distribution) else more:
            changed.append(replace(each, value=more))
    now |= {key: value for key, value in known.items() if key not in now and keeps(key)}
    return Increments(changed, now)


def _measure_increase(before: Value | None, now: Value) -> Value:
    """Who has less than before has begun anew: all of it is more."""
    if isinstance(now, Distribution):
        return _subtract_counts(before, now) if isinstance(before, Distribution) else now
    if before is None or isinstance(before, Distribution) or now < before:
        return now
    return now - before


def _subtract_counts(before: Distribution, now: Distribution) -> Distribution:
    if before.bounds != now.bounds:
        return now
    counts = tuple(new - old for old, new in zip(before.counts, now.counts, strict=True))
    if min(counts) < 0:
        return now
    return Distribution(now.bounds, counts, now.sum - before.sum)
