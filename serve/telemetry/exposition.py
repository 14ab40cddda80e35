"""The models' numbers as Prometheus' text, in pieces that take half a millisecond each. No I/O.

Written here and not by prometheus_client: five hundred models are forty thousand lines, for which
it takes a third of a second in one go, and callers would wait for that (decision 31).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TypeAlias, TypeVar

from serve.telemetry.meters import BUCKETS_S, PARTS, ModelMeter

_T = TypeVar("_T")
#: Models that are written before others get their turn.
_AT_ONCE = 16
#: Lines of columns, of which a model may have thousands: about half a millisecond.
_LINES_AT_ONCE = 500
#: What a model has counted: numbers in the order of FEATURES, by column.
Features: TypeAlias = Mapping[str, tuple[int, ...]]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
#: Stands where the target's name comes: no label holds it.
_TARGET = "\0"


@dataclass(frozen=True)
class Family:
    """A metric: its name, kind and labels, and what it says, with its unit."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def head(self) -> bytes:
        """The lines in front of its samples."""
        return f"# HELP {self.name} {self.meaning}\n# TYPE {self.name} {self.kind}\n".encode()


_MODEL = ("target_model", "model_name")
INVOCATIONS = Family(
    "serve_invocations_total",
    "counter",
    (*_MODEL, "code"),
    "Invocations by the status they were answered with; 499: the caller had left.",
)
SECONDS = Family(
    "serve_invocation_seconds",
    "histogram",
    ("target_model", "part"),
    "Seconds of an invocation from the whole request to its answer: total, waiting for a place in"
    " tritonserver, translating (reading, checking, inflating, JSON to binary and back),"
    " tritonserver.",
)
#: By what a ModelMeter calls the number.
TOTALS = {
    "request_bytes": Family(
        "serve_request_bytes_total", "counter", _MODEL, "Bytes of invocations' bodies as they came."
    ),
    "answer_bytes": Family(
        "serve_answer_bytes_total", "counter", _MODEL, "Bytes of invocations' answers."
    ),
}
#: By what ModelNumbers calls them.
GAUGES = {
    "in_flight": Family(
        "serve_invocations_in_flight", "gauge", _MODEL, "Invocations that are being answered now."
    ),
    "memory": Family(
        "serve_model_memory_bytes",
        "gauge",
        _MODEL,
        "Memory of the model's processes in bytes: what they share counts in equal parts (PSS). Its"
        " memory inside tritonserver is not in it.",
    ),
    "shared_memory": Family(
        "serve_model_shared_memory_bytes",
        "gauge",
        _MODEL,
        "Shared memory in /dev/shm of the model's processes, in bytes.",
    ),
}
#: By what ColumnCounts calls them. `column`: empty where the sums of all columns are told.
FEATURES = {
    "values": Family(
        "serve_feature_values_total",
        "counter",
        (*_MODEL, "column"),
        "Values of columns that the model's compiled workflows were given, nulls included.",
    ),
    "unseen": Family(
        "serve_feature_unseen_total",
        "counter",
        (*_MODEL, "column"),
        "Values of columns that are in no vocabulary of the model's compiled workflows.",
    ),
    "nulls": Family(
        "serve_feature_null_total",
        "counter",
        (*_MODEL, "column"),
        "Nulls among the values of columns that the model's compiled workflows were given.",
    ),
}
SCRAPED = Family(
    "serve_tritonserver_scrape_success",
    "gauge",
    (),
    "Whether tritonserver's own metrics are on this page: 1, or 0 where they did not come in time.",
)
MODELS = (INVOCATIONS, SECONDS, *TOTALS.values(), *GAUGES.values())
FAMILIES = (*MODELS, *FEATURES.values(), SCRAPED)


@dataclass(frozen=True)
class ModelNumbers:
    """Numbers of the models that no meter has, by model name; bytes."""

    in_flight: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    shared_memory: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, str] = field(default_factory=dict)  # their newest names in tritonserver
    features: Mapping[str, Features] = field(default_factory=dict)


def write_models(
    meters: Sequence[ModelMeter], numbers: ModelNumbers, timed: Iterable[ModelMeter] | None = None
) -> Iterator[bytes]:
    """All families of the models; each piece is whole lines.

    timed: all meters of the archives that are shown, where these are more than meters: histograms
    are by archive, and fall when one of its models leaves the sum.
    """
    labels = {meter.model_name: _format_labels(meter) for meter in meters}
    yield INVOCATIONS.head
    for some in _parts(meters):
        yield "".join(
            f'{INVOCATIONS.name}{{{labels[meter.model_name]},code="{code}"}} {count}\n'
            for meter in some
            for code, count in sorted(meter.codes.items())
        ).encode()
    yield SECONDS.head
    for targets in _parts(list(_group_by_target(meters if timed is None else timed).items())):
        yield "".join(_write_histograms(target, some) for target, some in targets).encode()
    totals = ({it.model_name: getattr(it, number) for it in meters} for number in TOTALS)
    gauges = (getattr(numbers, number) for number in GAUGES)
    for family, values in zip(MODELS[2:], (*totals, *gauges), strict=True):
        yield family.head
        yield "".join(
            f"{family.name}{{{labels[name]}}} {value}\n"
            for name, value in values.items()
            if name in labels
        ).encode()
    yield from _write_features(labels, numbers.features)


def _write_features(labels: Mapping[str, str], features: Mapping[str, Features]) -> Iterator[bytes]:
    for number, family in enumerate(FEATURES.values()):
        yield family.head
        lines = (
            f"{family.name}{{{labels[name]}{_format_column(column)}}} {totals[number]}\n"
            for name, of_model in features.items()
            if name in labels
            for column, totals in of_model.items()
        )
        while some := "".join(islice(lines, _LINES_AT_ONCE)):
            yield some.encode()


def _format_column(column: str) -> str:
    return f',column="{escape(column)}"' if column else ""


def escape(value: str) -> str:
    """A label's value as it stands between quotes."""
    return value.translate(_ESCAPES)


def _format_labels(meter: ModelMeter) -> str:
    target, name = escape(meter.target_model), escape(meter.model_name)
    return f'target_model="{target}",model_name="{name}"'


def _group_by_target(meters: Iterable[ModelMeter]) -> Mapping[str, list[ModelMeter]]:
    """A target that several models are of has their sum: a series stands once on a page."""
    of_target: dict[str, list[ModelMeter]] = {}
    for meter in meters:
        of_target.setdefault(meter.target_model, []).append(meter)
    return of_target


def _make_template() -> str:
    """The lines of one target, with its name to come and a blank for each number."""
    bounds = [*(repr(bound) for bound in BUCKETS_S), "+Inf"]
    lines = []
    for part in PARTS:
        labels = f'target_model="{_TARGET}",part="{part}"'
        lines += [f'{SECONDS.name}_bucket{{{labels},le="{bound}"}} %d' for bound in bounds]
        lines += [f"{SECONDS.name}_count{{{labels}}} %d", f"{SECONDS.name}_sum{{{labels}}} %r"]
    return "\n".join([*lines, ""])


_TEMPLATE = _make_template()


def _write_histograms(target: str, meters: Iterable[ModelMeter]) -> str:
    values: list[float] = []
    for of_models in zip(*(meter.parts for meter in meters), strict=True):
        values += accumulate(map(sum, zip(*(each.counts for each in of_models), strict=True)))
        values += (values[-1], sum(each.sum_s for each in of_models))
    return (_TEMPLATE % tuple(values)).replace(_TARGET, escape(target))


def _parts(whole: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (whole[start : start + _AT_ONCE] for start in range(0, len(whole), _AT_ONCE))
