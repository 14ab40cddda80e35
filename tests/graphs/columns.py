"""Columns of random graphs, and numbers for them: to fit on, and with all edges to ask about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from merlin.schema import ColumnSchema, Schema

SCALAR, FIXED, RAGGED = "scalar", "fixed", "ragged"
STRING = "str"
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("float16", "float32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
#: What merlin.dtypes can write into a Triton config; its dates and structs cannot be exported.
ALL = ("bool", *NUMBERS, STRING)
#: What libtorch takes: no unsigned integers above eight bits.
TORCH = ("bool", "uint8", *SIGNED, *FLOATS)

WORDS = [b"ale", b"beer", b"cider", b"Wein", "käse".encode(), b""]
UNSEEN_WORDS = [b"never seen", "日本".encode(), b"None", b"nan", b"7"]
#: Categories that fitting has seen lie below.
CARDINALITY = 12


@dataclass(frozen=True)
class Col:
    """A column. width: the row length of a fixed list."""

    name: str
    dtype: str
    kind: str = SCALAR
    width: int = 0

    def with_name(self, name: str) -> Col:
        return replace(self, name=name)

    def schema(self) -> ColumnSchema:
        """As Merlin has it."""
        dims = {SCALAR: (None,), FIXED: (None, self.width), RAGGED: (None, None)}[self.kind]
        return ColumnSchema(self.name, dtype=self.dtype, dims=dims)


def schema_of(cols: Sequence[Col]) -> Schema:
    """The columns' schema."""
    return Schema([col.schema() for col in cols])


def cols_of(schema: Schema) -> list[Col]:
    """The schema's columns."""
    found = []
    for column in schema:
        name = column.dtype.name
        if column.is_ragged:
            found.append(Col(column.name, name, RAGGED))
        elif column.is_list:
            found.append(Col(column.name, name, FIXED, int(column.shape.as_tuple[1])))
        else:
            found.append(Col(column.name, name))
    return found


def frame(cols: Sequence[Col], rows: int, random: Random) -> pd.DataFrame:
    """Rows to fit a workflow on: small numbers, every list with an element."""
    return pd.DataFrame({col.name: _series(col, rows, random) for col in cols})


def _series(col: Col, rows: int, random: Random) -> Any:
    if col.kind == SCALAR:
        return _readable(_values(col.dtype, rows, random, edges=False))
    lengths = [col.width if col.kind == FIXED else random.randint(1, 4) for _ in range(rows)]
    return pd.Series(
        [_readable(_values(col.dtype, length, random, edges=False)) for length in lengths]
    )


def _readable(array: Any) -> Any:
    """Strings as texts, as a data frame has them."""
    if array.dtype != np.object_:
        return array
    return np.array([text.decode() for text in array], dtype=np.object_)


def request(cols: Sequence[Col], rows: int, random: Random, *, edges: bool) -> dict[str, Any]:
    """The tensors of a request with so many rows."""
    tensors: dict[str, Any] = {}
    for col in cols:
        if col.kind == SCALAR:
            tensors[col.name] = _values(col.dtype, rows, random, edges=edges)
        elif col.kind == FIXED:
            flat = _values(col.dtype, rows * col.width, random, edges=edges)
            tensors[col.name] = flat.reshape(rows, col.width)
        else:
            lengths = _row_lengths(rows, random)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype("int32")
            values = _values(col.dtype, int(offsets[-1]), random, edges=edges)
            tensors[f"{col.name}__values"] = values
            tensors[f"{col.name}__offsets"] = offsets
    return tensors


def _row_lengths(rows: int, random: Random) -> list[int]:
    """Equal rows at times, empty ones at others."""
    if random.random() < 0.5:
        return [random.choice([1, 2, 3, 3, 3])] * rows
    return [random.choice([0, 1, 1, 2, 3, 5]) for _ in range(rows)]


def _values(dtype: str, count: int, random: Random, *, edges: bool) -> Any:
    if dtype in (STRING, "object"):
        words = WORDS + UNSEEN_WORDS if edges else WORDS[:4]
        array: Any = np.empty(count, dtype=np.object_)
        array[:] = [random.choice(words) for _ in range(count)]
        return array
    if dtype == "bool":
        return np.array([random.random() < 0.5 for _ in range(count)], dtype="bool")
    plain = [_plain(dtype, random) for _ in range(count)]
    if edges:
        extremes = _extremes(dtype)
        plain = [random.choice(extremes) if random.random() < 0.3 else one for one in plain]
    return np.array(plain, dtype=dtype)


def _plain(dtype: str, random: Random) -> Any:
    return round(random.gauss(2, 3), 3) if dtype in FLOATS else random.randrange(CARDINALITY)


def _extremes(dtype: str) -> list[Any]:
    if dtype in FLOATS:
        info = np.finfo(dtype)
        return [np.nan, np.inf, -np.inf, -0.0, float(info.max), float(info.tiny), -1.5, 300.7]
    limits = np.iinfo(dtype)
    return [limits.min, limits.max, 0, CARDINALITY + 1, 99]
