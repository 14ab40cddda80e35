"""What was counted of a category: JoinGroupby."""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import Frame, Kind
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.rules import Call, Rule, nvtabular
from ensemble_tools.workflows.runtime.operations.joining import Join

#: The rows' numbers, by which they are sorted after the merge.
_OWN = ("__tmp__",)


def join(call: Call) -> Frame:
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
        wanted = tuple(
            column.name
            for column in call.node.output
            if column.name not in frame
            and column.name.startswith(f"{name}{separator}")
            and column.name.endswith(stats)
        )
        call.check_names(columns, _OWN)
        keys, kinds = call.keys(columns)
        path = call.category_file(files.get(name))
        table = call.emitter.table(Table(path, columns, kinds, beside=wanted))
        casts = tuple(_cast_by_name(statistic, separator) for statistic in wanted)
        written = call.emit_several(
            Join(table, tuple(zip(wanted, casts, strict=True)), columns),
            keys,
            [
                keys[0].cast(dtype) if dtype else replace(keys[0], kind=Kind.FLOAT, width=0)
                for dtype in casts
            ],
            columns,
        )
        frame.update(zip(wanted, written, strict=True))
    return frame


def _cast_by_name(name: str, separator: str) -> str | None:
    """JoinGroupby casts by the ends of names, one after the other."""
    if name.endswith(f"{separator}count"):
        return "int32"
    averages = tuple(f"{separator}{average}" for average in ("std", "var", "mean"))
    return "float32" if name.endswith(averages) else None


RULES = (Rule(nvtabular("join_groupby", "JoinGroupby"), join),)
