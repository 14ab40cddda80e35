"""Joins a table's columns by a key: JoinGroupby and JoinExternal."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np

from ensemble_tools.archive.saved_workflow import PICKLE
from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.pickled_frames import FrameColumn, read_frame
from ensemble_tools.workflows.program import Table, Values
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, Unnamed, nvtabular
from ensemble_tools.workflows.runtime.kept import REQUESTS
from ensemble_tools.workflows.runtime.operations.table_joins import Join

#: The rows' numbers, by which they are sorted after the merge.
_OWN = ("__tmp__",)
#: What may be merged by -> how a table compares it.
_MERGED_BY = {Kind.INT: "whole", Kind.TEXT: "text"}
#: Of numpy's kinds what lists of such items hold.
_ITEMS = {"i": Kind.INT, "f": Kind.FLOAT, "S": Kind.TEXT}
#: What JoinGroupby knows, in its files' order: of a key, then of each column (categorify.py).
_STATISTICS = ("count", "size", "sum", "mean", "min", "max", "var", "std")
#: Whole numbers below are exact as floats.
_EXACT = 2**53
#: Numbers that a table may have beside its keys: others become wider in operators.
_WIDE = ("i4", "i8", "f4", "f8")


def join(call: OperatorCall) -> Frame:
    """JoinGroupby."""
    files = read.mapping(call.parameter("categories"), "categories")
    storage = read.mapping(call.parameter("storage_name"), "storage_name")
    stats = read.names(call.parameter("stats"), "stats")
    separator = call.parameter("name_sep")
    frame: Frame = {}
    for columns in call.groups:
        name = separator.join(columns)
        if storage.get(name, name) != name:
            raise call.refuse(columns, "it is encoded jointly with other columns")
        statistics = tuple(
            column.name
            for column in call.node.output
            if column.name not in frame
            and column.name.startswith(f"{name}{separator}")
            and column.name.endswith(stats)
        )
        statistics = as_in_file(statistics, name, separator)
        call.check_names(columns, _OWN)
        keys, kinds = call.keys(columns)
        path = call.category_file(files.get(name))
        table = call.emitter.table(Table(path, columns, kinds, beside=statistics))
        casts = tuple(_cast_by_name(statistic, separator) for statistic in statistics)
        written = call.emit_several(
            Join(table, tuple(zip(statistics, casts, strict=True)), columns),
            keys,
            [
                keys[0].cast(dtype) if dtype else replace(keys[0], kind=Kind.FLOAT, width=0)
                for dtype in casts
            ],
            columns,
        )
        frame.update(zip(statistics, written, strict=True))
    return frame


def as_in_file(names: tuple[str, ...], key: str, separator: str) -> tuple[str, ...]:
    """Statistics in the order of the file, which is that of the frame that is put out."""
    parts = {name: _stem_and_statistic(name, separator) for name in names}
    stems = [key, *(stem for stem, _ in parts.values())]
    return tuple(sorted(names, key=lambda name: (stems.index(parts[name][0]), parts[name][1])))


def _stem_and_statistic(name: str, separator: str) -> tuple[str, int]:
    for rank, statistic in enumerate(_STATISTICS):
        ending = f"{separator}{statistic}"
        if name.endswith(ending):
            return name.removesuffix(ending), rank
    return name, len(_STATISTICS)


def _cast_by_name(name: str, separator: str) -> str | None:
    """JoinGroupby casts by the ends of names, one after the other."""
    if name.endswith(f"{separator}count"):
        return "int32"
    averages = tuple(f"{separator}{average}" for average in ("std", "var", "mean"))
    return "float32" if name.endswith(averages) else None


def join_table(call: OperatorCall) -> Frame:
    """JoinExternal: pandas' merge with a table that the workflow's pickle holds."""
    keys, their_keys = _pair_keys(call)
    columns = call.scalars(keys, *_MERGED_BY, with_gaps=True)
    table = _read_table(call, their_keys, columns)
    shared = [own for own, their in zip(keys, their_keys, strict=True) if own == their]
    beside = tuple(name for name in table if name not in shared)
    call.check_names((*call.frame, *table), _OWN)
    if taken := [name for name in beside if name in call.frame]:
        raise call.refuse(taken, "its table has a column of that name, too")
    if any(column.rows for column in columns):
        raise call.refuse(keys, "its rows are not those of the request")
    absent = {name: why for name in beside if (why := _why_not(table[name]))}
    for name, why in absent.items():
        if not call.emitter.may_leave_out():
            raise call.refuse([name], why)
    names = tuple(name for name in beside if name not in absent)
    number = call.emitter.table(
        Table(
            call.directory / PICKLE,
            their_keys,
            tuple(_MERGED_BY[column.kind] for column in columns),
            beside=names,
            given=tuple(_given(table[name]) for name in (*their_keys, *names)),
        )
    )
    written = call.emit_several(
        Join(number, tuple((name, None) for name in names), keys),
        columns,
        [_beside(columns[0], table[name]) for name in names],
        keys,
    )
    outputs = dict(zip(names, written, strict=True))
    return {**call.frame, **{name: outputs.get(name) or _absent(absent[name]) for name in beside}}


def join_kept(call: OperatorCall) -> Frame:
    """The types of a table's columns, as far as known, where pandas merges."""
    keys, their_keys = _pair_keys(call)
    table = read_frame(call.parameter("_ext_cache"))
    shared = {own for own, their in zip(keys, their_keys, strict=True) if own == their}
    beside = {name: column for name, column in table.items() if name not in shared}
    call.check_names((*call.frame, *table), _OWN)
    if taken := [name for name in beside if name in call.frame]:
        raise call.refuse(taken, "its table has a column of that name, too")
    key = ColumnType(0, Kind.INT)
    return {name: _beside(key, column) for name, column in beside.items() if not _why_not(column)}


def _pair_keys(call: OperatorCall) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that are merged by, and the table's."""
    if call.parameter("how") != "left":
        raise Unknown("it leaves rows out, or how it joins is not known")
    keys, their_keys = (
        (value,) if isinstance(value := call.parameter(name), str) else read.names(value, name)
        for name in ("on", "on_ext")
    )
    if not keys or not len(keys) == len(their_keys) == len({*keys}) == len({*their_keys}):
        raise Unknown("its keys are none, not of one number, or one is there twice")
    return keys, their_keys


def _read_table(
    call: OperatorCall, keys: tuple[str, ...], columns: list[ColumnType]
) -> dict[str, FrameColumn]:
    """The table's columns, if a request's row has one row there at most, for certain."""
    table = read_frame(call.parameter("_ext_cache"))
    if absent := [name for name in keys if name not in table]:
        raise call.refuse(absent, "its table has no such column")
    for name, column in zip(keys, columns, strict=True):
        _check_key(call, name, table[name], column.kind)
    values = [table[name].column.values for name in keys]
    ranks = [np.unique(each, return_inverse=True)[1].reshape(-1) for each in values]
    if len(np.unique(np.stack(ranks, axis=1), axis=0)) != len(ranks[0]):
        raise call.refuse(keys, "its table has a key twice, for which a row is answered twice")
    return table


def _check_key(call: OperatorCall, name: str, key: FrameColumn, kind: Kind) -> None:
    values = key.column.values
    if key.why_not:
        raise call.refuse([name], key.why_not)
    if not key.is_plain:
        raise call.refuse([name], "its table has lists or missing texts there")
    if not len(values) or (values.dtype.kind == "S") is not (kind is Kind.TEXT):
        raise call.refuse([name], "its table has no rows, or values of another kind there")
    if kind is Kind.TEXT:
        return
    if values.dtype.kind == "f":
        raise call.refuse([name], "its table has no whole numbers there")
    # pandas compares a request's unsigned numbers with others as floats, which are exact below.
    if values.min() < 0 or values.max() >= _EXACT:
        raise call.refuse([name], "its table has numbers there that are not from 0 to 2**53")


def _why_not(column: FrameColumn) -> str:
    """Why the program has no such column, empty where it may have it.

    What narrow numbers become in operators is not looked into, nor in lists.
    """
    values = column.column.values
    if column.why_not or values.dtype.kind == "S" or values.dtype.str[1:] in _WIDE:
        return column.why_not
    return "its table has small or unsigned whole numbers there"


def _absent(why: str) -> ColumnType:
    return ColumnType(-1, Kind.PANDAS, absent=why)


def _given(frame_column: FrameColumn) -> Values:
    column = frame_column.column
    return Values(
        column.values.dtype.str,
        _encoded(column.values),
        _encoded(column.offsets),
        _encoded(column.missing),
    )


def _encoded(array: Any) -> str:
    return "" if array is None else base64.b64encode(array.tobytes()).decode()


def _beside(key: ColumnType, column: FrameColumn) -> ColumnType:
    """Texts and lists are missing where a request's key is not in the table.

    Whole numbers become floats there.
    """
    values = column.column.values
    if column.column.offsets is not None:
        return replace(
            key,
            kind=_ITEMS[values.dtype.kind],
            width=values.dtype.itemsize if values.dtype.kind != "S" else 0,
            is_list=True,
            python_rows=column.python_rows,
            with_gaps=True,
            gaps_left=False,
            shared_by=REQUESTS,
        )
    if values.dtype.kind == "S":
        return replace(key, kind=Kind.TEXT, width=0, with_gaps=True, gaps_left=False)
    width = values.dtype.itemsize if values.dtype.kind == "f" else 0
    return replace(key, kind=Kind.FLOAT, width=width, with_gaps=False)


RULES = (
    Rule(nvtabular("join_groupby", "JoinGroupby"), join),
    Rule(
        nvtabular("join_external", "JoinExternal"),
        join_table,
        KeptColumns.BESIDE_INPUT,
        adds=join_kept,
        unnamed=Unnamed.SEEN,
    ),
)
