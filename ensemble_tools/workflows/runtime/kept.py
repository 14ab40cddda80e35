"""The steps of an operator that is not compiled: it runs on a frame of pandas.

What it puts out stands in registers as pandas' series. A compiled step that reads one is handed an
array that a step of its own makes of the series, which refuses what the compiler did not foresee.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from .columns import Column, LeftToNVTabular, offsets_of
from .records import Parameters

#: Operators of NVTabular's that run without it (pandas_operators.py).
RUN_WITHOUT_NVTABULAR = (
    "merlin.dag.ops.udf.UDF",
    "nvtabular.ops.dropna.Dropna",
    "nvtabular.ops.fill.FillMissing",
    "nvtabular.ops.filter.Filter",
    "nvtabular.ops.groupby.Groupby",
    "nvtabular.ops.lambdaop.LambdaOp",
    "nvtabular.ops.list_slice.ListSlice",
)
#: Of a column of numbers, whole ones or floats.
NUMBER = "number"
#: Lists that no step reads.
ANSWERED_LISTS = "answered lists"
#: numpy's codes for what a column may hold.
_CODES = {
    "int": ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"),
    "float": ("f4", "f8"),
    "bool": ("b1",),
    "text": ("O",),
    "date": ("M8[ns]",),
}
_CODES[NUMBER] = (*_CODES["int"], *_CODES["float"])
_NUMBERS = (*_CODES[NUMBER], *_CODES["bool"])
#: What the items of Python's lists are: all of a column of one type.
_ITEMS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "text": (str,),
    NUMBER: (int, float),
}


#: Who has the same objects, and sees what is changed in them: all requests those of a table, all
#: operators of a Subgraph those of the frame that it is given.
REQUESTS, BESIDE = "requests", "operators beside it"
#: A node's number in its graph, behind that of the Subgraph around it, and so on.
NodePath = tuple[int, ...]


@dataclass(frozen=True)
class KeptNode(Parameters):
    """An operator of the workflow's graph that runs in pandas."""

    name = "kept"
    node: NodePath
    #: The columns that the operator is applied to; those that are selected together are one
    #: tuple.
    selection: tuple[str | tuple[str, ...], ...]
    #: The frame's columns, as many as the step reads.
    inputs: tuple[str, ...]
    #: For each input, whether its lists are Python's.
    python_lists: tuple[bool, ...]
    #: For each input, whether others read the objects in it, too.
    others_read: tuple[bool, ...]
    #: For each input, who has the same objects: REQUESTS, BESIDE or nobody.
    shared_by: tuple[str, ...]
    #: The columns that it puts out, in order.
    columns: tuple[str, ...]
    #: The columns that it may not put out beside those; None where it may put out no others.
    not_beside: tuple[str, ...] | None
    #: The columns that it may put out only as it was given them.
    unchanged: tuple[str, ...]
    #: Whether it puts out as many rows as it is given.
    keeps_rows: bool
    #: The name that people call it by.
    operator: str

    @property
    def applied_to(self) -> tuple[str, ...]:
        """The columns of the selection, one by one."""
        groups = ((names,) if isinstance(names, str) else names for names in self.selection)
        return tuple(chain.from_iterable(groups))


#: A kept node -> its runner, which makes pandas' series of what the registers that it reads hold.
FindRunner = Callable[[KeptNode], "Callable[..., list[Any]]"]


@dataclass(frozen=True)
class TakeArray(Parameters):
    """A series as a column."""

    name = "take_array"
    column: str
    #: `int`, `float`, `number` (either), `bool`, `text` or `date`.
    family: str
    #: `values`: one value a row, texts of which some may be missing. `python lists`: lists of
    #: values. `lists`: Python's or arrays, of which all items are read one after the other.
    #: `answered lists`: the same, whose numbers may be any, since they are cast.
    rows: str

    def run(self, series: Any) -> list[Column]:
        """Raises LeftToNVTabular where it holds something else."""
        if self.rows == "python lists":
            return [self._python_lists(series.values)]
        if self.rows in ("lists", ANSWERED_LISTS):
            return [self._lists(series)]
        values = series.values
        # Dates with a zone have an array without it.
        is_plain = isinstance(values, np.ndarray) and values.dtype == series.dtype
        self._check(is_plain and _code(values) in _CODES[self.family])
        return [self._texts_with_gaps(values) if self.family == "text" else Column(values)]

    def _python_lists(self, rows: Any) -> Column:
        self._check(all(type(row) is list for row in rows))
        items = list(chain(*rows))
        kinds = {*map(type, items)}
        self._check(len(kinds) == 1 and kinds.issubset(_ITEMS[self.family]))
        values = self._texts(items) if self.family == "text" else np.array(items)
        self._check(values.dtype.kind in "ifbS")  # not of numbers beyond int64
        return Column(values, _offsets(rows))

    def _lists(self, series: Any) -> Column:
        """The lists, flattened as merlin-core does it (flatten_list_column_values)."""
        rows = series.values
        self._check(all(type(row) is list or _is_array(row) for row in rows))
        values = type(series)(list(chain(*rows))).values
        codes = _CODES[self.family]
        if self.rows == ANSWERED_LISTS and self.family != "text":
            codes = _NUMBERS
        self._check(isinstance(values, np.ndarray) and _code(values) in codes and len(values) > 0)
        values = self._texts(values) if self.family == "text" else values
        return Column(values, _offsets(rows))

    def _texts_with_gaps(self, values: Any) -> Column:
        missing = np.array([_is_missing(value) for value in values], bool)
        if not missing.any():
            return Column(self._texts(values))
        texts = [str(value) if gone else value for value, gone in zip(values, missing, strict=True)]
        return Column(self._texts(texts), None, missing)

    def _texts(self, values: Any) -> Any:
        if all(isinstance(text, str) and "\0" not in text for text in values):
            with suppress(UnicodeEncodeError):  # half a letter (a surrogate) has no bytes
                return np.array([text.encode() for text in values], dtype="S")
        raise LeftToNVTabular(f"column {self.column!r}: not all of it is text without zeros")

    def _check(self, holds: bool) -> None:
        if not holds:
            raise LeftToNVTabular(
                f"column {self.column!r}: an operator that is not compiled made something else of "
                f"it than {self.family} values"
            )


def _is_array(row: Any) -> bool:
    return isinstance(row, np.ndarray) and row.ndim == 1


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _code(values: Any) -> str:
    return str(values.dtype.str[1:])


def _offsets(rows: Any) -> Any:
    return offsets_of(np.array([len(row) for row in rows], np.int64))
