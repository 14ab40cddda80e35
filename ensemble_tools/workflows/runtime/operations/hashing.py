"""Values to buckets by their hash: HashBucket and HashedCross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..columns import Column
from ..hashing import hash_crossed_rows
from ..lookups import Lookup
from .operation import Operation, Transform


@dataclass(frozen=True)
class HashBucket(Operation):
    """The hash of a row, or of several columns' crossed, modulo the number of buckets."""

    name = "hash_bucket"
    buckets: int

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        buckets = np.uint64(self.buckets)

        def hash_to_buckets(*columns: Column) -> list[Column]:
            return [Column((hash_crossed_rows(columns) % buckets).astype(np.int32))]

        return hash_to_buckets
