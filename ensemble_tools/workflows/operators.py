"""What each NVTabular operator does to a frame, as steps; one function for each.

The rules are those of nvtabular 23.8.0 (nvtabular/ops/) with pandas 1.5, on the path on which a
model serves: a DataFrame of one request, made of numpy arrays, on the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ensemble_tools.errors import quoted
from ensemble_tools.executor_graph import Node
from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.frames import Family, Frame, Value
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Means, Table

_WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8}
#: Labels that Categorify keeps for itself: 0 padding, 1 nulls, 2 what was not seen.
_NULL, _UNSEEN = 1, 2
#: PATH_MAX.
_LONGEST_PATH = 4096


class Emitter(Protocol):
    """Where steps and tables are put."""

    def emit(
        self, call: Call, operation: str, reads: list[Value], made: list[Value],
        given: dict[str, Any], columns: tuple[str, ...],
    ) -> list[Value]: ...  # fmt: skip

    def table(self, table: Table) -> int: ...

    def new_rows(self) -> int: ...


@dataclass(frozen=True)
class Call:
    """One operator of the graph, the columns it is handed, and the workflow's directory."""

    node: Node
    frame: Frame
    directory: Path
    emitter: Emitter

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are selected for it."""
        return self.node.selection

    def parameter(self, name: str) -> Any:
        """An attribute of the fitted operator."""
        state = self.node.operator.state
        if name not in state:
            raise Unknown(f"it has no {name}: another NVTabular than 23.8 wrote it")
        return state[name]

    def refuse(self, columns: Iterable[str], why: str) -> NotCompiled:
        """The error that says why it is not compiled."""
        return NotCompiled(self.node.operator.label, columns, why)

    def scalars(self, names: Iterable[str], *families: Family) -> list[Value]:
        """Those columns; refused where one has lists, or values of another family."""
        return [self._checked(name, families, False) for name in names]

    def columns(self, names: Iterable[str], *families: Family) -> list[Value]:
        """Those columns, with lists or without."""
        return [self._checked(name, families, None) for name in names]

    def lists(self, names: Iterable[str], *families: Family) -> list[Value]:
        """Those columns; refused where one has no lists."""
        return [self._checked(name, families, True) for name in names]

    def emit(
        self, operation: str, reads: list[Value], made: Value, name: str, **given: Any
    ) -> Value:
        """A step that makes one column."""
        (value,) = self.emitter.emit(self, operation, reads, [made], given, (name,))
        return value

    def _checked(self, name: str, families: tuple[Family, ...], lists: bool | None) -> Value:
        if name not in self.frame:
            raise self.refuse([name], "the column is not there")
        value = self.frame[name]
        if families and value.family not in families:
            raise self.refuse([name], f"it is applied to {value.family.value} values")
        if lists is not None and value.is_list is not lists:
            raise self.refuse(
                [name], "it is applied to lists" if value.is_list else "it has no lists"
            )
        return value


Rule = Callable[[Call], Frame]
OPERATORS: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        OPERATORS.update(dict.fromkeys(names, rule))
        return rule

    return enter


def _nvtabular(module: str, *names: str) -> list[str]:
    return [f"nvtabular.ops.{module}.{name}" for name in names]


_TAGS = ("AddMetadata", "AddTags", "AddProperties", "TagAsUserID", "TagAsItemID",
         "TagAsUserFeatures", "TagAsItemFeatures")  # fmt: skip


@_rule(
    *_nvtabular("add_metadata", *_TAGS),
    *(f"merlin.dag.ops.add_metadata.{name}" for name in _TAGS),
    *_nvtabular("value_counts", "ValueCount"),
)
def _unchanged(call: Call) -> Frame:
    return dict(call.frame)


@_rule(
    "merlin.dag.ops.selection.SelectionOp",
    "merlin.dag.ops.concat_columns.ConcatColumns",
    "merlin.dag.ops.subset_columns.SubsetColumns",
    *_nvtabular("drop_low_cardinality", "DropLowCardinality"),
)
def _selected(call: Call) -> Frame:
    return {name: call.frame[name] for name in call.names}


@_rule("merlin.dag.ops.subtraction.SubtractionOp")
def _subtracted(call: Call) -> Frame:
    names = call.node.operator.selector or call.names
    return dict(zip(names, call.columns(names), strict=True))


@_rule(*_nvtabular("rename", "Rename"), "merlin.dag.ops.rename.Rename")
def _renamed(call: Call) -> Frame:
    """A function of the user's is not called: what it made of the names is in the schema."""
    function, postfix, name = (call.parameter(one) for one in ("f", "postfix", "name"))
    if function is not None:
        made = [column.name for column in call.node.output]
        if len(made) != len(call.names):
            raise call.refuse(call.names, "it gives two columns one name")
    elif isinstance(postfix, str) and postfix:
        made = [f"{one}{postfix}" for one in call.names]
    elif isinstance(name, str) and name and len(call.names) == 1:
        made = [name]
    else:
        raise Unknown("it has neither a function, nor a postfix, nor one name")
    if len(set(made)) != len(made):
        raise call.refuse(call.names, "it gives two columns one name")
    return dict(zip(made, call.columns(call.names), strict=True))


@_rule(*_nvtabular("normalize", "Normalize"))
def _normalized(call: Call) -> Frame:
    means, stds = (read.mapping(call.parameter(name), name) for name in ("means", "stds"))
    dtype = read.dtype(call.parameter("out_dtype"), "out_dtype", "float64")
    return {
        name: call.emit(
            "normalize", [value], _typed(value, dtype), name,
            mean=_of(means, name, "means"), std=_of(stds, name, "stds"), dtype=dtype, column=name,
        )
        for name, value in _each(call, call.columns(call.names, Family.INT, Family.FLOAT))
    }  # fmt: skip


@_rule(*_nvtabular("normalize", "NormalizeMinMax"))
def _scaled(call: Call) -> Frame:
    lows, highs = (read.mapping(call.parameter(name), name) for name in ("mins", "maxs"))
    dtype = read.dtype(call.parameter("out_dtype"), "out_dtype", "float64")
    made = {}
    for name, value in _each(call, call.scalars(call.names, Family.INT, Family.FLOAT)):
        low, high = _of(lows, name, "mins"), _of(highs, name, "maxs")
        if not read.plain(high) >= read.plain(low):
            raise Unknown(f"maxs is less than mins for {name}")
        if not read.holds(high, read.plain(high) - read.plain(low)):
            raise call.refuse([name], "the distance of maxs and mins is beyond their type")
        made[name] = call.emit(
            "scale",
            [value],
            _typed(value, dtype),
            name,
            min=low,
            max=high,
            dtype=dtype,
            column=name,
        )
    return made


@_rule(*_nvtabular("fill", "FillMissing"))
def _filled(call: Call) -> Frame:
    value = call.parameter("fill_val")
    return _fill(call, dict.fromkeys(call.names, value))


@_rule(*_nvtabular("fill", "FillMedian"))
def _filled_with_medians(call: Call) -> Frame:
    medians = read.mapping(call.parameter("medians"), "medians")
    return _fill(call, {name: medians.get(name) for name in call.names})


def _fill(call: Call, values: dict[str, Any]) -> Frame:
    made = dict(call.frame)
    with_flags = read.flag(call.parameter("add_binary_cols"), "add_binary_cols")
    for name, column in _each(call, call.columns(call.names)):
        if with_flags:
            flag = replace(column, family=Family.BOOL, width=1, is_list=False, python_rows=False)
            made[f"{name}_filled"] = call.emit("is_missing", [column], flag, f"{name}_filled")
        if column.family is Family.FLOAT and not column.is_list:
            value = read.number(values[name], f"the value for {name}")
            filled = replace(column, width=column.width if _fits(value) else 0)
            made[name] = call.emit("fill", [column], filled, name, value=value)
    return made


@_rule(*_nvtabular("clip", "Clip"))
def _clipped(call: Call) -> Frame:
    bounds = {}
    for key, attribute in (("min", "min_value"), ("max", "max_value")):
        value = call.parameter(attribute)
        bounds[key] = None if value is None else read.number(value, attribute)
    given = [one for one in bounds.values() if one is not None]
    fits = all(map(_fits, given))
    made = {}
    for name, value in _each(call, call.scalars(call.names, Family.INT, Family.FLOAT)):
        if value.family is Family.INT and value.width not in (4, 8):
            raise call.refuse([name], "the type that narrow integers become is not certain")
        if value.family is Family.INT and not all(_within_type(one, value) for one in given):
            raise call.refuse([name], "a bound is beyond the column's type")
        clipped = replace(value, width=value.width if fits else 0)
        made[name] = call.emit("clip", [value], clipped, name, **bounds)
    return made


@_rule(*_nvtabular("logop", "LogOp"))
def _logarithm(call: Call) -> Frame:
    made = dict(call.frame)
    for name, value in _each(call, call.columns(call.names, Family.INT, Family.FLOAT)):
        made[name] = call.emit("log1", [value], _typed(value, "float32"), name)
    return made


@_rule(*_nvtabular("bucketize", "Bucketize"))
def _bucketized(call: Call) -> Frame:
    if call.parameter("use_digitize") is not True:
        raise Unknown("use_digitize is not True")
    bounds = read.closed_over(
        call.parameter("boundaries"), "nvtabular.ops.bucketize",
        "Bucketize.__init__.<locals>.<lambda>",
    )  # fmt: skip
    made = {}
    for name, value in _each(call, call.scalars(call.names, Family.INT, Family.FLOAT)):
        own = read.mapping(bounds, "boundaries").get(name) if isinstance(bounds, dict) else bounds
        if not isinstance(own, list | tuple) or not own:
            raise Unknown(f"it has no boundaries for {name}")
        numbers = [read.number(one, "a boundary") for one in own]
        plain = [read.plain(one) for one in numbers]
        if plain != sorted(plain):
            raise call.refuse([name], "its boundaries are not in ascending order")
        made[name] = call.emit(
            "bucketize", [value], _typed(value, "int32"), name, boundaries=numbers
        )
    return made


@_rule(*_nvtabular("reduce_dtype_size", "ReduceDtypeSize"))
def _reduced(call: Call) -> Frame:
    made = dict(call.frame)
    for name, kind in read.mapping(call.parameter("dtypes"), "dtypes").items():
        (value,) = call.scalars([name], Family.INT, Family.FLOAT, Family.BOOL)
        if value.family is Family.BOOL:
            if getattr(kind, "state", {}).get("name") != "bool":
                raise call.refuse([name], "it makes numbers of booleans")
            continue
        dtype = read.dtype(kind, f"the type of {name}", "")
        made[name] = call.emit(
            "cast", [value], _typed(value, dtype), name, dtype=dtype, column=name
        )
    return made


@_rule(*_nvtabular("hash_bucket", "HashBucket"))
def _hashed(call: Call) -> Frame:
    buckets = call.parameter("num_buckets")
    if not isinstance(buckets, dict):
        buckets = dict.fromkeys(call.names, buckets)
    made = dict(call.frame)
    for name, number in read.mapping(buckets, "num_buckets").items():
        (value,) = call.scalars([name])
        made[name] = call.emit(
            "hash_bucket", [value], _typed(value, "int32"), name, buckets=_buckets(number)
        )
    return made


@_rule(*_nvtabular("hashed_cross", "HashedCross"))
def _crossed(call: Call) -> Frame:
    values = call.scalars(call.names)
    buckets = call.parameter("num_buckets")
    if isinstance(buckets, dict):
        buckets = buckets.get(call.names)
    buckets = _buckets(buckets)
    name = "_X_".join(call.names)
    made = _typed(values[0], "int32")
    return {name: call.emit("hash_bucket", values, made, name, buckets=buckets)}


@_rule(*_nvtabular("list_slice", "ListSlice"))
def _sliced(call: Call) -> Frame:
    start, end, longest = (
        read.whole(call.parameter(name), name) for name in ("start", "end", "max_elements")
    )
    pad = read.flag(call.parameter("pad"), "pad")
    made = {}
    for name, value in _each(call, call.lists(call.names)):
        # Rows that are arrays are not filled up: numpy's append makes a copy that nobody keeps.
        padded = pad and value.python_rows
        if padded and not value.family.is_number:
            raise call.refuse([name], f"it fills up lists of {value.family.value} values")
        fill = read.number(call.parameter("pad_value"), "pad_value") if padded else 0
        family = Family.FLOAT if padded and isinstance(read.plain(fill), float) else value.family
        sliced = replace(value, family=family, width=0 if padded else value.width)
        made[name] = call.emit(
            "list_slice", [value], sliced, name, start=start, end=end,
            length=longest if padded else None, fill=fill,
        )  # fmt: skip
    return made


@_rule(*_nvtabular("difference_lag", "DifferenceLag"))
def _lagged(call: Call) -> Frame:
    partition = read.names(call.parameter("partition_cols"), "partition_cols")
    shifts = call.parameter("shifts")
    if not isinstance(shifts, list | tuple):
        raise Unknown("shifts is not a list")
    parts = call.scalars(partition)
    made = {}
    for number in shifts:
        shift = read.whole(number, "a shift")
        for name, value in _each(call, call.scalars(call.names, Family.INT, Family.FLOAT)):
            out = f"{name}_difference_lag_{shift}"
            made[out] = call.emit(
                "difference_lag", [value, *parts], _typed(value, "float32"), out, shift=shift
            )
    return made


@_rule(*_nvtabular("dropna", "Dropna"))
def _without_missing(call: Call) -> Frame:
    watched = list(call.names) or list(call.frame)
    order = [*watched, *(name for name in call.frame if name not in watched)]
    values = call.columns(order)
    rows = call.emitter.new_rows()
    made = call.emitter.emit(
        call, "drop_missing", values, [replace(value, rows=rows) for value in values],
        {"watched": len(watched)}, tuple(watched),
    )  # fmt: skip
    return dict(zip(order, made, strict=True))


@_rule(*_nvtabular("groupby", "Groupby"))
def _grouped(call: Call) -> Frame:
    keys = read.names(call.parameter("groupby_cols"), "groupby_cols")
    sorts = read.names(call.parameter("sort_cols"), "sort_cols")
    separator, ascending = call.parameter("name_sep"), call.parameter("ascending")
    if not isinstance(ascending, bool):
        raise Unknown("ascending is not a boolean")
    if not isinstance(separator, str) or not _SEPARATOR.fullmatch(separator):
        raise Unknown("name_sep has other signs than letters, digits, blanks and -_.")
    if not keys or len(set(keys)) != len(keys):
        raise Unknown("groupby_cols are none, or one twice")
    by = call.scalars(sorts)
    if len(by) == 1 and by[0].family is Family.TEXT:
        raise call.refuse(sorts, "the order in which it leaves equal texts is not certain")
    families = (Family.INT, Family.FLOAT, Family.TEXT)
    key_values = call.scalars(keys, *families)
    wanted = [name for name in call.names if name not in keys]
    chosen = {
        name: (
            _aggregations(call.parameter("list_aggs"), name, "list_aggs"),
            _aggregations(call.parameter("conv_aggs"), name, "conv_aggs"),
        )
        for name in wanted
    }
    chosen = {name: both for name, both in chosen.items() if any(both)}
    if not chosen:
        raise call.refuse(keys, "it aggregates nothing")
    rows = call.emitter.new_rows()
    values = call.scalars(chosen, *families)
    made: list[tuple[str, Value]] = [
        (name, replace(value, width=8, rows=rows))
        for name, value in zip(keys, key_values, strict=True)
    ]
    steps: list[tuple[int, str]] = []
    for number, (name, (lists, others)) in enumerate(chosen.items()):
        for one in dict.fromkeys((*lists, *others)):
            out = f"{name}{separator}{one}"
            steps.append((number, one if ascending else _TURNED.get(one, one)))
            made.append((out, _aggregated(call, name, one, values[number], rows)))
    if len({name for name, _ in made}) != len(made):
        raise call.refuse(keys, "it gives two columns one name")
    casts = [_cast_by_name(name, separator) for name, _ in made]
    for (name, value), cast in zip(made, casts, strict=True):
        if cast and (value.is_list or value.family is Family.TEXT):
            raise call.refuse([name], "its name ends as that of an aggregation of numbers")
    placed = call.emitter.emit(
        call, "group", [*key_values, *by, *values],
        [value if cast is None else _typed(value, cast)
         for (_, value), cast in zip(made, casts, strict=True)],
        {"keys": len(keys), "sorts": len(by), "ascending": ascending, "aggregations": steps,
         "casts": casts, "names": [name for name, _ in made]}, keys,
    )  # fmt: skip
    return {name: value for (name, _), value in zip(made, placed, strict=True)}


#: NVTabular takes it for a regular expression; these signs make none that could take for ever.
_SEPARATOR = re.compile(r"[A-Za-z0-9_. -]{1,16}")
#: What stands first in a list that is sorted downwards is called the last.
_TURNED = {"first": "last", "last": "first"}
_COUNTS, _AVERAGES = ("count", "nunique"), ("mean", "median", "std", "var", "sum")


def _aggregations(value: Any, name: str, what: str) -> tuple[str, ...]:
    """groupby._ensure_agg_dict, without the function `list`, which is in list_aggs as well."""
    by_name = read.mapping(value, what)
    found = by_name.get("__all__", by_name.get(name, ()))
    if not isinstance(found, list | tuple):
        raise Unknown(f"{what} of {name} is not a list")
    names = [one for one in found if not isinstance(one, type)]
    builtins = [getattr(one, "qualified_name", "") for one in found if isinstance(one, type)]
    if builtins not in ([], ["builtins.list"]):
        raise Unknown(f"{what} of {name} has a class that is not list")
    return read.names(names, f"{what} of {name}")


def _aggregated(call: Call, name: str, aggregation: str, value: Value, rows: int) -> Value:
    """What an aggregation makes, before casts by name."""
    if aggregation == "list":
        return replace(value, is_list=True, python_rows=True, rows=rows)
    if aggregation in ("first", "last"):
        return replace(value, width=0 if value.family is Family.TEXT else 8, rows=rows)
    if aggregation in _COUNTS:
        return replace(value, family=Family.INT, width=8, rows=rows)
    if value.family is Family.TEXT:
        raise call.refuse([name], f"{aggregation} of texts")
    if aggregation in ("min", "max"):
        return replace(value, rows=rows)
    if aggregation in _AVERAGES:
        return replace(value, family=Family.FLOAT, width=0, rows=rows)
    raise call.refuse([name], f"the aggregation {quoted(aggregation)} is not known")


def _cast_by_name(name: str, separator: str) -> str | None:
    """What groupby._apply_aggs casts a column to for its name's sake, keys included."""
    if re.search(f"{separator}({'|'.join(_COUNTS)})$", name):
        return "int32"
    if re.search(f"{separator}({'|'.join(_AVERAGES)})$", name):
        return "float32"
    return None


@_rule(*_nvtabular("categorify", "Categorify"))
def _categorified(call: Call) -> Frame:
    made = dict(call.frame)
    encoding = call.parameter("encode_type")
    if encoding not in ("joint", "combo"):
        raise Unknown(f"encode_type is {encoding!r}")
    dtype = read.dtype(call.parameter("dtype"), "dtype", "int64")
    files = read.mapping(call.parameter("categories"), "categories")
    storage = read.mapping(call.parameter("storage_name"), "storage_name")
    if call.parameter("search_sorted") is not False:
        raise call.refuse(call.names, "search_sorted looks labels up in another way")
    separator = call.parameter("name_sep")
    groups = call.node.groups if encoding == "combo" else call.names
    outputs = {
        (separator.join(group) if isinstance(group, tuple) else group): (
            group if isinstance(group, tuple) else (group,)
        )
        for group in groups
    }
    for name, columns in outputs.items():
        stored = storage.get(name, name) if encoding == "joint" or len(columns) > 1 else name
        keys = columns if len(columns) > 1 else (stored,)
        made[name] = _encoded(call, name, columns, stored, keys, files, list(outputs), dtype)
    return made


def _encoded(
    call: Call,
    name: str,
    columns: tuple[str, ...],
    stored: str,
    keys: tuple[str, ...],
    files: Any,
    outputs: list[str],
    dtype: str,
) -> Value:
    values = call.columns(columns)
    if len(columns) > 1 and any(value.is_list for value in values):
        raise call.refuse(columns, "lists are combined with other columns")
    split = call.parameter("split_out")
    if (split.get(stored, 1) if isinstance(split, dict) else split) != 1:
        raise call.refuse([name], "its categories are split into several files (split_out)")
    if not isinstance(call.parameter("cat_cache"), str | dict):
        raise call.refuse([name], "its categories are not cached (cat_cache)")
    buckets = call.parameter("num_buckets")
    if isinstance(buckets, int) and not isinstance(buckets, bool):
        buckets = dict.fromkeys(outputs, buckets)
    number = None
    if buckets:
        mapped = read.mapping(buckets, "num_buckets")
        number = _buckets(mapped[stored]) if stored in mapped else None
        if number is not None:
            if any(value.is_list for value in values):
                raise call.refuse(columns, "lists are hashed into buckets")
            hashed = name if len(columns) > 1 else columns[0]
            if mapped.get(hashed) != mapped[stored]:
                raise call.refuse(columns, "num_buckets differs between columns encoded jointly")
    shift = _UNSEEN + (number or 1)
    # In a single table a column's labels begin where another's end, and its null is the first.
    alone = not read.flag(call.parameter("single_table"), "single_table")
    families = tuple(value.family.value for value in values)
    table = call.emitter.table(Table(_file(call, files.get(stored)), keys, families, shift))
    made = _typed(values[0], dtype)
    return call.emit(
        "categorify", values, made, name, table=table, null=_NULL if alone else None,
        buckets=number, dtype=dtype, columns=list(columns),
    )  # fmt: skip


@_rule(*_nvtabular("join_groupby", "JoinGroupby"))
def _joined(call: Call) -> Frame:
    files = read.mapping(call.parameter("categories"), "categories")
    storage = read.mapping(call.parameter("storage_name"), "storage_name")
    stats = read.names(call.parameter("stats"), "stats")
    separator = call.parameter("name_sep")
    counted = [column.name for column in call.node.output]
    made: Frame = {}
    for group in call.node.groups:
        columns = (group,) if isinstance(group, str) else group
        name = separator.join(columns)
        if storage.get(name, name) != name:
            raise call.refuse(columns, "it is encoded jointly with other columns")
        wanted = [
            one for one in counted
            if one not in made and _is_statistic(one, name, separator, stats)
        ]  # fmt: skip
        values = call.scalars(columns, *_KEY_FAMILIES)
        families = tuple(_KEY_FAMILIES[value.family] for value in values)
        path = _file(call, files.get(name))
        table = call.emitter.table(Table(path, columns, families, None, tuple(wanted)))
        casts = [_statistic_type(one, separator) for one in wanted]
        placed = call.emitter.emit(
            call, "join", values,
            [_typed(values[0], cast) if cast else replace(values[0], family=Family.FLOAT, width=0)
             for cast in casts],
            {"table": table, "wanted": list(zip(wanted, casts, strict=True)),
             "columns": list(columns)}, columns,
        )  # fmt: skip
        made.update(zip(wanted, placed, strict=True))
    return made


#: Families of keys that pandas merges by -> how a table compares them.
_KEY_FAMILIES = {Family.INT: "whole", Family.FLOAT: "real", Family.TEXT: "text"}


def _is_statistic(name: str, group: str, separator: str, stats: tuple[str, ...]) -> bool:
    return name.startswith(f"{group}{separator}") and name.endswith(stats)


def _statistic_type(name: str, separator: str) -> str | None:
    """JoinGroupby casts by the ends of names, one after the other."""
    if name.endswith(f"{separator}count"):
        return "int32"
    averages = ("std", "var", "mean")
    return "float32" if name.endswith(tuple(f"{separator}{one}" for one in averages)) else None


@_rule(*_nvtabular("target_encoding", "TargetEncoding"))
def _target_encoded(call: Call) -> Frame:
    folds, seed = read.whole(call.parameter("kfold"), "kfold"), call.parameter("fold_seed")
    if seed is not None and not 0 <= read.whole(seed, "fold_seed") < 2**32:
        raise Unknown(f"fold_seed is {seed}")
    if folds < 1:
        raise Unknown(f"kfold is {folds}")
    smoothing = read.number(call.parameter("p_smooth"), "p_smooth")
    if isinstance(smoothing, dict):
        raise Unknown("p_smooth is none of Python's numbers")
    stats = read.mapping(call.parameter("stats"), "stats")
    targets = read.node_columns(call.parameter("target"), "target")
    given = call.parameter("target_mean") or call.parameter("means")
    means = [_of(read.mapping(given, "means"), target, "means") for target in targets]
    if any(isinstance(mean, dict) for mean in means):
        raise Unknown("a mean is none of Python's numbers")
    out_dtype = call.parameter("out_dtype")
    dtype = read.dtype(out_dtype, "out_dtype", "float32")
    if dtype not in ("float32", "float64"):
        raise call.refuse(call.names, f"out_dtype is {dtype}")
    keeps = folds > 1 and not read.flag(call.parameter("drop_folds"), "drop_folds")
    separator = call.parameter("name_sep")
    names = _target_names(call, targets, separator)
    made: Frame = {}
    for place, group in enumerate(call.node.groups):
        columns = (group,) if isinstance(group, str) else group
        values = call.scalars(columns, *_KEY_FAMILIES)
        families = tuple(_KEY_FAMILIES[value.family] for value in values)
        overall = _file(call, stats.get(separator.join(columns)))
        path, keys = overall, columns
        if folds > 1:
            keys, families = ("__fold__", *columns), ("whole", *families)
            path = _file(call, stats.get(separator.join(keys)))
        table = call.emitter.table(
            Table(path, keys, families, means=Means(
                overall if folds > 1 else None, smoothing, tuple(means)
            ))
        )  # fmt: skip
        first = place == len(call.node.groups) - 1 and keeps
        outputs = [_typed(values[0], dtype) for _ in targets]
        fold = replace(values[0], family=Family.INT, width=0)
        placed = call.emitter.emit(
            call, "target_encode", values, [*outputs, *([fold] if first else [])],
            {"table": table, "means": means, "folds": folds, "seed": seed, "dtypes": [dtype],
             "keeps": first}, columns,
        )  # fmt: skip
        made.update(zip([*names[place], *(["__fold__"] if first else [])], placed, strict=True))
    return made


def _target_names(call: Call, targets: tuple[str, ...], separator: str) -> list[list[str]]:
    """What each group's columns are called."""
    named = call.parameter("out_col")
    found = []
    for place, group in enumerate(call.node.groups):
        if isinstance(named, list):
            own = named[place] if place < len(named) else None
            names = [own] if isinstance(own, str) else list(read.names(own, "out_col"))
        elif named is None:
            tag = separator.join((group,) if isinstance(group, str) else group)
            names = [f"TE_{tag}_{target}" for target in targets]
        else:
            raise Unknown("out_col is not a list")
        if len(names) != len(targets):
            raise Unknown("out_col and target are of different sizes")
        found.append(names)
    return found


def _file(call: Call, path: Any) -> Path:
    """Where the file lies that Workflow.load reads: the exporter's directory replaced by ours."""
    exported = call.parameter("out_path")
    if not isinstance(path, str) or not isinstance(exported, str) or not exported:
        raise Unknown("its categories are not in a file")
    if max(len(path), len(exported)) > _LONGEST_PATH:
        raise Unknown("the path of its category file is longer than any")
    place = path.replace(exported, str(call.directory))
    if len(place) > _LONGEST_PATH or not Path(place).is_relative_to(call.directory):
        raise Unknown(
            f"its category file {Path(place[-80:]).name} is not among the workflow's files"
        )
    inside = Path(place).relative_to(call.directory)
    if ".." in inside.parts:
        raise Unknown(f"its category file {inside.name} is not among the workflow's files")
    return call.directory / inside


def _each(call: Call, values: list[Value]) -> Iterable[tuple[str, Value]]:
    return zip(call.names, values, strict=True)


def _typed(value: Value, dtype: str) -> Value:
    """A column made of that one, of that type."""
    kind = dtype.rstrip("0123456789")
    family = Family.FLOAT if kind == "float" else Family.INT
    return replace(value, family=family, width=_WIDTHS[dtype[len(kind) :]], python_rows=False)


def _of(numbers: Any, name: str, what: str) -> read.Number:
    if name not in numbers:
        raise Unknown(f"{what} has nothing for {name}")
    return read.number(numbers[name], f"{what} of {name}")


def _buckets(value: Any) -> int:
    number = read.whole(value, "num_buckets")
    if not 0 < number < 2**63:
        raise Unknown(f"num_buckets is {number}")
    return number


def _fits(value: read.Number) -> bool:
    """Whether a column of any type surely keeps it when it takes the value."""
    plain = float(read.plain(value))
    return plain.is_integer() and abs(plain) < 2**24


def _within_type(value: read.Number, column: Value) -> bool:
    largest: int = 2 ** (8 * column.width - 1)
    return abs(read.plain(value)) < largest
