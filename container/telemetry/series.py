"""One form for all numbers that are published, whoever counts them. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from serve.telemetry.exposition import (
    FEATURES,
    GAUGES,
    INVOCATIONS,
    SECONDS,
    TOTALS,
    Features,
    ModelNumbers,
)
from serve.telemetry.meters import BUCKETS_S, PARTS, ModelMeter
from serve.telemetry.triton_page import model_labels, pick_trusted_lines

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
#: Lines of tritonserver's page that are read at once: about two milliseconds.
_LINES_AT_ONCE = 150
_DECLARED = re.compile(r"^# TYPE (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Distribution:
    """A histogram."""

    bounds: tuple[float, ...]
    #: One for each bucket, not cumulated, and one more for what is beyond the bounds.
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(self.counts)


Value = float | Distribution


@dataclass(frozen=True)
class Series:
    """A number, or a histogram."""

    #: Stays the same while the series goes on. Labels may change: an archive's name is learned
    #: late.
    key: Hashable
    name: str
    kind: str
    labels: Mapping[str, str]
    value: Value


class MeterKey(NamedTuple):
    """The key of a series that a meter counts: which of its numbers."""

    meter: ModelMeter
    number: str


@dataclass(frozen=True)
class MeterReading:
    """The numbers of a meter at one moment; the meter goes on counting."""

    meter: ModelMeter
    target_model: str
    codes: Mapping[int, int]
    parts: tuple[Distribution, ...]
    #: Those of TOTALS.
    totals: tuple[int, ...]


def read_meter(meter: ModelMeter) -> MeterReading:
    """Read a meter where invocations are counted: it is no moment for another thread."""
    return MeterReading(
        meter,
        meter.target_model,
        dict(meter.codes),
        tuple(Distribution(BUCKETS_S, tuple(part.counts), part.sum_s) for part in meter.parts),
        tuple(getattr(meter, number) for number in TOTALS),
    )


def read_meters(readings: Iterable[MeterReading], numbers: ModelNumbers) -> Iterator[Series]:
    """The models' families, as the page has them. Their keys are MeterKeys."""
    for reading in readings:
        meter, target = reading.meter, {"target_model": reading.target_model}
        model = {**target, "model_name": meter.model_name}
        for code, count in reading.codes.items():
            labels = {**model, "code": str(code)}
            yield Series(MeterKey(meter, labels["code"]), INVOCATIONS.name, COUNTER, labels, count)
        for part, spread in zip(PARTS, reading.parts, strict=True):
            labels = {**target, "part": part}
            yield Series(MeterKey(meter, part), SECONDS.name, HISTOGRAM, labels, spread)
        for family, total in zip(TOTALS.values(), reading.totals, strict=True):
            yield Series(MeterKey(meter, family.name), family.name, COUNTER, model, total)
        for number, family in GAUGES.items():
            values = getattr(numbers, number)
            if meter.model_name in values:
                value = values[meter.model_name]
                yield Series(MeterKey(meter, family.name), family.name, GAUGE, model, value)
        if meter.model_name in numbers.features:
            yield from _read_features(meter, model, numbers.features[meter.model_name])


def _read_features(
    meter: ModelMeter, model: Mapping[str, str], features: Features
) -> Iterator[Series]:
    for column, totals in features.items():
        labels = {**model, "column": column} if column else model
        for family, total in zip(FEATURES.values(), totals, strict=True):
            key = MeterKey(meter, f"{family.name}\0{column}")
            yield Series(key, family.name, COUNTER, labels, total)


def read_families(families: Iterable[Any]) -> Iterator[Series]:
    """The series of prometheus_client's families, of a registry or of a page that it has read."""
    for family in families:
        if family.type == HISTOGRAM:
            yield from _read_histograms(family)
            continue
        for sample in family.samples:
            kind = COUNTER if _is_counted(family.type, sample) else GAUGE
            labels = dict(sample.labels)
            yield Series(_make_key(sample.name, labels), sample.name, kind, labels, sample.value)


def read_triton_page(
    page: str, target_of: Callable[[str], str], entries: Mapping[str, str]
) -> Iterator[Series]:
    """The series of tritonserver's page.

    target_of: the archive's name for a model's name. entries: model_labels'.
    """
    for part in _split_page(page):
        declared = _DECLARED.findall(part)
        for series in read_families(text_string_to_metric_families(part)):
            labels = dict(series.labels)
            labels.pop("namespace", None)  # where its model lies: a directory of ours
            if "model" in labels:
                ours = model_labels(labels.pop("model"), target_of, entries)
                if ours is None:
                    continue
                labels |= ours
            name = series.name
            # The library's counters all end so; tritonserver's do not.
            if series.kind == COUNTER and name not in declared:
                name = name.removesuffix("_total")
            yield Series(series.key, name, series.kind, labels, series.value)


def _split_page(page: str) -> Iterator[str]:
    """Pages of a few lines each, which the library reads without a break. Histograms stay whole."""
    part: list[str] = []
    declaration = ""
    for line in pick_trusted_lines(page):
        if line.startswith("# TYPE "):
            declaration = line
        elif len(part) >= _LINES_AT_ONCE and declaration.endswith((" counter\n", " gauge\n")):
            yield "".join(part)
            part = [declaration]
        part.append(line)
    yield "".join(part)


def _is_counted(kind: str, sample: Any) -> bool:
    """Whether it is counted; a summary's quantiles are not."""
    return kind == COUNTER or (kind == "summary" and sample.name.endswith(("_count", "_sum")))


def _make_key(name: str, labels: Mapping[str, str]) -> str:
    """Text, of which the garbage collector need not look through tens of thousands."""
    return "\0".join((name, *(f"{label}={value}" for label, value in sorted(labels.items()))))


def _read_histograms(family: Any) -> Iterator[Series]:
    """A histogram for each set of labels but `le`; one without its last bucket is left out."""
    buckets: dict[str, dict[float, float]] = {}
    sums: dict[str, float] = {}
    labels_of: dict[str, dict[str, str]] = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        key = _make_key(family.name, labels)
        labels_of[key] = labels
        if sample.name.endswith("_bucket"):
            buckets.setdefault(key, {})[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    for key, counts_by_bound in buckets.items():
        *bounds, last = sorted(counts_by_bound)
        cumulated = [0.0, *(counts_by_bound[bound] for bound in [*bounds, last])]
        if last == float("inf") and key in sums and all(map(math.isfinite, cumulated)):
            counts = tuple(int(more - less) for less, more in pairwise(cumulated))
            spread = Distribution(tuple(bounds), counts, sums[key])
            yield Series(key, family.name, HISTOGRAM, labels_of[key], spread)
