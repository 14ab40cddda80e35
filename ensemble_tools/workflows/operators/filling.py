"""Fills or drops missing values: FillMissing, FillMedian and Dropna."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ensemble_tools.errors import quoted
from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, Unnamed, nvtabular
from ensemble_tools.workflows.runtime.operations.filling import (
    DropMissing,
    Fill,
    FillTexts,
    IsMissing,
)


def fill_missing(call: OperatorCall) -> Frame:
    """FillMissing."""
    return _fill(call, dict.fromkeys(call.names, call.parameter("fill_val")))


def fill_median(call: OperatorCall) -> Frame:
    """FillMedian."""
    medians = read.mapping(call.parameter("medians"), "medians")
    return _fill(call, {name: medians.get(name) for name in call.names})


def _fill(call: OperatorCall, values: Mapping[str, Any]) -> Frame:
    """NVTabular writes flags into the frame that it reads: one may be what is filled next."""
    columns = call.columns(call.names, with_gaps=True)
    frame = {**call.frame, **dict(zip(call.names, columns, strict=True))}
    with_flags = read.flag(call.parameter("add_binary_cols"), "add_binary_cols")
    for name in call.names:
        column = frame[name]
        if with_flags:
            out = f"{name}_filled"
            flag = ColumnType(0, Kind.BOOL, width=1, rows=column.rows)
            frame[out] = call.emit(IsMissing(), [column], flag, out)
        text = values[name]
        is_text = isinstance(text, str) and "\0" not in text
        if column.gaps_left and not is_text:
            frame[name] = call.all_there(column, name)
        elif column.with_gaps:
            if column.is_list or not is_text:
                raise call.refuse([name], f"it fills up {column.items} with {quoted(str(text))}")
            filled = replace(column, with_gaps=False)
            frame[name] = call.emit(FillTexts(text), [column], filled, name)
        elif (column.kind is Kind.FLOAT or column.either) and not column.is_list:
            value = read.number(values[name], f"the value for {name}")
            filled = replace(column, width=column.width if read.fits_all_types(value) else 0)
            frame[name] = call.emit(Fill(value), [column], filled, name)
    return frame


def drop_missing(call: OperatorCall) -> Frame:
    """Dropna: all columns lose the rows in which a selected one is missing; none: any."""
    watched = call.names or tuple(call.frame)
    order = [*watched, *(name for name in call.frame if name not in watched)]
    columns = call.columns(order, with_gaps=True)
    rows = call.emitter.new_rows()
    left = [
        replace(column, rows=rows, with_gaps=column.with_gaps and name not in watched)
        for name, column in zip(order, columns, strict=True)
    ]
    written = call.emit_several(DropMissing(len(watched)), columns, left, watched)
    frame = dict(zip(order, written, strict=True))
    return {name: frame[name] for name in call.frame}


RULES = (
    Rule(
        nvtabular("fill", "FillMissing"),
        fill_missing,
        KeptColumns.BESIDE_INPUT,
        unnamed=Unnamed.PASSED_ON,
    ),
    Rule(
        nvtabular("fill", "FillMedian"),
        fill_median,
        KeptColumns.BESIDE_INPUT,
        unnamed=Unnamed.PASSED_ON,
    ),
    Rule(
        nvtabular("dropna", "Dropna"),
        drop_missing,
        KeptColumns.SOME_ROWS,
        unnamed=Unnamed.PASSED_ON,
    ),
)
