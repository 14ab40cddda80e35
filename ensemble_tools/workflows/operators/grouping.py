"""Rows that belong together by their keys: Groupby and DifferenceLag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ensemble_tools.errors import quoted
from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, nvtabular
from ensemble_tools.workflows.runtime.operations.grouping import DifferenceLag, Group

#: NVTabular takes it for a regular expression; these signs make none that could take for ever.
_SEPARATOR = re.compile(r"[A-Za-z0-9_. -]{1,16}")
#: What stands first in a list that is sorted downwards is called the last.
_TURNED = {"first": "last", "last": "first"}
_COUNTS, _AVERAGES = ("count", "nunique"), ("mean", "median", "std", "var", "sum")
#: What rows are grouped by; what is aggregated of them may be dates, too.
_KEYS = (Kind.INT, Kind.FLOAT, Kind.TEXT)
#: What is made of dates: dates, and numbers.
_OF_DATES = ("first", "last", "min", "max", *_COUNTS)


def group(call: OperatorCall) -> Frame:
    """Groupby: the keys in their widest type, then each aggregation of each column."""
    keys = read.names(call.parameter("groupby_cols"), "groupby_cols")
    sorts = read.names(call.parameter("sort_cols"), "sort_cols")
    separator, ascending = _read_form(call, keys)
    sort_columns = call.scalars(sorts, with_gaps=True)
    if len(sort_columns) == 1 and sort_columns[0].kind is Kind.TEXT:
        raise call.refuse(sorts, "the order in which it leaves equal texts is not certain")
    key_columns = call.scalars(keys, *_KEYS, with_gaps=True)
    chosen = _read_aggregations(call, keys)
    columns = [
        call.all_there(column, name) if "list" in chosen[name] else column
        for name, column in zip(
            chosen, call.scalars(chosen, *_KEYS, Kind.DATE, with_gaps=True), strict=True
        )
    ]
    outputs = [
        (name, replace(column, width=8, with_gaps=False))
        for name, column in zip(keys, key_columns, strict=True)
    ]
    aggregations: list[tuple[int, str]] = []
    for number, name in enumerate(chosen):
        for aggregation in chosen[name]:
            aggregated = _aggregate(call, name, aggregation, columns[number])
            outputs.append((f"{name}{separator}{aggregation}", aggregated))
            turned = aggregation if ascending else _TURNED.get(aggregation, aggregation)
            aggregations.append((number, turned))
    _check_names(call, keys, chosen, separator)
    casts = _casts(call, keys, outputs, separator)
    names = tuple(name for name, _ in outputs)
    rows = call.emitter.new_rows()
    written = call.emit_several(
        Group(len(keys), len(sorts), ascending, tuple(aggregations), casts, names),
        [*key_columns, *sort_columns, *columns],
        [
            replace(column if dtype is None else column.cast(dtype), rows=rows)
            for (_, column), dtype in zip(outputs, casts, strict=True)
        ],
        keys,
    )
    columns_made = dict(zip(names, written, strict=True))
    return {
        name: columns_made[name]
        for name in dict.fromkeys((*order_of(call), *columns_made))
        if name in columns_made
    }


def order_of(call: OperatorCall) -> list[str]:
    """The names of Groupby's columns, in its order: groupby._apply_aggs."""
    keys = read.names(call.parameter("groupby_cols"), "groupby_cols")
    separator, _ = _read_form(call, keys)
    conventional, of_lists = (
        _in_order(call, keys, call.parameter(name), name) for name in ("conv_aggs", "list_aggs")
    )
    order = [*keys]
    for name, aggregations in conventional:
        # The function `list` is there for what is made of lists, too, which are dropped again.
        kinds = [
            "list" if not isinstance(aggregation, str) else aggregation
            for aggregation in aggregations
        ]
        list_aggregations = next((these for other, these in of_lists if other == name), ())
        order += [
            f"{name}{separator}{kind}"
            for kind in kinds
            if kind != "list" or "list" in list_aggregations
        ]
    for name, aggregations in of_lists:
        order += [
            f"{name}{separator}{aggregation}"
            for aggregation in aggregations
            if aggregation in _TURNED
        ]
    return order


def _in_order(
    call: OperatorCall, keys: tuple[str, ...], value: Any, parameter: str
) -> list[tuple[str, Iterable[Any]]]:
    mapping = read.mapping(value, parameter)
    allowed = [name for name in call.names if name not in keys]
    for name, these in mapping.items():
        _aggregations_of(name, {name: these}, parameter)
    if "__all__" in mapping:
        return [(name, mapping["__all__"]) for name in allowed]
    return [(name, these) for name, these in mapping.items() if name in allowed]


def _read_form(call: OperatorCall, keys: tuple[str, ...]) -> tuple[str, bool]:
    """The separator of a column's name and an aggregation's; whether rows are sorted upwards."""
    separator, ascending = call.parameter("name_sep"), call.parameter("ascending")
    if not isinstance(ascending, bool):
        raise Unknown("ascending is not a boolean")
    if not isinstance(separator, str) or not _SEPARATOR.fullmatch(separator):
        raise Unknown("name_sep has other signs than letters, digits, blanks and -_.")
    if not keys or len(set(keys)) != len(keys):
        raise Unknown("groupby_cols are none, or one twice")
    return separator, ascending


def _read_aggregations(call: OperatorCall, keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The aggregations of each column that has any."""
    chosen = {}
    for name in call.names:
        if name not in keys:
            lists = _aggregations_of(name, call.parameter("list_aggs"), "list_aggs")
            others = _aggregations_of(name, call.parameter("conv_aggs"), "conv_aggs")
            if lists or others:
                chosen[name] = tuple(dict.fromkeys((*lists, *others)))
    if not chosen:
        raise call.refuse(keys, "it aggregates nothing")
    return chosen


def _aggregations_of(name: str, value: Any, parameter: str) -> tuple[str, ...]:
    """groupby._ensure_agg_dict, without the function `list`, which is in list_aggs as well."""
    by_name = read.mapping(value, parameter)
    aggregations = by_name.get("__all__", by_name.get(name, ()))
    if not isinstance(aggregations, list | tuple):
        raise Unknown(f"{parameter} of {name} is not a list")
    names = [entry for entry in aggregations if not isinstance(entry, type)]
    classes = [
        getattr(entry, "qualified_name", "") for entry in aggregations if isinstance(entry, type)
    ]
    if classes not in ([], ["builtins.list"]):
        raise Unknown(f"{parameter} of {name} has a class that is not list")
    return read.names(names, f"{parameter} of {name}")


def _aggregate(call: OperatorCall, name: str, aggregation: str, column: ColumnType) -> ColumnType:
    """The column that an aggregation makes, before casts by name."""
    if column.kind is Kind.DATE and aggregation not in _OF_DATES:
        raise call.refuse([name], f"{aggregation} of dates")
    if aggregation == "list":
        return replace(column, is_list=True, python_rows=True)
    if aggregation in ("first", "last"):
        return replace(column, width=0 if column.kind is Kind.TEXT else 8)
    if aggregation in _COUNTS:
        return replace(column, kind=Kind.INT, width=8, with_gaps=False)
    if column.kind is Kind.TEXT:
        raise call.refuse([name], f"{aggregation} of texts")
    if aggregation in ("min", "max"):
        return column
    if aggregation in _AVERAGES:
        return replace(column, kind=Kind.FLOAT, width=0)
    raise call.refuse([name], f"the aggregation {quoted(aggregation)} is not known")


def _check_names(
    call: OperatorCall, keys: tuple[str, ...], chosen: Mapping[str, tuple[str, ...]], separator: str
) -> None:
    """NVTabular takes first and last from a column of lists, which it drops again."""
    lists = [
        f"{name}{separator}list"
        for name, aggregations in chosen.items()
        if not {"first", "last"}.isdisjoint(aggregations)
    ]
    call.check_names(keys, lists)


def _casts(
    call: OperatorCall, keys: tuple[str, ...], outputs: list[tuple[str, ColumnType]], separator: str
) -> tuple[str | None, ...]:
    """The types that groupby._apply_aggs casts columns to for their names' sake, keys included."""
    if len({name for name, _ in outputs}) != len(outputs):
        raise call.refuse(keys, "it gives two columns one name")
    casts = tuple(_cast_by_name(name, separator) for name, _ in outputs)
    for (name, column), dtype in zip(outputs, casts, strict=True):
        if dtype and (column.is_list or column.kind in (Kind.TEXT, Kind.DATE)):
            raise call.refuse([name], "its name ends as that of an aggregation of numbers")
    return casts


def _cast_by_name(name: str, separator: str) -> str | None:
    if re.search(f"{separator}({'|'.join(_COUNTS)})$", name):
        return "int32"
    if re.search(f"{separator}({'|'.join(_AVERAGES)})$", name):
        return "float32"
    return None


def take_differences(call: OperatorCall) -> Frame:
    """DifferenceLag: each shift of each column, within partitions."""
    partition = read.names(call.parameter("partition_cols"), "partition_cols")
    shifts = call.parameter("shifts")
    if not isinstance(shifts, list | tuple):
        raise Unknown("shifts is not a list")
    parts = call.scalars(partition)
    frame: Frame = {}
    for shift in (read.whole(shift, "a shift") for shift in shifts):
        for name, column in call.each(call.scalars(call.names, Kind.INT, Kind.FLOAT)):
            out = f"{name}_difference_lag_{shift}"
            reads, writes = [column, *parts], column.cast("float32")
            frame[out] = call.emit(DifferenceLag(shift), reads, writes, out)
    return frame


RULES = (
    Rule(nvtabular("groupby", "Groupby"), group, KeptColumns.OTHER_ROWS, order=order_of),
    Rule(nvtabular("difference_lag", "DifferenceLag"), take_differences, KeptColumns.ALONE),
)
