"""Series as events in CloudWatch's Embedded Metric Format. No I/O.

Their labels are the dimensions; an empty label is no dimension, as an empty one is refused. The
limits are the format's own. A histogram goes as values and counts (decision 32).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from container.telemetry.series import COUNTER, HISTOGRAM, Distribution, Series

MOST_METRICS, MOST_VALUES, MOST_DIMENSIONS = 100, 100, 30
LONGEST_VALUE = 1024  # characters of a dimension's value
_UNITS = {"seconds": "Seconds", "bytes": "Bytes", "us": "Microseconds", "ms": "Milliseconds"}

Metric = tuple[str, str | None, Any]  # name, unit, value


def write_events(
    series: Iterable[Series], fixed: Mapping[str, str], namespace: str, now_ms: int
) -> Iterator[str]:
    """Events, each of one set of dimensions, in ASCII. fixed: dimensions of all.

    Left out: numbers that JSON cannot hold, and series of more than MOST_DIMENSIONS.
    """
    alike: dict[tuple[tuple[str, str], ...], list[Metric]] = {}
    for each in series:
        dimensions = tuple(sorted(_dimensions(fixed, each.labels).items()))
        if len(dimensions) <= MOST_DIMENSIONS:
            alike.setdefault(dimensions, []).extend(_metrics(each))
    for dimensions, metrics in alike.items():
        for some in _pack(metrics):
            yield _event(dict(dimensions), some, namespace, now_ms)


def spread_values(spread: Distribution) -> list[tuple[float, int]]:
    """A value for each bucket that holds any, and how many.

    Each lies within its bucket's bounds, at the same share of all of them, so that their sum is
    what was summed. A percentile is thus off by less than its bucket is wide.
    """
    edges = [min(0.0, *spread.bounds[:1]), *spread.bounds]
    lows = edges
    highs = [*spread.bounds, edges[-1]]
    filled = [
        (low, high, count)
        for low, high, count in zip(lows, highs, spread.counts, strict=True)
        if count
    ]
    least = sum(low * count for low, _, count in filled)
    most = sum(high * count for _, high, count in filled)
    share = (spread.sum - least) / (most - least) if most > least else 1.0
    share = min(1.0, max(0.0, share))
    values = [(low + share * (high - low), count) for low, high, count in filled]
    beyond = spread.counts[-1]
    if beyond and spread.sum > most:  # the last bucket has no upper bound
        values[-1] = (edges[-1] + (spread.sum - most) / beyond, beyond)
    return values


def _metrics(series: Series) -> Iterator[Metric]:
    unit = _unit(series)
    if isinstance(series.value, Distribution):
        pairs = spread_values(series.value)
        for start in range(0, len(pairs), MOST_VALUES):
            yield series.name, unit, _statistics(pairs[start : start + MOST_VALUES])
    elif math.isfinite(series.value):
        yield series.name, unit, series.value


def _statistics(pairs: list[tuple[float, int]]) -> dict[str, Any]:
    """A histogram as AWS's own libraries write it."""
    values, counts = [value for value, _ in pairs], [count for _, count in pairs]
    return {
        "Values": values,
        "Counts": counts,
        "Max": max(values),
        "Min": min(values),
        "Count": sum(counts),
        "Sum": math.fsum(value * count for value, count in pairs),
    }


def _unit(series: Series) -> str | None:
    name = series.name.removesuffix("_total").removesuffix("_sum")
    unit = _UNITS.get(name.rpartition("_")[2])
    return unit or ("Count" if series.kind in (COUNTER, HISTOGRAM) else None)


def _dimensions(fixed: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """A label of the series' own goes before a fixed dimension of its name."""
    own = {name: _in_ascii(value) for name, value in labels.items()}
    return {**fixed, **{name: value for name, value in own.items() if value.strip()}}


def _in_ascii(value: str) -> str:
    """CloudWatch takes no other characters; two values that differ stay two."""
    if not (value.isascii() and value.isprintable()):
        value = value.encode("unicode_escape").decode()
    return value[:LONGEST_VALUE]


def _pack(metrics: Iterable[Metric]) -> Iterable[list[Metric]]:
    """Pack into as few events as possible; a name stands in an event once."""
    events: list[dict[str, Metric]] = []
    for metric in metrics:
        name = metric[0]
        free = (event for event in events if len(event) < MOST_METRICS and name not in event)
        event = next(free, None)
        if event is None:
            events.append(event := {})
        event[name] = metric
    return (list(event.values()) for event in events)


def _event(
    dimensions: Mapping[str, str], metrics: list[Metric], namespace: str, now_ms: int
) -> str:
    directive = {
        "Namespace": namespace,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name} | ({"Unit": unit} if unit else {}) for name, unit, _ in metrics],
    }
    metadata = {"Timestamp": now_ms, "CloudWatchMetrics": [directive]}
    return json.dumps(
        {"_aws": metadata, **dimensions, **{name: value for name, _, value in metrics}},
        separators=(",", ":"),
    )
