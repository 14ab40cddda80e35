"""What is counted of each model's invocations: plain numbers, cheap to add to.

The hot path: prometheus_client's own counters take a lock and a look-up of labels for each number,
six times what this takes (docs/decisions/0031). How they are written is exposition.py's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping

from serve.telemetry.record import InvocationRecord

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
#: Models that left whose counts are kept, so that one that comes back goes on where it was.
_MOST_DEPARTED = 1_000
#: Characters of an archive's name that a label holds.
_LONGEST_TARGET = 256


class Histogram:
    """How many took how long. counts: one for each bucket, not cumulated, and one for the rest."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds

    def __add__(self, other: Histogram) -> Histogram:
        """Those of both."""
        both = Histogram()
        both.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        both.sum_s = self.sum_s + other.sum_s
        return both


class ModelMeter:
    """One model's numbers since the container's start.

    codes: status -> how many. lives: how often it was loaded. target_model: the archive's name; the
    model's until the platform has said it.
    """

    __slots__ = (
        "answer_bytes",
        "codes",
        "is_nameless",
        "lives",
        "model_name",
        "parts",
        "request_bytes",
        "target_model",
    )

    def __init__(self, model_name: str) -> None:
        self.model_name = self.target_model = model_name
        self.is_nameless = True
        self.codes: dict[int, int] = {}
        self.lives = 0
        self.parts = tuple(Histogram() for _ in PARTS)
        self.request_bytes = self.answer_bytes = 0

    def name_target(self, target: str) -> None:
        """The first that is said counts; empty for none."""
        if target and self.is_nameless:
            self.target_model, self.is_nameless = target[:_LONGEST_TARGET], False

    def invoked(self, record: InvocationRecord) -> None:
        """Count one invocation."""
        codes, status = self.codes, record.status
        codes[status] = codes.get(status, 0) + 1
        total, waiting, translating, triton = self.parts
        total.observe(record.seconds)
        waiting.observe(record.waiting_s)
        translating.observe(record.translating_s)
        triton.observe(record.triton_s)
        self.request_bytes += record.request_bytes
        self.answer_bytes += record.answer_bytes


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
    """One who reads the meters now and then, and is to miss nothing of models that leave."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        #: Models that have left, and of which life that was shown.
        self._told: dict[str, int] = {}

    def read(self, loaded: Collection[str]) -> list[ModelMeter]:
        """Those of loaded models, and once more of those that have left since the last time.

        What a model did between the last look and its end is in that; then its series end.
        """
        meters = self._meters.forget(loaded)
        left = {name: meter.lives for name, meter in meters.items() if name not in loaded}
        shown = [
            meter
            for name, meter in meters.items()
            if name not in left or self._told.get(name) != left[name]
        ]
        self._told = left
        return [self._meters.unknown, *shown]
