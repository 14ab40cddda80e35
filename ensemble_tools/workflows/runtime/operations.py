"""What a compiled workflow's steps do: each the literal meaning of one of NVTabular's operators.

An operation is made once from its parameters, when the model is loaded, and then called with the
columns that it reads. It does to arrays what NVTabular 23.8 makes pandas 1.5 do to them, in the
same order and the same types, so that every bit comes out alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import (
    INTEGERS,
    Column,
    RequestError,
    offsets_of,
    ranges,
    taken,
    widened,
)
from .grouping import aggregate, group_keys, grouped, sorted_rows
from .hashing import row_hashes
from .lookups import Lookup

#: The columns that a step reads -> those that it makes.
Operation = Callable[..., "list[Column]"]
Parameters = dict[str, Any]


def categorify(given: Parameters, tables: list[Lookup]) -> Operation:
    """Labels of categories: nvtabular.ops.Categorify. One column, or those of a combination."""
    table = tables[given["table"]]
    null = table.first("label") if given["null"] is None else given["null"]
    unseen, buckets = null + 1, given["buckets"]
    dtype, names = np.dtype(given["dtype"]), given["columns"]

    def operation(*columns: Column) -> list[Column]:
        ragged = columns[0].offsets is not None
        values = [column.values for column in columns]
        nulls = None
        for name, column in zip(names, values, strict=True):
            if column.dtype.kind == "f" and not ragged:
                missing = np.isnan(column)
                if missing.all():
                    raise RequestError(
                        f"column {name!r}: every value is missing, which Categorify cannot encode"
                    )
                nulls = missing if nulls is None else nulls & missing
            else:
                nulls = np.zeros(len(column), bool) if nulls is None else nulls & False
        found, places = table.find(values)
        labels = table.beside("label", places)
        if buckets:
            hashed = row_hashes(columns[0])
            for column in columns[1:]:
                hashed = hashed ^ row_hashes(column)
            labels = np.where(
                found, labels, (hashed % np.uint64(buckets)).astype(np.int64) + unseen
            )
        else:
            labels = np.where(found, labels, unseen)
        if not ragged and nulls is not None and nulls.any():
            labels[nulls] = null
        return [Column(labels.astype(dtype), columns[0].offsets)]

    return operation


def normalize(given: Parameters, _: list[Lookup]) -> Operation:
    """(value - mean) / std, or value - mean where all were alike: nvtabular.ops.Normalize."""
    mean, std, cast_to = _number(given["mean"]), _number(given["std"]), _caster(given)

    def operation(column: Column) -> list[Column]:
        values = column.values - mean
        if std > 0:
            values = values / std
        return [Column(cast_to(values), column.offsets)]

    return operation


def scale(given: Parameters, _: list[Lookup]) -> Operation:
    """To 0 .. 1 between what was seen: nvtabular.ops.NormalizeMinMax."""
    low, cast_to = _number(given["min"]), _caster(given)
    width = _number(given["max"]) - low

    def operation(column: Column) -> list[Column]:
        values = column.values
        scaled = (values - low) / width if width > 0 else values / (2 * values)
        return [Column(cast_to(scaled))]

    return operation


def fill(given: Parameters, _: list[Lookup]) -> Operation:
    """A value in the place of NaN: FillMissing and FillMedian."""
    value = _number(given["value"])

    def operation(column: Column) -> list[Column]:
        if column.offsets is not None or column.values.dtype.kind != "f":
            return [column]
        return [Column(_put(column.values, np.isnan(column.values), value))]

    return operation


def is_missing(_: Parameters, __: list[Lookup]) -> Operation:
    """Where NaN is: the `_filled` columns."""

    def operation(column: Column) -> list[Column]:
        missing = (
            np.isnan(column.values)
            if column.offsets is None and column.values.dtype.kind == "f"
            else np.zeros(column.rows, bool)
        )
        return [Column(missing)]

    return operation


def clip(given: Parameters, _: list[Lookup]) -> Operation:
    """Bounds: nvtabular.ops.Clip. Either may be left out."""
    low, high = _number(given["min"]), _number(given["max"])

    def operation(column: Column) -> list[Column]:
        values = column.values
        if low is not None:
            values = _put(values, values < low, low)
        if high is not None:
            values = _put(values, values > high, high)
        return [Column(values)]

    return operation


def log1(_: Parameters, __: list[Lookup]) -> Operation:
    """log(1 + value) in single precision: nvtabular.ops.LogOp."""

    def operation(column: Column) -> list[Column]:
        values = column.values.astype(np.float32)
        return [Column(np.log(values + 1), column.offsets)]

    return operation


def bucketize(given: Parameters, _: list[Lookup]) -> Operation:
    """The number of the bin: nvtabular.ops.Bucketize."""
    bounds = np.array([_number(bound) for bound in given["boundaries"]])

    def operation(column: Column) -> list[Column]:
        return [Column(np.digitize(column.values, bounds, right=False).astype(np.int32))]

    return operation


def cast(given: Parameters, _: list[Lookup]) -> Operation:
    """Another type: nvtabular.ops.ReduceDtypeSize."""
    cast_to = _caster(given)

    def operation(column: Column) -> list[Column]:
        return [Column(cast_to(column.values), column.offsets)]

    return operation


def hash_bucket(given: Parameters, _: list[Lookup]) -> Operation:
    """The hash of a row, or of several columns' crossed, by number: HashBucket, HashedCross."""
    buckets = np.uint64(given["buckets"])

    def operation(*columns: Column) -> list[Column]:
        hashes = row_hashes(columns[0])
        for column in columns[1:]:
            hashes = row_hashes(column) ^ hashes
        return [Column((hashes % buckets).astype(np.int32))]

    return operation


def list_slice(given: Parameters, _: list[Lookup]) -> Operation:
    """A part of each list: nvtabular.ops.ListSlice.

    length: to which lists are filled up with `fill`, None for not. It makes floats of whole numbers
    where a list is filled up, since that is what Python's lists hold then.
    """
    start, end, length = given["start"], given["end"], given["length"]
    value = _number(given["fill"])

    def operation(column: Column) -> list[Column]:
        lengths = np.diff(column.offsets)
        first, last = _within(start, lengths), _within(end, lengths)
        kept = np.maximum(last - first, 0)
        values = column.values[ranges(column.offsets[:-1] + first, kept)]
        if length is None or not (kept < length).any():
            return [Column(values, offsets_of(kept))]
        wanted = np.maximum(kept, length)
        if values.dtype.kind in INTEGERS:
            values = values.astype(np.int64)
        offsets = offsets_of(wanted)
        filled = np.full(offsets[-1], value, np.result_type(values.dtype, type(value)))
        filled[ranges(offsets[:-1], kept)] = values
        return [Column(filled, offsets)]

    return operation


def difference_lag(given: Parameters, _: list[Lookup]) -> Operation:
    """The difference to another row of the same partition: nvtabular.ops.DifferenceLag.

    The first column is the one that is compared, those after it are the partition's.
    """
    shift = given["shift"]

    def operation(column: Column, *partition: Column) -> list[Column]:
        rows = column.rows
        inside = np.zeros(rows, bool)
        here, there = _shifted(shift, rows)
        inside[here] = True
        for one in partition:
            own = one.values
            if shift and own.dtype.kind in INTEGERS:
                own = own.astype(np.float64)  # a shifted column has missing values
            inside[here] &= own[here] == own[there]
        values = column.values
        if values.dtype.kind in INTEGERS:
            values = values.astype(np.float64)
        differences = np.full(rows, np.nan, values.dtype)
        differences[here] = column.values.astype(values.dtype)[here] - values[there]
        return [Column(np.where(inside, differences, np.nan).astype(np.float32))]

    return operation


def drop_missing(_: Parameters, __: list[Lookup]) -> Operation:
    """The rows without NaN: nvtabular.ops.Dropna. The first `watched` columns decide."""
    watched = _["watched"]

    def operation(*columns: Column) -> list[Column]:
        kept = np.ones(columns[0].rows, bool)
        for column in columns[:watched]:
            if column.offsets is None and column.values.dtype.kind == "f":
                kept &= ~np.isnan(column.values)
        if not kept.any():
            raise RequestError("every row has a missing value; Dropna leaves none to answer")
        return [taken(column, kept) for column in columns]

    return operation


def group(given: Parameters, _: list[Lookup]) -> Operation:
    """One row for each key: nvtabular.ops.Groupby.

    Reads the keys, then the columns that rows are sorted by, then those that are aggregated. Makes
    the keys in their widest type, then each aggregation; casts tells what those become.
    """
    keys, sorts, ascending = given["keys"], given["sorts"], given["ascending"]
    aggregations = given["aggregations"]
    casts = [
        None if dtype is None else _caster({"dtype": dtype, "column": name})
        for name, dtype in zip(given["names"], given["casts"], strict=True)
    ]

    def operation(*columns: Column) -> list[Column]:
        by = list(columns[keys : keys + sorts])
        order = sorted_rows(by, ascending) if by else np.arange(columns[0].rows)
        groups = grouped(list(columns[:keys]), order)
        made = [Column(widened(group_keys(key, order, groups))) for key in columns[:keys]]
        made += [
            aggregate(name, columns[keys + sorts + number], groups) for number, name in aggregations
        ]
        return [
            column if cast_to is None else Column(cast_to(column.values))
            for column, cast_to in zip(made, casts, strict=True)
        ]

    return operation


def join(given: Parameters, tables: list[Lookup]) -> Operation:
    """What was counted of a category: nvtabular.ops.JoinGroupby. NaN where it was not seen."""
    table, wanted, names = tables[given["table"]], given["wanted"], given["columns"]

    def operation(*columns: Column) -> list[Column]:
        found, places = table.find([column.values for column in columns])
        return [_joined(name, dtype, found, places) for name, dtype in wanted]

    def _joined(name: str, dtype: str | None, found: Any, places: Any) -> Column:
        values = table.beside(name, places)
        if not found.all():
            if values.dtype.kind in INTEGERS:
                values = values.astype(np.float64)
            values = np.where(found, values, values.dtype.type(np.nan))
        if dtype is None:
            return Column(values)
        whole = np.dtype(dtype).kind in INTEGERS and values.dtype.kind == "f"
        if whole and not np.isfinite(values).all():
            raise RequestError(
                f"column {', '.join(map(repr, names))}: a value was not seen when the workflow was "
                f"fitted, and has no {name!r}"
            )
        return Column(values.astype(dtype))

    return operation


def target_encode(given: Parameters, tables: list[Lookup]) -> Operation:
    """Smoothed means of the targets: nvtabular.ops.TargetEncoding.

    With folds each row is in one, by its place in the request or at random with a fixed seed, and
    gets the mean of the others. Makes one column a target, then the folds if they are kept.
    """
    table, means = tables[given["table"]], [_number(mean) for mean in given["means"]]
    folds, seed, dtypes = given["folds"], given["seed"], given["dtypes"]

    def operation(*columns: Column) -> list[Column]:
        rows = columns[0].rows
        keys = [column.values for column in columns]
        if folds > 1:
            keys.insert(0, _folds(rows))
        found, places = table.find(keys)
        made = []
        for target, mean in enumerate(means):
            values = np.where(found, table.beside(str(target), places), np.nan)
            values = np.where(np.isnan(values), mean, values)
            for dtype in dtypes:
                values = values.astype(dtype)
            made.append(Column(values))
        return [*made, Column(keys[0])] if given["keeps"] else made

    def _folds(rows: int) -> Any:
        dtype = np.min_scalar_type(folds * 2)
        if seed is None:
            return np.mod(np.arange(rows, dtype=dtype), folds)
        return np.random.RandomState(seed).choice(np.arange(folds, dtype=dtype), rows)

    return operation


def _put(values: Any, mask: Any, value: Any) -> Any:
    """A copy with the value where the mask is, in a wider type if this one cannot hold it.

    As pandas does it, the type changes only if the mask is somewhere.
    """
    if not mask.any():
        return values
    own = values.dtype
    if own.kind == "f":  # as Python's floats: numpy 1 and 2 compare their own otherwise
        holds = float(own.type(value)) == float(value) or value != value
    else:
        holds = value == int(value)
    values = values.copy() if holds else values.astype(np.float64)
    values[mask] = value
    return values


def _caster(given: Parameters) -> Callable[[Any], Any]:
    """pandas' astype: what is not finite becomes no integer, what is negative no unsigned one."""
    dtype, name = np.dtype(given["dtype"]), given["column"]

    def cast_to(values: Any) -> Any:
        if values.dtype.kind == "f" and dtype.kind in INTEGERS:
            if not np.isfinite(values).all():
                raise RequestError(f"column {name!r}: NaN or infinity cannot become {dtype.name}")
            if dtype.kind == "u" and (values < 0).any():
                raise RequestError(f"column {name!r}: a negative value cannot become {dtype.name}")
        return values.astype(dtype)

    return cast_to


def _within(bound: int, lengths: Any) -> Any:
    """A slice's bound as a place in each list."""
    if bound < 0:
        return np.maximum(lengths + bound, 0)
    return np.minimum(lengths, bound)


def _shifted(shift: int, rows: int) -> tuple[slice, slice]:
    """The rows that have another one `shift` before them, and those others."""
    size = min(abs(shift), rows)
    if shift >= 0:
        return slice(size, rows), slice(0, rows - size)
    return slice(0, rows - size), slice(size, rows)


def _number(written: Any) -> Any:
    """A parameter: a Python number as it is, one of numpy's by its type and value.

    Not as a Python number: int16 less a float32 is another type than less a float.
    """
    if isinstance(written, dict):
        return np.dtype(written["dtype"]).type(written["value"])
    return written


OPERATIONS: dict[str, Callable[[Parameters, list[Lookup]], Operation]] = {
    operation.__name__: operation
    for operation in (
        categorify, normalize, scale, fill, is_missing, clip, log1, bucketize, cast, hash_bucket,
        list_slice, difference_lag, drop_missing, group, join, target_encode,
    )
}  # fmt: skip
