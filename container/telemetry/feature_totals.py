"""What the models' compiled workflows have counted, summed up for the metrics page."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ensemble_tools import ServingPlan
from ensemble_tools.serving.features import read_features
from serve.resources.model_memory import Life
from serve.telemetry.exposition import FEATURES, Features

#: One refresh takes no longer, in seconds; models that it did not come to keep their sums.
_REFRESH_S = 1.0
#: After each model whoever waits for the interpreter's lock gets it.
_PAUSE_S = 0.0005
#: Characters of a column's name that a label holds.
_LONGEST_COLUMN = 256


class FeatureTotals:
    """Sums by life, as last read; a model that comes back has those that it had, and more.

    by_column: each column for itself, instead of their sums.
    """

    def __init__(
        self, serving_repository: Path, *, by_column: bool, refresh_s: float = _REFRESH_S
    ) -> None:
        self._serving_repository, self._by_column = serving_repository, by_column
        self._refresh_s = refresh_s
        self._reading = threading.Lock()
        self._features: dict[Life, Features] = {}

    def refresh(self, plans: Mapping[Life, ServingPlan]) -> None:
        """Read anew, those first that were read the longest ago. Blocking; any thread may call."""
        with self._reading:
            until = time.monotonic() + self._refresh_s
            features = {life: it for life, it in self._features.items() if life in plans}
            for life in [*(plans.keys() - features.keys()), *features]:
                if not plans[life].compiled:
                    continue
                before = features.pop(life, {})  # the last that was read stands last
                features[life] = self._read(plans[life], before)
                if time.monotonic() >= until:
                    break
                time.sleep(_PAUSE_S)
            self._features = features

    def of(self, lives: Collection[Life]) -> dict[str, Features]:
        """The sums of these lives by model name, where they were read."""
        features = self._features
        return {life[0]: features[life] for life in lives if life in features}

    def _read(self, plan: ServingPlan, before: Features) -> Features:
        """By column, or under an empty name. Two workflows' columns of one name are one here.

        No sum is less than before, as where an unload takes the files away: to Prometheus a counter
        that falls has begun anew, and all that it says has just come.
        """
        sums: dict[str, Counter[str]] = {}
        for columns in read_features(plan, self._serving_repository).values():
            for counts in columns:
                name = _make_label(counts.column) if self._by_column else ""
                numbers = {number: getattr(counts, number) for number in FEATURES}
                sums.setdefault(name, Counter()).update(numbers)
        totals = {name: tuple(it[number] for number in FEATURES) for name, it in sums.items()}
        grown = {name: tuple(map(max, it, totals.get(name, it))) for name, it in before.items()}
        return {**totals, **grown}


def _make_label(column: str) -> str:
    """Archives name their columns: half a character of UTF-16 is no text."""
    return column[:_LONGEST_COLUMN].encode("utf-8", "replace").decode() or "_"
