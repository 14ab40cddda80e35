"""Numbers to the numbers of bins: Bucketize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..columns import Column
from ..lookups import Lookup
from ..records import Number, number_of
from .operation import Operation, Transform


@dataclass(frozen=True)
class Bucketize(Operation):
    """The number of the bin."""

    name = "bucketize"
    #: In ascending order.
    boundaries: tuple[Number, ...]

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        bounds = np.array([number_of(bound) for bound in self.boundaries])

        def bucketize(column: Column) -> list[Column]:
            return [Column(np.digitize(column.values, bounds, right=False).astype(np.int32))]

        return bucketize
