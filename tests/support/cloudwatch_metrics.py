"""What CloudWatch makes of the events of a log group, by the Embedded Metric Format's own rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LARGEST_EVENT, MOST_METRICS, MOST_VALUES, MOST_DIMENSIONS = 256 * 1024, 100, 100, 30


@dataclass
class Statistics:
    """A metric's, over all of the time."""

    sum: float = 0.0
    sample_count: int = 0
    last: float = 0.0
    values: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class CloudWatchMetrics:
    """Each metric is a name and its dimensions."""

    found: Mapping[tuple[str, frozenset[tuple[str, str]]], Statistics]

    def of(self, name: str, **dimensions: str) -> Statistics:
        """The one with exactly these dimensions; nothing if there is none."""
        return self.found.get((name, frozenset(dimensions.items())), Statistics())

    def names(self) -> set[str]:
        """All there are."""
        return {name for name, _ in self.found}


def read_events(client: Any, group: str) -> list[str]:
    """All messages of the group; none where there is no such group."""
    try:
        pages = list(client.get_paginator("filter_log_events").paginate(logGroupName=group))
    except client.exceptions.ResourceNotFoundException:
        return []
    return [event["message"] for page in pages for event in page["events"]]


def metrics_of(events: Iterable[str], namespace: str) -> CloudWatchMetrics:
    """What the events come to; AssertionError for one that CloudWatch would not take."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], Statistics] = {}
    for text in events:
        assert len(text.encode()) + 26 <= LARGEST_EVENT
        event = json.loads(text)
        (directive,) = event["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == namespace
        (names,) = directive["Dimensions"]
        assert len(names) == len(set(names)) <= MOST_DIMENSIONS
        dimensions = frozenset((name, event[name]) for name in names)
        assert all(1 <= len(value) <= 1024 and value.isascii() for _, value in dimensions)
        metrics = [metric["Name"] for metric in directive["Metrics"]]
        assert len(metrics) == len(set(metrics)) <= MOST_METRICS
        for name in metrics:
            _add(found.setdefault((name, dimensions), Statistics()), event[name])
    return CloudWatchMetrics(found)


def _add(statistics: Statistics, value: Any) -> None:
    pairs = [(value, 1)]
    if isinstance(value, dict):
        assert len(value["Values"]) == len(value["Counts"]) <= MOST_VALUES
        pairs = list(zip(value["Values"], value["Counts"], strict=True))
        assert value["Count"] == sum(value["Counts"])
    for number, count in pairs:
        statistics.sum += number * count
        statistics.sample_count += count
        statistics.last = number
        statistics.values += [number] * count
