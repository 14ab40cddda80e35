"""A pandas DataFrame that a pickle holds, read as data: its columns.

The forms are those of pandas 1.5 and numpy 1: blocks of columns of one type, in a BlockManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ensemble_tools.archive.inert_pickle import MAX_BYTES_OBJECT, Inert, Unread, class_name
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.runtime.columns import Column, offsets_of

_FRAME = "pandas.core.frame.DataFrame"
_MANAGER = "pandas.core.internals.managers.BlockManager"
_BLOCK = "pandas._libs.internals._unpickle_block"
_INDEX, _NEW_INDEX = "pandas.core.indexes.base.Index", "pandas.core.indexes.base._new_Index"
#: An index of rows that merges do not look at.
_ROW_INDEXES = (
    _INDEX,
    "pandas.core.indexes.range.RangeIndex",
    "pandas.core.indexes.numeric.Int64Index",
)
_ARRAY = "numpy.core.multiarray._reconstruct"
_BUFFER = "numpy.core.numeric._frombuffer"
_NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
#: Of an array's state: its version, shape, type, order and data; of a buffer all but the first.
_STATE_PARTS, _BUFFER_PARTS = 5, 4
#: Columns of a frame.
MAX_COLUMNS = 100_000


class _NotAFrame(Exception):
    """An object is not what pandas and numpy pickle in its place."""


@dataclass(frozen=True)
class FrameColumn:
    """A column of a frame: numbers; or texts as bytes (`S`), UTF-8; or lists of one of these."""

    column: Column
    #: The lists are Python's, and not arrays.
    python_rows: bool = False
    #: Why the column is not read; it is empty then.
    why_not: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether it has a number or a text a row."""
        is_read = not self.why_not
        return is_read and self.column.offsets is None and self.column.missing is None


def read_frame(value: Any) -> dict[str, FrameColumn]:
    """The columns by their names, in order, of one length.

    Raises Unknown for what is no plain frame; a column may be one that is not read.
    """
    if class_name(value) != _FRAME:
        raise Unknown("its table is not in the workflow as a frame of pandas'")
    try:
        return _read(value.state.get("_mgr"))
    except (_NotAFrame, ValueError, TypeError, OverflowError) as error:
        raise Unknown("its table is not as pandas 1.5 pickles it") from error


def _read(manager: Any) -> dict[str, FrameColumn]:
    blocks, axes = _made_by(manager, _MANAGER, 2)
    if not isinstance(blocks, tuple) or not isinstance(axes, list) or len(axes) != 2:
        raise _NotAFrame
    names = _names(axes[0])
    _check_row_index(axes[1])
    frame_columns: dict[int, FrameColumn] = {}
    for block in blocks:
        values, rows, dimensions = _made_by(block, _BLOCK, 3)
        if dimensions != 2:
            raise _NotAFrame
        numbers = list(_row_numbers(rows))
        try:
            columns = _columns(values)
        except Unknown as error:
            columns = [_not_read(error)] * len(numbers)
        if len(columns) != len(numbers):
            raise _NotAFrame
        frame_columns.update(zip(numbers, columns, strict=True))
    lengths = {
        frame_column.column.rows
        for frame_column in frame_columns.values()
        if not frame_column.why_not
    }
    if sorted(frame_columns) != list(range(len(names))) or len(lengths) > 1:
        raise _NotAFrame
    return {name: frame_columns[number] for number, name in enumerate(names)}


def _made_by(value: Any, function: str, arguments: int) -> tuple[Any, ...]:
    """The arguments that the function, or class, was called with."""
    if class_name(value) != function or len(value.args) != arguments:
        raise _NotAFrame
    args: tuple[Any, ...] = value.args
    return args


def _names(index: Any) -> list[str]:
    cls, state = _made_by(index, _NEW_INDEX, 2)
    if _qualified(cls) != _INDEX or not isinstance(state, dict):
        raise Unknown("its table has columns whose names are no plain texts")
    names = _items(state.get("data"))
    if not all(type(name) is str for name in names) or len({*names}) != len(names):
        raise Unknown("its table has columns whose names are no texts, or alike")
    return names


def _check_row_index(index: Any) -> None:
    """pandas looks for keys among the names of indexes, too."""
    cls, state = _made_by(index, _NEW_INDEX, 2)
    plain = _qualified(cls) in _ROW_INDEXES and isinstance(state, dict)
    if not plain or state.get("name") is not None:
        raise Unknown("its table has an index with a name or of several levels")


def _qualified(cls: Any) -> str:
    return cls.qualified_name if isinstance(cls, type) and issubclass(cls, Inert) else ""


def _items(array: Any) -> list[Any]:
    """The items of an array of objects."""
    _, shape, dtype, _, items = _state_of(array)
    if _code(dtype) != "O8" or not isinstance(items, list) or shape != (len(items),):
        raise _NotAFrame
    return items


def _state_of(array: Any) -> tuple[Any, ...]:
    if class_name(array) != _ARRAY or len(array.parts) != _STATE_PARTS:
        raise _NotAFrame
    parts: tuple[Any, ...] = array.parts
    return parts


def _row_numbers(value: Any) -> Iterable[int]:
    """The numbers of a block's columns: a slice, or an array."""
    if class_name(value) != "builtins.slice":
        return [int(number) for number in _numbers(value)]
    start, stop, step = value.args
    if not all(type(bound) is int and 0 <= bound <= MAX_COLUMNS for bound in value.args):
        raise _NotAFrame
    return range(start, stop, step)


def _columns(array: Any) -> list[FrameColumn]:
    """The columns of a block, of numbers or of objects; Unknown for other values."""
    if class_name(array) != _ARRAY or _code(_state_of(array)[2]) != "O8":
        numbers = _numbers(array)
        if numbers.ndim != 2:
            raise _NotAFrame
        return [FrameColumn(Column(values)) for values in numbers]
    _, shape, _, is_fortran, items = _state_of(array)
    if not isinstance(items, list) or len(shape) != 2 or shape[0] * shape[1] != len(items):
        raise _NotAFrame
    count, rows = shape
    columns = (
        items[number::count] if is_fortran else items[number * rows : (number + 1) * rows]
        for number in range(count)
    )
    return [_objects_if_read(column) for column in columns]


def _objects_if_read(rows: list[Any]) -> FrameColumn:
    try:
        return _objects(rows)
    except Unknown as error:
        return _not_read(error)


def _not_read(why_not: Unknown) -> FrameColumn:
    return FrameColumn(Column(np.zeros(0)), why_not=str(why_not))


def _objects(rows: list[Any]) -> FrameColumn:
    """Texts, or lists; None and NaN are missing ones."""
    missing = np.array([_is_missing(row) for row in rows], bool)
    gaps = missing if missing.any() else None
    present = [row for row in rows if not _is_missing(row)]
    if not present:
        raise Unknown("its table has a column without a value")
    if all(type(row) is str for row in present):
        # Missing ones are answered as these words, as Python writes them.
        texts = [str(row) if _is_missing(row) else row for row in rows]
        return FrameColumn(Column(_texts(texts), None, gaps))
    python_rows = all(type(row) is list for row in present)
    if not python_rows and any(class_name(row) not in (_ARRAY, _BUFFER) for row in present):
        raise Unknown(f"its table has a column of {_kinds(present)}, which are no texts or lists")
    lists = present if python_rows else [_array_items(row) for row in present]
    lengths: Any = np.zeros(len(rows), np.int64)
    lengths[~missing] = [len(items) for items in lists]
    items = _list_items(lists) if python_rows else _joined(lists)
    return FrameColumn(Column(items, offsets_of(lengths), gaps), python_rows)


def _is_missing(value: Any) -> bool:
    return value is None or (type(value) is float and value != value)


def _kinds(values: list[Any]) -> str:
    return ", ".join(sorted({class_name(value) or type(value).__name__ for value in values}))


def _array_items(array: Any) -> Any:
    """The items of an array of one dimension, texts as a list."""
    items = array
    if class_name(array) != _ARRAY or _code(_state_of(array)[2]) != "O8":
        items = _numbers(array)
        if items.ndim != 1:
            raise _NotAFrame
        return items
    return _items(array)


def _joined(arrays: list[Any]) -> Any:
    """The items of arrays of one type."""
    if all(isinstance(array, list) for array in arrays):
        items = list(chain(*arrays))
        if not items or any(type(item) is not str for item in items):
            raise Unknown("its table has lists with values that are no texts, or without any")
        return _texts(items)
    if len({getattr(array, "dtype", None) for array in arrays}) != 1:
        raise Unknown("its table has lists of several types")
    values = np.concatenate(arrays)
    if not len(values):
        raise Unknown("its table has no lists but empty ones")
    return values


def _list_items(lists: list[Any]) -> Any:
    """The items of Python's lists, of one type."""
    items = list(chain(*lists))
    kinds = {type(item) for item in items}
    if kinds == {str}:
        return _texts(items)
    if kinds not in ({int}, {float}):
        raise Unknown(f"its table has lists of {_kinds(items) or 'nothing'}")
    if kinds == {float}:
        return np.array(items, np.float64)
    if not -(2**63) <= min(items) <= max(items) < 2**63:
        raise Unknown("its table has lists of numbers beyond 64 bits")
    return np.array(items, np.int64)


def _texts(texts: list[str]) -> Any:
    encoded = [text.encode() for text in texts]
    longest = max(map(len, encoded), default=0)
    if longest * len(encoded) > MAX_BYTES_OBJECT:
        raise Unknown(f"its table has {len(encoded)} texts of up to {longest} bytes")
    if any(b"\0" in text for text in encoded):
        raise Unknown("its table has a text with a zero in it")
    return np.array(encoded, "S")


def _numbers(array: Any) -> Any:
    """An array of numbers; Unknown for one of other values."""
    if class_name(array) == _BUFFER and len(array.args) == _BUFFER_PARTS:
        data, dtype, shape, order = array.args
    elif class_name(array) == _ARRAY:
        _, shape, dtype, is_fortran, data = _state_of(array)
        order = "F" if is_fortran else "C"
    else:
        raise Unknown("its table has columns of a type of pandas' own")
    code = _code(dtype)
    if code not in _NUMBERS:
        raise Unknown("its table has columns that are no numbers, such as booleans or lists")
    if isinstance(data, Unread):
        raise Unknown(f"its table has {data.size} bytes, more than are read of a pickle")
    return np.frombuffer(data, f"<{code}").reshape(shape, order=order)


def _code(dtype: Any) -> str:
    """numpy's code of a type of this machine's order of bytes; empty for others."""
    if class_name(dtype) != "numpy.dtype" or not dtype.args or not isinstance(dtype.args[0], str):
        return ""
    return dtype.args[0] if dtype.parts[1:2] in (("<",), ("|",)) else ""
