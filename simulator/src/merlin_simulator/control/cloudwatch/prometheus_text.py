"""A container's metrics, as they are published: Prometheus' text in, samples out. No I/O.

What only grows is published as what came since the scrape before, as AWS's CloudWatch agent does:
a total that is summed up again by CloudWatch says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: Of a histogram or summary, what is published: how many there were, and their sum.
_GROWING = ("_total", "_count", "_sum")


@dataclass(frozen=True)
class Sample:
    """One number of a page. grows: it is a total."""

    name: str
    labels: frozenset[tuple[str, str]]
    value: float
    grows: bool


def samples_of(text: str) -> list[Sample]:
    """Those that are published: no buckets, quantiles or times of creation, no NaN.

    Raises ValueError for what is no Prometheus text.
    """
    found = list[Sample]()
    for family in _families(text):
        for sample in family.samples:
            grows = family.type != "gauge" and sample.name.endswith(_GROWING)
            if not grows and family.type in ("counter", "histogram", "summary"):
                continue
            if math.isfinite(sample.value) and not sample.name.endswith("_created"):
                labels = frozenset((name, value) for name, value in sample.labels.items() if value)
                found.append(Sample(sample.name, labels, float(sample.value), grows))
    return found


def _families(text: str) -> list[Metric]:
    """The parser's own; it fails by other errors, too, on what it does not expect."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return list(text_string_to_metric_families(text))
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"no Prometheus text: {error}") from error


class Deltas:
    """Remembers totals from one scrape to the next."""

    def __init__(self) -> None:
        self._before: Mapping[tuple[str, frozenset[tuple[str, str]]], float] | None = None

    def of(self, samples: Iterable[Sample]) -> list[Sample]:
        """The samples as they are published: of the first page no totals.

        One that comes later for the first time was 0 before.
        """
        now, published = dict[tuple[str, frozenset[tuple[str, str]]], float](), list[Sample]()
        for sample in samples:
            if not sample.grows:
                published.append(sample)
                continue
            key = (sample.name, sample.labels)
            now[key] = sample.value
            if self._before is not None:
                before = self._before.get(key, 0.0)
                # A total that shrank began again: the container is another one.
                more = sample.value - before if sample.value >= before else sample.value
                published.append(Sample(sample.name, sample.labels, more, True))
        self._before = now
        return published
