"""Numbers to numbers: Normalize, NormalizeMinMax, LogOp, Clip and ReduceDtypeSize."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..casting import Caster, difference, meet, put
from ..columns import Column
from ..lookups import Lookup
from ..records import Number, number_of
from .operation import Operation, Transform


@dataclass(frozen=True)
class Normalize(Operation):
    """(value - mean) / std, or value - mean where all were alike."""

    name = "normalize"
    mean: Number
    std: Number
    dtype: str
    column: str

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        mean, std = number_of(self.mean), number_of(self.std)
        caster = Caster(self.dtype, self.column)

        def normalize(column: Column) -> list[Column]:
            values = np.subtract(*meet(column.values, mean))
            if std > 0:
                values = np.divide(*meet(values, std))
            return [Column(caster.cast(values), column.offsets)]

        return normalize


@dataclass(frozen=True)
class Scale(Operation):
    """To 0 .. 1 between what was seen."""

    name = "scale"
    min: Number
    max: Number
    dtype: str
    column: str

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        low, caster = number_of(self.min), Caster(self.dtype, self.column)
        width = difference(self.max, self.min)

        def scale(column: Column) -> list[Column]:
            values = column.values
            if width > 0:
                scaled = np.divide(*meet(np.subtract(*meet(values, low)), width))
            else:
                scaled = values / (2 * values)
            return [Column(caster.cast(scaled))]

        return scale


@dataclass(frozen=True)
class Log1(Operation):
    """log(1 + value) in single precision."""

    name = "log1"

    def run(self, column: Column) -> list[Column]:
        values = column.values.astype(np.float32)
        return [Column(np.log(values + 1), column.offsets)]


@dataclass(frozen=True)
class Clip(Operation):
    """Bounds; None for one that is left out."""

    name = "clip"
    min: Number | None
    max: Number | None

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        low = None if self.min is None else number_of(self.min)
        high = None if self.max is None else number_of(self.max)

        def clip(column: Column) -> list[Column]:
            values = column.values
            if low is not None:
                values = put(values, np.less(*meet(values, low)), low)
            if high is not None:
                values = put(values, np.greater(*meet(values, high)), high)
            return [Column(values)]

        return clip


@dataclass(frozen=True)
class Cast(Operation):
    """Values cast to another type."""

    name = "cast"
    dtype: str
    column: str

    def prepare(self, _: Sequence[Lookup]) -> Transform:
        caster = Caster(self.dtype, self.column)
        return lambda column: [Column(caster.cast(column.values), column.offsets)]
