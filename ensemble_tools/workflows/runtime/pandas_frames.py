"""Frames of pandas for operators that are not compiled, as merlin-core's LocalExecutor makes them.

An operator owns its frame: whatever it changes in place, no other step sees it. NVTabular runs all
that comes before an operator again for each that reads it, with the same effect: it hands over
columns of the request as copies (`df[names]` of pandas 1.5 copies always), but lists of the request
as views of it. Where such a list is changed, that is found out, and NVTabular answers instead.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from .columns import Column, LeftToNVTabular, NoRowsMade, TableChanged
from .failures import OperatorFailed, describe_operator
from .kept import REQUESTS, KeptNode

# As Dask sets it for NVTabular's process: numexpr's numbers are not numpy's, where it is installed.
pd.set_option("compute.use_numexpr", False)

#: What an object of a column may be without being copied for each reader.
_UNCHANGEABLE = (
    *(str, bytes, int, float, type(None), np.generic, type(pd.NA), Decimal),
    *(date, time, timedelta),  # pandas' own are among them
)

#: What is missing in texts, by how it is answered.
_MISSING = {"nan": np.nan, "None": None}


class NumpysErrors:
    """How numpy reports errors while functions run: as they left it, from one to the next.

    A program's own steps ignore errors.
    """

    def __init__(self) -> None:
        self._set = self._outside = np.geterr()

    def take(self) -> None:
        """Take the settings of now, which a function's module may have made."""
        self._set = np.geterr()

    def __enter__(self) -> None:
        self._outside = np.seterr(**self._set)

    def __exit__(self, *_: object) -> None:
        self._set = np.seterr(**self._outside)


#: numpy has them for the whole process as well.
ERRORS = NumpysErrors()


def run_node(node: KeptNode, transform: Callable[[Any], Any], *columns: Any) -> list[pd.Series]:
    """The columns that a node puts out, each a series.

    Raises OperatorFailed where its own code does, LeftToNVTabular where it is not as foreseen.
    """
    columns_given = _given(node, columns)
    watched = _WatchedLists(node, columns, columns_given)
    frame = pd.DataFrame(columns_given)
    rows = len(frame)
    with ERRORS:
        try:
            answer = transform(frame)
        except Exception as error:
            watched.check()
            raise OperatorFailed(node.operator, node.applied_to, error) from error
    watched.check()
    _check_answer(node, answer, rows)
    _check_unchanged(node, answer, columns_given)
    return [answer[name] for name in node.columns]


def run_function(
    node: KeptNode, function: Callable[[pd.Series], Any], *columns: Any
) -> list[pd.Series]:
    """Runs a LambdaOp whose function is handed a column alone; otherwise as run_node.

    It sees no frame around it. Where it makes a series of the same rows, no frame is made.
    """
    series = {
        name: pd.Series(column, name=name, copy=True)
        for name, column in _given(node, columns).items()
    }
    watched = _WatchedLists(node, columns, series)
    rows = len(series[node.inputs[0]])
    answers: dict[str, Any] = {}
    with ERRORS:
        try:
            for name, column in series.items():
                answers[name] = function(column)
            are_plain = all(_has_rows(column, rows) for column in answers.values())
            frame = answers if are_plain else pd.DataFrame(answers)
        except Exception as error:
            watched.check()
            at_work = node.inputs[len(answers) : len(answers) + 1] or node.inputs
            raise OperatorFailed(node.operator, at_work, error, function) from error
    watched.check()
    if are_plain:
        return [pd.Series(answers[name], name=name, copy=True) for name in node.columns]
    _check_answer(node, frame, rows)
    return [frame[name] for name in node.columns]


def _has_rows(answer: Any, rows: int) -> bool:
    """Whether it is a series of those rows, which is the same in a frame beside its like."""
    if type(answer) is not pd.Series or type(answer.index) is not pd.RangeIndex:
        return False
    index = answer.index
    return (index.start, index.step, len(index), index.name) == (0, 1, rows, None)


def _given(node: KeptNode, columns: Iterable[Any]) -> dict[str, Any]:
    """The columns of the node's frame."""
    return {
        name: _own_series(column)
        if others_read or (shared_by and isinstance(column, pd.Series))
        else _series_of(column, python_lists)
        for name, column, python_lists, others_read, shared_by in zip(
            node.inputs, columns, node.python_lists, node.others_read, node.shared_by, strict=True
        )
    }


def _own_series(column: pd.Series) -> Any:
    """A series that others read: objects that can be changed are copied, once each.

    Raises LeftToNVTabular where one cannot be, such as a generator.
    """
    if column.dtype != object or all(isinstance(value, _UNCHANGEABLE) for value in column.values):
        return column
    try:
        return _objects(copy.deepcopy(list(column.values)))
    except Exception as error:
        raise LeftToNVTabular(f"several operators read objects without copies: {error}") from error


def _series_of(column: Any, python_lists: bool) -> Any:
    """A register as a column of a new frame."""
    if isinstance(column, pd.Series):
        return column
    values = column.values
    if values.dtype.kind == "S":
        values = _decoded(values)
    if column.offsets is None:
        if column.missing is not None:
            values[column.missing] = [_MISSING[text] for text in values[column.missing]]
        return values
    if column.missing is not None and column.missing.any():
        raise LeftToNVTabular("an operator is given lists of which some are missing: NaN, or None")
    if python_lists:
        items = values.tolist()
        return _objects([items[start:end] for start, end in _bounds(column)])
    values = values.copy()
    return _objects([values[start:end] for start, end in _bounds(column)])


def _decoded(texts: Any) -> Any:
    try:
        return texts.astype(str).astype(object)
    except UnicodeDecodeError:  # of a table, which may be no ASCII
        return np.char.decode(texts, "utf-8").astype(object)


def _bounds(column: Column) -> list[tuple[int, int]]:
    ends = column.offsets.tolist()
    return list(pairwise(ends))


def _objects(rows: list[Any]) -> Any:
    objects = np.empty(len(rows), object)
    objects[:] = rows
    return objects


class _WatchedLists:
    """Lists of a frame that may not be changed: in NVTabular's, others read the same ones.

    They are the request's, a table's, those of a Subgraph's frame, or, among any objects that
    several operators read, those that a function has not made but closed over. They are looked for
    in what the frame is made of, which is not copied with it.
    """

    def __init__(self, node: KeptNode, columns: Iterable[Any], given: dict[str, Any]) -> None:
        self._arrays: list[tuple[str, Any, Any]] = []
        self._lists: list[tuple[str, list[Any], list[Any]]] = []
        #: Copies, and what they are copies of.
        self._copies: list[tuple[Any, Any]] = []
        for before, column, others_read, shared_by in zip(
            columns, given.values(), node.others_read, node.shared_by, strict=True
        ):
            if column.dtype != object:
                continue
            values = column.values if isinstance(column, pd.Series) else column
            if shared_by:
                _check_watched(values)
            if others_read:
                self._copies += zip(values, before.values, strict=True)
                shared_by = REQUESTS
            arrays = (row for row in values if isinstance(row, np.ndarray))
            self._arrays += [(shared_by, row, row.copy()) for row in arrays]
            if shared_by:
                lists = (row for row in values if isinstance(row, list))
                self._lists += [(shared_by, row, list(row)) for row in lists]

    def check(self) -> None:
        """Raises LeftToNVTabular where one is changed."""
        changed = {
            shared_by
            for shared_by, row, items in self._lists
            if len(row) != len(items) or any(map(operator.is_not, row, items))
        }
        changed |= {  # of texts their addresses
            shared_by
            for shared_by, now, before in self._arrays
            if now.tobytes() != before.tobytes()
        }
        if REQUESTS in changed or not all(_is_equal(*pair) for pair in self._copies):
            raise TableChanged("an operator changed objects that later requests may read, in place")
        if changed:
            raise LeftToNVTabular("an operator changed lists in place, which others read")


def _is_equal(copied: Any, before: Any) -> bool:
    """Whether a copy is unchanged, as far as can be told; arrays are compared by themselves."""
    if copied is before or isinstance(copied, np.ndarray):
        return True
    try:
        return bool(copied == before)
    except Exception:
        return False


def _check_watched(values: Any) -> None:
    """Raises LeftToNVTabular for objects that may be changed unseen, such as lists of lists."""
    for value in values:
        is_numbers = isinstance(value, np.ndarray) and value.dtype != object
        items = () if is_numbers else value if isinstance(value, list | np.ndarray) else (value,)
        if not all(isinstance(item, _UNCHANGEABLE) for item in items):
            raise LeftToNVTabular(
                f"an operator may change objects that others read ({type(value).__name__})"
            )


def _check_answer(node: KeptNode, answer: Any, rows: int) -> None:
    if not isinstance(answer, pd.DataFrame) or not _has_columns(node, tuple(answer.columns)):
        raise LeftToNVTabular("an operator put out other columns than its schema says")
    index = answer.index
    # Hashes depend on which row is which, and so do functions that look at the index.
    if not isinstance(index, pd.RangeIndex) or (index.start, index.step) != (0, 1) or index.name:
        raise LeftToNVTabular("an operator changed which row is which")
    if not len(answer):
        operator = describe_operator(node.operator, node.applied_to)
        raise NoRowsMade(f"the workflow's {operator} left no row of the request")
    if node.keeps_rows and len(answer) != rows:
        raise LeftToNVTabular("an operator changed which rows there are")


def _has_columns(node: KeptNode, columns: tuple[str, ...]) -> bool:
    """Whether they are its own, or the others among them change nothing for other operators."""
    if columns == node.columns:
        return True
    names = {*columns}
    return (
        node.not_beside is not None
        and len(names) == len(columns)
        and names.issuperset(node.columns)
        and names.isdisjoint(node.not_beside)
    )


def _check_unchanged(node: KeptNode, answer: pd.DataFrame, before: dict[str, Any]) -> None:
    """Columns that stand in the place of others are the same as those."""
    for name in node.unchanged:
        if name in answer.columns and not _is_same(answer[name].values, before[name]):
            raise LeftToNVTabular("an operator changed a column that its schema does not name")


def _is_same(now: Any, before: Any) -> bool:
    """Whether all values are; objects that may have been changed in place are not."""
    before = before.values if isinstance(before, pd.Series) else before
    if not isinstance(now, np.ndarray) or now.dtype != getattr(before, "dtype", None):
        return False
    if now.dtype != object:
        return bool(now.tobytes() == before.tobytes())
    pairs = zip(now, before, strict=True)
    return all(value is other and isinstance(value, _UNCHANGEABLE) for value, other in pairs)
