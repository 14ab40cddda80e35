"""Numbers to numbers: Normalize, NormalizeMinMax, LogOp, Clip and ReduceDtypeSize."""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, Unnamed, nvtabular
from ensemble_tools.workflows.runtime.operations.scaling import Cast, Clip, Log1, Normalize, Scale
from ensemble_tools.workflows.runtime.records import Number


def normalize(call: OperatorCall) -> Frame:
    """Normalize."""
    means, stds = (read.mapping(call.parameter(name), name) for name in ("means", "stds"))
    dtype = read.dtype(call.parameter("out_dtype"), "out_dtype", "float64")
    frame: Frame = {}
    for name, column in call.each(call.items(call.names, Kind.INT, Kind.FLOAT)):
        mean = read.number_for(means, name, "means")
        std = read.number_for(stds, name, "stds")
        operation = Normalize(mean, std, dtype, name)
        frame[name] = call.emit(operation, [column], column.cast(dtype), name)
    return frame


def scale(call: OperatorCall) -> Frame:
    """NormalizeMinMax."""
    lows, highs = (read.mapping(call.parameter(name), name) for name in ("mins", "maxs"))
    dtype = read.dtype(call.parameter("out_dtype"), "out_dtype", "float64")
    frame: Frame = {}
    for name, column in call.each(call.scalars(call.names, Kind.INT, Kind.FLOAT)):
        low, high = read.number_for(lows, name, "mins"), read.number_for(highs, name, "maxs")
        if not read.plain(high) >= read.plain(low):
            raise Unknown(f"maxs is less than mins for {name}")
        if not read.holds(high, read.plain(high) - read.plain(low)):
            raise call.refuse([name], "the distance of maxs and mins is beyond their type")
        operation = Scale(low, high, dtype, name)
        frame[name] = call.emit(operation, [column], column.cast(dtype), name)
    return frame


def take_logarithm(call: OperatorCall) -> Frame:
    """LogOp."""
    frame = dict(call.frame)
    for name, column in call.each(call.items(call.names, Kind.INT, Kind.FLOAT)):
        frame[name] = call.emit(Log1(), [column], column.cast("float32"), name)
    return frame


def clip(call: OperatorCall) -> Frame:
    """Clip. Bounds that not every type holds may make wider columns, which depends on values."""
    low, high = _bound(call, "min_value"), _bound(call, "max_value")
    bounds = [bound for bound in (low, high) if bound is not None]
    fits = all(map(read.fits_all_types, bounds))
    frame: Frame = {}
    for name, column in call.each(call.scalars(call.names, Kind.INT, Kind.FLOAT)):
        if column.kind is Kind.INT and column.width not in (4, 8):
            raise call.refuse([name], "the type that narrow integers become is not certain")
        if column.kind is Kind.INT and not all(_is_within_type(b, column) for b in bounds):
            raise call.refuse([name], "a bound is beyond the column's type")
        clipped = replace(column, width=column.width if fits else 0)
        frame[name] = call.emit(Clip(low, high), [column], clipped, name)
    return frame


def _bound(call: OperatorCall, name: str) -> Number | None:
    value = call.parameter(name)
    return None if value is None else read.number(value, name)


def _is_within_type(bound: Number, column: ColumnType) -> bool:
    largest: int = 2 ** (8 * column.width - 1)
    return abs(read.plain(bound)) < largest


def reduce_type(call: OperatorCall) -> Frame:
    """ReduceDtypeSize."""
    frame = dict(call.frame)
    for name, fitted in read.mapping(call.parameter("dtypes"), "dtypes").items():
        (column,) = call.scalars([name], Kind.INT, Kind.FLOAT, Kind.BOOL)
        if column.kind is Kind.BOOL:
            if getattr(fitted, "state", {}).get("name") != "bool":
                raise call.refuse([name], "it makes numbers of booleans")
            continue
        dtype = read.dtype(fitted, f"the type of {name}", "")
        frame[name] = call.emit(Cast(dtype, name), [column], column.cast(dtype), name)
    return frame


RULES = (
    Rule(nvtabular("normalize", "Normalize"), normalize, KeptColumns.ALONE),
    Rule(nvtabular("normalize", "NormalizeMinMax"), scale, KeptColumns.ALONE),
    Rule(
        nvtabular("logop", "LogOp"),
        take_logarithm,
        KeptColumns.BESIDE_INPUT,
        unnamed=Unnamed.PASSED_ON,
    ),
    Rule(nvtabular("clip", "Clip"), clip, KeptColumns.ALONE),
    Rule(
        nvtabular("reduce_dtype_size", "ReduceDtypeSize"),
        reduce_type,
        KeptColumns.BESIDE_INPUT,
        unnamed=Unnamed.PASSED_ON,
    ),
)
