"""How far NEW's scores are from OLD's, over any number of items in bounded memory. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ensemble_tools.answers.tensors import Array

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
#: Items whose scores are kept, 16 MB; of more, some are, by lot.
MOST_ITEMS = 1_000_000


@dataclass(frozen=True)
class Shift:
    """NEW's score less OLD's, of the items that both lists have, where both are finite."""

    items: int
    mean: float
    #: The largest of the absolute differences.
    largest: float
    #: At QUANTILES, of so many of the items.
    quantiles: tuple[float, ...]
    sampled: int


@dataclass
class ShiftTally:
    """The scores of all items so far."""

    most: int = MOST_ITEMS
    items: int = 0
    _sum: float = 0.0
    _largest: float = 0.0
    #: The share of the items that are kept, halved whenever they are too many.
    _share: float = 1.0
    _kept: list[Array] = field(default_factory=list)
    _kept_items: int = 0
    _lots: Array = field(default_factory=lambda: np.random.default_rng(0))

    def add(self, scores: Array) -> None:
        """A row of OLD's scores, a row of NEW's."""
        old, new = scores
        if not len(old):
            return
        self.items += len(old)
        self._sum += float((new - old).sum())
        self._largest = max(self._largest, float(np.abs(new - old).max()))
        self._keep(self._draw(scores, self._share))
        while self._kept_items > self.most:
            self._share /= 2
            thinner = [self._draw(kept, 0.5) for kept in self._kept]
            self._kept, self._kept_items = [], 0
            self._keep(np.concatenate(thinner, axis=1))

    def summarize(self) -> Shift | None:
        """None where no item has a finite score in both lists."""
        old, new = self.scores
        if not self.items or not len(old):
            return None
        quantiles = tuple(map(float, np.quantile(new - old, QUANTILES)))
        return Shift(self.items, self._sum / self.items, self._largest, quantiles, len(old))

    @property
    def scores(self) -> Array:
        """The kept scores: a row of OLD's, a row of NEW's."""
        return np.concatenate(self._kept, axis=1) if self._kept else np.empty((2, 0))

    def _keep(self, scores: Array) -> None:
        self._kept.append(scores)
        self._kept_items += scores.shape[1]

    def _draw(self, scores: Array, share: float) -> Array:
        return scores if share == 1 else scores[:, self._lots.random(scores.shape[1]) < share]
