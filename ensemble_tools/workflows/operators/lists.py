"""Parts of lists: ListSlice."""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import Frame, Kind
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, nvtabular
from ensemble_tools.workflows.runtime.operations.lists import SliceLists
from ensemble_tools.workflows.runtime.records import Number


def slice_lists(call: OperatorCall) -> Frame:
    """ListSlice."""
    start, end, longest = (
        read.whole(call.parameter(name), name) for name in ("start", "end", "max_elements")
    )
    pad = read.flag(call.parameter("pad"), "pad")
    frame: Frame = {}
    for name, column in call.each(call.lists(call.names)):
        # Slices of arrays are views of these, of Python's lists they are copies.
        sliced = replace(column, shared_by="" if column.python_rows else column.shared_by)
        length = None
        fill: Number = 0
        # Rows that are arrays are not filled up: numpy's append makes a copy that nobody keeps.
        if pad and column.python_rows:
            if not column.kind.is_number:
                raise call.refuse([name], f"it fills up lists of {column.kind.value} values")
            length, fill = longest, read.number(call.parameter("pad_value"), "pad_value")
            of_floats = isinstance(read.plain(fill), float)
            sliced = replace(sliced, kind=Kind.FLOAT if of_floats else column.kind, width=0)
        frame[name] = call.emit(SliceLists(start, end, length, fill), [column], sliced, name)
    return frame


RULES = (Rule(nvtabular("list_slice", "ListSlice"), slice_lists, KeptColumns.ALONE),)
