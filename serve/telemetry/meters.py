"""What is counted of each model's invocations: plain numbers, cheap to add to.

The hot path: prometheus_client's own counters take a lock and a look-up of labels for each number,
six times what this takes (decision 31). How they are written is exposition.py's.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from serve.telemetry.invocation_record import InvocationRecord, target_model

_Counts: TypeAlias = npt.NDArray[np.int64]

#: Upper bounds of the histograms' buckets, in seconds: 0.5 ms to the platform's limit.
BUCKETS_S = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
#: The parts of an invocation, as the label `part` says them; the rest is the container's own.
PARTS = ("total", "waiting", "translating", "tritonserver")
_BUCKETS = len(BUCKETS_S) + 1
_BOUNDS_S = np.array(BUCKETS_S)
#: Where the counts of each part begin among those of all.
_FIRST_BUCKETS: _Counts = np.arange(len(PARTS)) * _BUCKETS
#: Numbers that wait to be counted: 16 KB a model.
_TIMES_KEPT = 2048
#: Of so many of a model's invocations the archive's name is asked; the platform says it in each.
_MOST_LOOKS = 100
#: Models that left whose counts are kept, so that one that comes back goes on where it was.
_MOST_DEPARTED = 1_000
#: For how long, from the first page on that has it, a model that left is shown, in seconds.
DEPARTED_S = 5.0
#: Characters of an archive's name that a label holds.
_LONGEST_TARGET = 256


class Histogram(NamedTuple):
    """How many took how long. counts: one for each bucket, not cumulated, and one for the rest."""

    counts: tuple[int, ...]
    sum_s: float


class ModelMeter:
    """One model's numbers since the container's start.

    codes: status -> how many. lives: how often it was loaded. target_model: the archive's name; the
    model's until the platform has said it.
    """

    __slots__ = (
        "_counts",
        "_looks",
        "_sums_s",
        "_times",
        "answer_bytes",
        "codes",
        "is_nameless",
        "lives",
        "model_name",
        "request_bytes",
        "target_model",
    )

    def __init__(self, model_name: str) -> None:
        self.model_name = self.target_model = model_name
        self.is_nameless = True
        self._looks = _MOST_LOOKS
        self.codes: dict[int, int] = {}
        self.lives = 0
        self.request_bytes = self.answer_bytes = 0
        #: Of invocations that no histogram has counted yet: their PARTS, one after another.
        self._times = array("d")
        self._counts: _Counts = np.zeros((len(PARTS), _BUCKETS), np.int64)
        self._sums_s = np.zeros(len(PARTS))

    def name_target(self, target: str) -> None:
        """The first that is said counts; empty for none."""
        if target and self.is_nameless:
            self.target_model, self.is_nameless = target[:_LONGEST_TARGET], False

    def invoked(self, record: InvocationRecord) -> None:
        """Count one invocation, and learn the archive's name where the request says it."""
        codes, status = self.codes, record.status
        codes[status] = codes.get(status, 0) + 1
        times = self._times
        times.extend((record.seconds, record.waiting_s, record.translating_s, record.triton_s))
        self.request_bytes += record.request_bytes
        self.answer_bytes += record.answer_bytes
        if len(times) >= _TIMES_KEPT:
            self._count_times()
        if self.is_nameless:
            self._learn_name(record)

    def _learn_name(self, record: InvocationRecord) -> None:
        self.name_target(target_model(record.headers))
        self._looks -= 1
        self.is_nameless = self.is_nameless and self._looks > 0

    @property
    def parts(self) -> tuple[Histogram, ...]:
        """Of each of PARTS, the invocations so far."""
        self._count_times()
        rows = zip(self._counts.tolist(), self._sums_s.tolist(), strict=True)
        return tuple(Histogram(tuple(counts), sum_s) for counts, sum_s in rows)

    def _count_times(self) -> None:
        """Many at once: one by one it takes several times as long (decision 31)."""
        if not self._times:
            return
        times = np.array(self._times).reshape(-1, len(PARTS))
        del self._times[:]
        buckets = np.searchsorted(_BOUNDS_S, times) + _FIRST_BUCKETS
        counted = np.bincount(buckets.ravel(), minlength=self._counts.size)
        self._counts += counted.reshape(self._counts.shape)
        self._sums_s += times.sum(0)


class Meters:
    """Those of all models, and of none: one meter for whoever asks for models that are not loaded.

    What callers ask for makes no series: their number is bounded by the models that were loaded.
    """

    def __init__(self) -> None:
        self.unknown = ModelMeter("")
        self.unknown.is_nameless = False
        self._meters: dict[str, ModelMeter] = {}

    def begin(self, model_name: str) -> ModelMeter:
        """The model's meter, which goes on where it was if the model was here before."""
        meter = self._meters.pop(model_name, None) or ModelMeter(model_name)
        meter.lives += 1
        self._meters[model_name] = meter  # the last to come is the last to be forgotten
        return meter

    def of(self, model_name: str) -> ModelMeter:
        """The model's meter; that of unknown models for a name that was never loaded."""
        return self._meters.get(model_name, self.unknown)

    def of_targets(self, targets: Collection[str]) -> Iterator[ModelMeter]:
        """All that are kept of these archives, whether or not their models are still there."""
        return (it for it in (self.unknown, *self._meters.values()) if it.target_model in targets)

    def holds(self, meter: ModelMeter) -> bool:
        """Whether this meter may go on counting; if not, its model begins with another one."""
        return meter is self.unknown or self._meters.get(meter.model_name) is meter

    def target_of(self, model_name: str) -> str:
        """The archive's name; the model's own where it never came."""
        meter = self._meters.get(model_name)
        return model_name if meter is None else meter.target_model

    def forget(self, loaded: Collection[str]) -> Mapping[str, ModelMeter]:
        """All that are kept: of loaded models, and of the last that have left."""
        departed = [name for name in self._meters if name not in loaded]
        for name in departed[:-_MOST_DEPARTED]:
            del self._meters[name]
        return self._meters


class Reader:
    """Who reads the meters now and then, and is to miss nothing of models that leave."""

    def __init__(self, meters: Meters, clock: Callable[[], float] = time.monotonic) -> None:
        self._meters, self._clock = meters, clock
        #: Models that have left: what they had done when it was first shown, and until when it is.
        self._told: dict[str, tuple[tuple[int, int], float]] = {}

    def read(self, loaded: Collection[str]) -> list[ModelMeter]:
        """Those of loaded models, and for a while of those that have left since the last time.

        What a model did between the last look and its end is in that; then its series end. Several
        who read at about the same time, by this reader, all see it.
        """
        now = self._clock()
        meters = self._meters.forget(loaded)
        departed: dict[str, tuple[tuple[int, int], float]] = {}
        for name, meter in meters.items():
            if name not in loaded:
                did = (meter.lives, sum(meter.codes.values()))
                before = self._told.get(name)
                departed[name] = before if before and before[0] == did else (did, now + DEPARTED_S)
        self._told = departed
        shown = (
            it for name, it in meters.items() if name not in departed or now <= departed[name][1]
        )
        return [self._meters.unknown, *shown]
