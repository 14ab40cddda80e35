"""NVTabular's operators with random options, each put on a branch of a random graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from merlin.schema import Tags
from nvtabular import ops

from tests.workflows import functions
from tests.workflows.columns import BOOL, FLOATS, FOREIGN_WORDS, INTEGERS, STRING, WORDS, Column
from tests.workflows.exchange import LISTS_OF_FUNCTIONS
from tests.workflows.names import RESERVED, made_of
from tests.workflows.users_code import (
    BESIDE,
    CATEGORY,
    DATE,
    FILTERS,
    FUNCTIONS,
    IN_ORDER,
    NULLABLE,
    OWN,
    SPAN,
    WHOLE_FRAME,
    ByModule,
    by_value,
    new_ending,
)

NUMBERS = (*INTEGERS, *FLOATS)


@dataclass(frozen=True)
class Kind:
    """What a column of the graph holds, as far as it is known without fitting."""

    dtype: str
    ragged: bool = False
    categorical: bool = False

    @property
    def number(self) -> bool:
        return self.dtype in NUMBERS


@dataclass(frozen=True)
class Branch:
    """A node of the graph. node: a list of names if it is a root."""

    node: Any
    kinds: dict[str, Kind]
    words: str
    root: bool = False

    @property
    def names(self) -> list[str]:
        return list(self.kinds)

    def all(self, condition: Callable[[Kind], bool]) -> bool:
        """Whether all columns are so."""
        return all(condition(kind) for kind in self.kinds.values())

    def then(self, operator: Any, described: str, kinds: dict[str, Kind] | None = None) -> Branch:
        """With an operator more."""
        words = f"{self.words} >> {described}"
        return Branch(self.node >> operator, self.kinds if kinds is None else kinds, words)


@dataclass
class Context:
    """What the operators of one case share.

    hostile: columns bear names that NVTabular uses. pairs: chains often begin with a column and one
    whose name is made of its own. named: functions are those of a module, which graph.json names.
    subgraphs: chains have graphs of their own in them.
    """

    random: Random
    staging: Path
    columns: dict[str, Column]
    outside: Path
    hostile: bool = False
    pairs: bool = False
    named: bool = False
    subgraphs: bool = False
    tables: set[str] = field(default_factory=set)
    features: Counter[str] = field(default_factory=Counter)
    numbers: int = 0

    def fresh(self) -> int:
        """A number that no other call gets."""
        self.numbers += 1
        return self.numbers

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def table(self, *names: str) -> None:
        """Names for tables on disk. Two operators' tables of one name overwrite each other."""
        _check(not self.tables & {*names} or self.chance(0.01))
        self.tables.update(names)

    def hostile_name(self) -> str:
        """Another input's name, one that NVTabular uses, or one that it would make of inputs'."""
        names = [*self.columns]
        choices = [*names, self.random.choice(RESERVED), made_of(names, self.random)]
        return self.random.choice(choices)

    def option(self, share: float, name: str, *values: Any) -> dict[str, Any]:
        """At times an option with one of the values, for a call."""
        return {name: self.random.choice(values)} if self.chance(share) else {}


class NotHere(Exception):
    """The operator does not go on such columns, or is not tried on them this time."""


def _check(condition: bool) -> None:
    if not condition:
        raise NotHere


def _scalar(kind: Kind) -> bool:
    return not kind.ragged


def _number(kind: Kind) -> bool:
    return kind.number


def _scalar_number(kind: Kind) -> bool:
    return kind.number and not kind.ragged


def _as(branch: Branch, dtype: str, *, categorical: bool = False) -> dict[str, Kind]:
    return {
        name: replace(kind, dtype=dtype, categorical=kind.categorical or categorical)
        for name, kind in branch.kinds.items()
    }


def _called(name: str, options: dict[str, Any]) -> str:
    shown = ", ".join(f"{key}={_shown(value)}" for key, value in options.items())
    return f"{name}({shown})"


def _shown(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, pd.Series):
        return f"Series({value.tolist()!r}, {value.dtype})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(one)}" for key, one in value.items()) + "}"
    return repr(value)


def _simple(branch: Branch, operator: type, options: dict[str, Any], dtype: str = "") -> Branch:
    kinds = branch.kinds
    if dtype:
        categorical = operator in (ops.Categorify, ops.HashBucket, ops.Bucketize)
        kinds = _as(branch, dtype, categorical=categorical)
    return branch.then(operator(**options), _called(operator.__name__, options), kinds)


def _count_lists(branch: Branch, context: Context) -> None:
    made = any(kind.ragged for kind in branch.kinds.values()) and "LambdaOp(" in branch.words
    context.features[LISTS_OF_FUNCTIONS] += made


# Categories


def categorify(branch: Branch, context: Context) -> Branch:
    random = context.random
    _check(branch.all(lambda kind: kind.dtype not in FLOATS) or context.chance(0.3))
    options: dict[str, Any] = {}
    limit = random.choice(["none"] * 5 + ["freq", "freq", "size", "size", "size hash", "freq hash"])
    if limit.startswith("freq"):
        options["freq_threshold"] = random.choice([1, 2, 2, 3, 5])
        if context.chance(0.2):
            options["freq_threshold"] = {name: random.choice([0, 1, 2, 4]) for name in branch.names}
    elif limit.startswith("size"):
        options["max_size"] = random.choice([5, 6, 8, 10])
        if context.chance(0.2):
            options["max_size"] = {name: random.choice([6, 9]) for name in branch.names}
    if limit.endswith("hash"):
        options["num_buckets"] = random.choice([1, 2, 3])
        if context.chance(0.2):
            options["num_buckets"] = {name: random.choice([1, 2, 3]) for name in branch.names}
    elif context.chance(0.03):
        options["num_buckets"] = random.choice([1, 2, 5])
    options |= context.option(0.15, "dtype", np.int32, "int32", np.int64, np.int16, np.float32)
    options |= context.option(0.08, "single_table", True)
    options |= context.option(0.15, "cat_cache", "disk", "device", "host", None)
    options |= context.option(0.08, "split_out", 2, 3)
    if "freq_threshold" not in options:
        options |= context.option(0.04, "search_sorted", True)
    options |= context.option(0.05, "on_host", False)
    context.features["Categorify buckets"] += "num_buckets" in options
    context.features["Categorify single table"] += "single_table" in options
    _count_lists(branch, context)
    context.features["Categorify of lists"] += any(kind.ragged for kind in branch.kinds.values())
    if branch.root and len(branch.names) > 1 and context.chance(0.4):
        return _grouped_categorify(branch, options, context)
    context.table(*branch.names)
    context.features[f"Categorify {limit}"] += 1
    place = context.staging / f"c{context.fresh()}" if context.chance(0.7) else context.staging
    if context.chance(0.15) and limit in ("none", "size hash"):
        options["vocabs"] = _vocabs(branch, context, place)
    if context.chance(0.1) and "vocabs" not in options:
        return _simple(branch, ops.Categorify, options, "int64")  # out_path is "./"
    return _simple(branch, ops.Categorify, {**options, "out_path": str(place)}, "int64")


def _grouped_categorify(branch: Branch, options: dict[str, Any], context: Context) -> Branch:
    random = context.random
    names = branch.names[:]
    random.shuffle(names)
    size = random.randint(2, min(3, len(names)))
    group, rest = names[:size], names[size:]
    encode_type = random.choice(["joint", "combo"])
    options = {**options, "encode_type": encode_type, "out_path": str(context.staging)}
    options |= context.option(0.3, "name_sep", "-", "__")
    separator = options.get("name_sep", "_")
    selected: list[Any] = [group, *rest]
    name = separator.join(group)
    if encode_type == "combo" and context.chance(0.3):
        selected += [one for one in group if one not in rest]
        rest = [*rest, *group]
    for option in ("freq_threshold", "max_size", "num_buckets"):
        if isinstance(options.get(option), dict):
            options[option] |= {name: random.choice([6, 7])}
    context.table(name, *rest)
    context.features[f"Categorify {encode_type}"] += 1
    if encode_type == "combo":
        kinds = {one: replace(branch.kinds[one], dtype="int64") for one in rest}
        kinds[name] = Kind("int64")
        _check(all(_scalar(branch.kinds[one]) for one in group))
    else:
        kinds = _as(branch, "int64")
    words = f"{selected!r} >> {_called('Categorify', options)}"
    return Branch(selected >> ops.Categorify(**options), kinds, words)


def _vocabs(branch: Branch, context: Context, place: Path) -> dict[str, Any]:
    context.features["Categorify vocabs"] += 1
    random = context.random
    vocabs: dict[str, Any] = {}
    for name in branch.names:
        pool = list(dict.fromkeys(context.columns[name].pool)) if name in context.columns else [1]
        chosen = random.sample(pool, random.randint(1, len(pool)))
        if context.chance(0.3) and branch.kinds[name].dtype == STRING:
            chosen.append(None)
        if context.chance(0.1):
            chosen.append(chosen[0])
        vocabs[name] = pd.Series(chosen)
        if branch.kinds[name].dtype in NUMBERS and context.chance(0.7):
            vocabs[name] = vocabs[name].astype(branch.kinds[name].dtype)
    if context.chance(0.4):
        # Only what lies under out_path is saved with the workflow.
        inside = context.chance(0.75)
        directory = (place if inside else context.outside) / f"vocabs{context.fresh()}"
        directory.mkdir(parents=True)
        for name, values in vocabs.items():
            path = directory / f"{context.fresh()}.parquet"
            start = random.choice([0, 0, 3, 3, 1, 10])
            index = pd.RangeIndex(start, start + len(values))
            pd.DataFrame({name: values.to_numpy()}, index=index).to_parquet(path)
            vocabs[name] = str(path)
    return vocabs


def hash_bucket(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar) or context.chance(0.02))
    buckets: Any = context.random.choice([1, 2, 7, 100, 10**6])
    if context.chance(0.2):
        buckets = {name: context.random.choice([3, 10]) for name in branch.names}
    return _simple(branch, ops.HashBucket, {"num_buckets": buckets}, "int32")


def hashed_cross(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar) and len(branch.names) > 1)
    options = {"num_buckets": context.random.choice([2, 10, 1000])}
    described = _called("HashedCross", options)
    name = "_X_".join(branch.names)
    if branch.root and context.chance(0.5):
        words = f"{[branch.names]!r} >> {described}"
        return Branch([branch.names] >> ops.HashedCross(**options), {name: Kind("int32")}, words)
    return branch.then(ops.HashedCross(**options), described, {name: Kind("int32")})


def drop_low_cardinality(branch: Branch, context: Context) -> Branch:
    _check(branch.all(lambda kind: kind.categorical))
    return _simple(branch, ops.DropLowCardinality, context.option(0.5, "min_cardinality", 3, 8))


# Numbers


def bucketize(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar_number))
    made: Any = {name: _boundaries(context) for name in branch.names}
    if context.chance(0.5):
        made = _boundaries(context)
    return _simple(branch, ops.Bucketize, {"boundaries": made}, "int32")


def _boundaries(context: Context) -> list[Any]:
    random = context.random
    count = random.choice([0, 1, 2, 4, 7]) if context.chance(0.2) else random.randint(1, 6)
    if context.chance(0.5):
        made: list[Any] = sorted(random.sample(range(-5, 60), count))
    else:
        made = sorted(random.choice([-1.0, 0.0, 0.1, 0.5, 2.5, 3.0, 1e10]) for _ in range(count))
    if context.chance(0.1):
        made.reverse()
    if context.chance(0.05):
        random.shuffle(made)
    if context.chance(0.05):
        made = [float("-inf"), *made, float("inf")]
    return made


def normalize(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_number))
    _count_lists(branch, context)
    options = context.option(0.4, "out_dtype", np.float32, np.float64, "float32", np.int32)
    dtype = np.dtype(options.get("out_dtype", "float64")).name
    return _simple(branch, ops.Normalize, options, dtype)


def normalize_min_max(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar_number) or (branch.all(_number) and context.chance(0.2)))
    options = context.option(0.4, "out_dtype", np.float32, np.float64, "float32")
    dtype = np.dtype(options.get("out_dtype", "float64")).name
    return _simple(branch, ops.NormalizeMinMax, options, dtype)


def _filled(branch: Branch, options: dict[str, Any]) -> dict[str, Kind]:
    if not options.get("add_binary_cols"):
        return branch.kinds
    return branch.kinds | {f"{name}_filled": Kind(BOOL) for name in branch.names}


def fill_missing(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar) or context.chance(0.2))
    random = context.random
    options: dict[str, Any] = {}
    if branch.all(lambda kind: kind.dtype == STRING):
        options["fill_val"] = random.choice(["ale", "", "missing"])
    elif context.chance(0.7):
        options["fill_val"] = random.choice([0, 1, -1, 7, 0.5, 0.1, -2.5, 1e40, 2**24 + 1, 2**60])
    options |= context.option(0.7 if context.hostile else 0.3, "add_binary_cols", True)
    described = _called("FillMissing", options)
    return branch.then(ops.FillMissing(**options), described, _filled(branch, options))


def fill_median(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar_number))
    options = context.option(0.7 if context.hostile else 0.3, "add_binary_cols", True)
    described = _called("FillMedian", options)
    return branch.then(ops.FillMedian(**options), described, _filled(branch, options))


def clip(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar_number) or (branch.all(_number) and context.chance(0.03)))
    random = context.random
    lower = random.choice([0, 1, -1, 0.5, -2.5, 0.1, 0.0, 1e-40, -(2**40)])
    upper = random.choice([5, 10, 100, 7.5, 3.3, 0, 2**33, 1e300])
    options: dict[str, Any] = {}
    if context.chance(0.7):
        options["min_value"] = lower
    if not options or context.chance(0.6):
        options["max_value"] = upper
    return _simple(branch, ops.Clip, options)


def log_op(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_number))
    _count_lists(branch, context)
    return _simple(branch, ops.LogOp, {}, "float32")


def reduce_dtype_size(branch: Branch, context: Context) -> Branch:
    _check(branch.all(lambda kind: kind.dtype != STRING) or context.chance(0.1))
    _check(branch.all(_scalar) or context.chance(0.05))
    return _simple(branch, ops.ReduceDtypeSize, context.option(0.2, "float_dtype", np.float64))


def difference_lag(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar_number))
    keys = [column.name for column in context.columns.values() if not column.ragged]
    _check(bool(keys))
    key: Any = context.random.choice(keys)
    if context.chance(0.3):
        key = context.random.sample(keys, context.random.randint(1, min(2, len(keys))))
    options: dict[str, Any] = {"partition_cols": key}
    options |= context.option(0.5, "shift", 1, -1, 2, [1, -1])
    shifts = options.get("shift", 1)
    shifts = shifts if isinstance(shifts, list) else [shifts]
    kinds = {
        f"{name}_difference_lag_{shift}": Kind("float32")
        for name in branch.names
        for shift in shifts
    }
    return branch.then(ops.DifferenceLag(**options), _called("DifferenceLag", options), kinds)


# Lists


def list_slice(branch: Branch, context: Context) -> Branch:
    _check(branch.all(lambda kind: kind.ragged))
    _count_lists(branch, context)
    start, end = context.random.choice(
        [
            (2, None),
            (1, 3),
            (0, 2),
            (-2, None),
            (-3, -1),
            (5, None),
            (1, None),
            (0, None),
            (-1, None),
            (-2, 3),
        ]
    )
    options: dict[str, Any] = {"start": start}
    if end is not None:
        options["end"] = end
    if context.chance(0.5):
        options["pad"] = True
        context.features["ListSlice filled up"] += "Groupby(" in branch.words
        options |= context.option(0.4, "pad_value", 0, -1, 9, 0.5)
    return _simple(branch, ops.ListSlice, options)


def value_count(branch: Branch, context: Context) -> Branch:
    _check(branch.all(lambda kind: kind.ragged))
    return _simple(branch, ops.ValueCount, {})


AGGREGATES = [
    "list",
    "first",
    "last",
    "count",
    "nunique",
    "sum",
    "mean",
    "min",
    "max",
    "std",
    "var",
    "median",
]
PLAIN_AGGREGATES = ["list", "first", "last", "count", "nunique", "min", "max"]
FLOAT_AGGREGATES = ("sum", "mean", "std", "var", "median")


def groupby(branch: Branch, context: Context) -> Branch:
    random = context.random
    # Another Groupby's rows do not go with keys, which come from the request.
    _check("Groupby(" not in branch.words or context.chance(0.01))
    scalars = [name for name, kind in branch.kinds.items() if not kind.ragged]
    # Keys are asked of the input: a name that is not there cannot be one.
    known = [name for name in scalars if name in context.columns]
    _check(
        bool(known)
        and len(scalars) > 1
        and (len(scalars) == len(branch.names) or context.chance(0.2))
    )
    both = context.chance(0.25) and len(scalars) > 2 and len(known) > 1
    keys = random.sample(known, 2 if both else 1)
    others = [name for name in branch.names if name not in keys]
    options: dict[str, Any] = {
        "groupby_cols": keys if len(keys) > 1 or context.chance(0.5) else keys[0]
    }
    if context.chance(0.5):
        numeric = [name for name in scalars if branch.kinds[name].dtype != BOOL]
        _check(bool(numeric))
        sort = random.sample(numeric, min(len(numeric), random.choice([1, 1, 2])))
        options["sort_cols"] = sort if len(sort) > 1 or context.chance(0.5) else sort[0]
        options |= context.option(0.3, "ascending", False)
        context.features["Groupby in an order"] += 1
    options |= context.option(0.4, "name_sep", "-", "__", ".")
    separator = options.get("name_sep", "_")
    aggregates: dict[str, list[str]] = {}
    for name in others:
        allowed = AGGREGATES if branch.kinds[name].number else PLAIN_AGGREGATES
        aggregates[name] = random.sample(allowed, random.choice([1, 1, 2, 3, 4]))
    style = random.random()
    if style < 0.2:
        options["aggs"] = random.choice(["list", "count", "first"])
        aggregates = {name: [options["aggs"]] for name in others}
    elif style < 0.35:
        chosen = random.sample(PLAIN_AGGREGATES, 2)
        options["aggs"], aggregates = chosen, dict.fromkeys(others, chosen)
    elif style > 0.95:
        aggregates = {}
    else:
        if context.chance(0.2) and len(others) > 1:
            del aggregates[others[0]]
        options["aggs"] = {
            name: one if len(one) > 1 or context.chance(0.5) else one[0]
            for name, one in aggregates.items()
        }
    if not aggregates:
        aggregates = {name: ["list"] for name in others}
    kinds = {name: branch.kinds[name] for name in keys}
    for name, chosen in aggregates.items():
        for one in chosen:
            kinds[f"{name}{separator}{one}"] = _aggregated(branch.kinds[name], one)
    if len(keys) > 1:
        context.features["Groupby on two"] += 1
    return branch.then(ops.Groupby(**options), _called("Groupby", options), kinds)


def _aggregated(kind: Kind, aggregate: str) -> Kind:
    if aggregate == "list":
        return Kind(kind.dtype, ragged=True)
    if aggregate in ("count", "nunique"):
        return Kind("int32")
    return Kind("float32") if aggregate in FLOAT_AGGREGATES else kind


# Tables


def _keys(branch: Branch, context: Context) -> tuple[list[Any], list[str]]:
    """Columns to join on: a selection that may hold a group, and the names of the results."""
    names = [name for name, kind in branch.kinds.items() if not kind.ragged]
    _check(branch.root and bool(names))
    selected: list[Any] = names
    results = names
    if len(names) > 1 and context.chance(0.35):
        selected, results = [names[:2], *names[2:]], ["_".join(names[:2]), *names[2:]]
        if context.hostile and context.chance(0.3):
            selected, results = [*selected, names[0]], [*results, names[0]]
    return selected, results


def _scalars(context: Context, without: Iterable[str]) -> list[str]:
    """Input columns of numbers."""
    return [
        column.name
        for column in context.columns.values()
        if column.dtype in NUMBERS and not column.ragged and column.name not in without
    ]


def join_groupby(branch: Branch, context: Context) -> Branch:
    selected, results = _keys(branch, context)
    numbers = _scalars(context, branch.names)
    _check(bool(numbers))
    random = context.random
    conts = random.sample(numbers, min(len(numbers), random.randint(1, 2)))
    allowed = ["count", "sum", "mean", "std", "var", "min", "max"]
    stats = random.sample(allowed, random.randint(1, 4))
    context.table(*(f"stats.{name}" for name in results))
    options: dict[str, Any] = {"cont_cols": conts, "stats": stats}
    options["out_path"] = str(context.staging / f"j{context.fresh()}")
    options |= context.option(0.15, "cat_cache", "disk", "device")
    kinds = {}
    for result in results:
        for stat in stats:
            if stat == "count":
                kinds[f"{result}_count"] = Kind("int32")
            else:
                kinds |= {f"{result}_{cont}_{stat}": Kind("float32") for cont in conts}
    context.features["JoinGroupby on two"] += len(results) < sum(
        len(one) if isinstance(one, list) else 1 for one in selected
    )
    words = f"{selected!r} >> {_called('JoinGroupby', options)}"
    return Branch(selected >> ops.JoinGroupby(**options), kinds, words)


def target_encoding(branch: Branch, context: Context) -> Branch:
    selected, results = _keys(branch, context)
    numbers = _scalars(context, branch.names)
    _check(bool(numbers))
    random = context.random
    target: Any = random.sample(numbers, min(len(numbers), random.choice([1, 1, 2])))
    targets = target
    if len(target) == 1 and context.chance(0.4):
        target = target[0]
    context.table(*(f"stats.{name}" for name in results))
    options: dict[str, Any] = {"target": target}
    options["out_path"] = str(context.staging / f"t{context.fresh()}")
    options |= context.option(0.7, "kfold", 1, 1, 3, 5)
    options |= context.option(0.5, "fold_seed", None, 7)
    options |= context.option(0.5, "p_smooth", 1, 0, 5.5)
    options |= context.option(0.3, "out_dtype", "float64", np.float32)
    options |= context.option(0.1, "drop_folds", False)
    options |= context.option(0.15, "cat_cache", "disk", "device")
    options |= context.option(0.15, "target_mean", 0.5)
    context.features["TargetEncoding with folds"] += options.get("kfold", 3) > 1
    kinds = {f"TE_{result}_{one}": Kind("float32") for result in results for one in targets}
    words = f"{selected!r} >> {_called('TargetEncoding', options)}"
    return Branch(selected >> ops.TargetEncoding(**options), kinds, words)


def join_external(branch: Branch, context: Context) -> Branch:
    random = context.random
    keys = [
        name for name in branch.names if name in context.columns and _scalar(branch.kinds[name])
    ]
    if context.chance(0.7):
        keys = [name for name in keys if branch.kinds[name].dtype in (*INTEGERS, STRING)]
    _check(bool(keys))
    goes_on = context.chance(0.5)
    on = random.sample(keys, 2 if len(keys) > 1 and context.chance(0.2) and not goes_on else 1)
    rows = random.randint(1, 12)
    # Else some of the rows that a workflow is fitted on have no list, on which fitting fails.
    whole = len(on) == 1 and (goes_on or context.chance(0.4))
    if whole:
        rows = len(dict.fromkeys(context.columns[on[0]].pool))
    table = pd.DataFrame()
    for name in on:
        pool = list(dict.fromkeys(context.columns[name].pool))
        values = pd.Series(pool if whole else [random.choice(pool) for _ in range(rows)])
        if context.chance(0.8) and branch.kinds[name].dtype in NUMBERS:
            values = values.astype(branch.kinds[name].dtype)
        table[name] = values
    number = context.fresh()
    kinds = dict(branch.kinds)
    for part, dtype in (
        (f"ext{number}", random.choice(["int64", "float32", "int32"])),
        (f"other{number}", "float64"),
    ):
        table[part] = np.array([random.randrange(100) for _ in range(rows)], dtype=dtype)
        kinds[part] = Kind(dtype)
    if context.chance(0.4):
        part = f"text{number}"
        gaps: list[Any] = random.choice([[], [], [None], [float("nan")], [None, float("nan")]])
        table[part] = [random.choice([*WORDS, *FOREIGN_WORDS, *gaps * 6]) for _ in range(rows)]
        kinds[part] = Kind(STRING)
    if context.chance(0.5):
        part = f"list{number}"
        dtype = random.choice(["int64", "float64", "int32", "float32", STRING, STRING])
        table[part] = _table_lists(dtype, rows, context, 0.02 if goes_on else 0.15)
        kinds[part] = Kind(dtype, ragged=True)
    if context.chance(0.3):
        part = f"odd{number}"
        table[part], kinds[part] = _odd_values(rows, context)
    if context.chance(0.8):
        table = table.drop_duplicates(subset=on, ignore_index=True)
    options: dict[str, Any] = {"on": on if len(on) > 1 or context.chance(0.5) else on[0]}
    if context.chance(0.3):
        renamed = {name: f"{name}_ext" for name in on}
        table = table.rename(columns=renamed)
        options["on_ext"] = (
            list(renamed.values()) if isinstance(options["on"], list) else f"{on[0]}_ext"
        )
        kinds |= {f"{name}_ext": branch.kinds[name] for name in on}
    options |= context.option(0.1, "how", "inner", "left")
    options |= context.option(0.3, "cache", "device", "host")
    options |= context.option(0.2, "drop_duplicates_ext", True)
    if context.chance(0.3):
        parts = [name for name in table.columns if name.endswith(str(number))]
        left_out = random.sample(parts, random.randrange(len(parts)))
        options["columns_ext"] = [name for name in table.columns if name not in left_out]
        kinds = {name: kind for name, kind in kinds.items() if name not in left_out}
    context.features["JoinExternal of lists"] += f"list{number}" in kinds
    context.features["JoinExternal with gaps"] += bool(
        f"text{number}" in kinds and table[f"text{number}"].isna().any()
    )
    described = f"JoinExternal({table.to_dict('list')!r}, {_called('', options)[1:]}"
    made = branch.then(ops.JoinExternal(table, **options), described, kinds)
    return _behind_the_table(made, number, context) if goes_on else made


def _behind_the_table(branch: Branch, number: int, context: Context) -> Branch:
    """At times an operator of the table's texts or lists alone."""
    lists, text = f"list{number}", f"text{number}"
    names = [name for name in (lists, text) if name in branch.kinds]
    _check(bool(names))
    name = context.random.choice(names)
    words = f"({branch.words})[{[name]}]"
    alone = Branch(branch.node[[name]], {name: branch.kinds[name]}, words)
    makers = [categorify, list_slice, value_count, dropna]
    if name == text:
        makers = [categorify, hash_bucket, fill_missing, dropna]
    return context.random.choice(makers)(alone, context)


def _odd_values(rows: int, context: Context) -> tuple[Any, Kind]:
    """A column of a table that is not compiled, if somebody reads it."""
    random = context.random
    numbers = pd.Series([random.randrange(9) for _ in range(rows)])
    return random.choice(
        [
            (pd.to_datetime(numbers, unit="D"), Kind(DATE)),
            (pd.to_timedelta(numbers, unit="s"), Kind(SPAN)),
            (numbers.astype("category"), Kind(CATEGORY)),
            (numbers.astype("Int64").where(numbers > 1), Kind(NULLABLE)),
            (numbers > 4, Kind(BOOL)),
            (numbers.astype("int16"), Kind("int16")),
            (numbers.astype("uint8"), Kind("uint8")),
            (numbers.map(lambda value: (value,)), Kind("tuples")),
        ]
    )


def _table_lists(dtype: str, rows: int, context: Context, missing: float) -> Any:
    """Lists, or arrays, of values that come again, at times empty. missing: how often one is."""
    random = context.random
    pool: list[Any] = [*WORDS[:6], *FOREIGN_WORDS[:2]]
    if dtype in INTEGERS:
        pool = [0, 1, 2, 7, -3]
    elif dtype in FLOATS:
        pool = [0.0, 1.5, -2.0, 0.1, 3.0, float("nan")]
    shortest, longest = random.choice([(0, 3), (0, 3), (1, 4), (2, 2)])
    made: list[Any] = [
        random.choices(pool, k=random.randint(shortest, longest)) for _ in range(rows)
    ]
    if dtype in ("int32", "float32") or context.chance(0.3):
        made = [np.array(row, object if dtype == STRING else dtype) for row in made]
    if context.chance(missing):
        made[random.randrange(rows)] = random.choice([None, float("nan")])
    return pd.Series(made, dtype=object)


def column_similarity(branch: Branch, context: Context) -> Branch:
    random = context.random
    _check(branch.root)
    names = [
        name
        for name, kind in branch.kinds.items()
        if kind.dtype in INTEGERS
        and not kind.ragged
        and all(0 <= value < 60 for value in context.columns[name].pool)
    ]
    _check(len(names) > 1)
    size, values = random.choice([60, 110]), random.randint(20, 200)
    rows = [random.randrange(size) for _ in range(values)] + list(range(size))
    places = [random.randrange(8) for _ in rows]
    data = [random.choice([1.0, 0.5, 2.0]) for _ in rows]
    features = scipy.sparse.coo_matrix((data, (rows, places)), shape=(size, 8))
    options = {"metric": random.choice(["tfidf", "cosine", "inner"])}
    options |= context.option(0.5, "on_device", False)
    pair = names[:2]
    words = f"{[pair]!r} >> ColumnSimilarity(coo_matrix, {_called('', options)[1:]}"
    node = [pair] >> ops.ColumnSimilarity(features, **options)
    return Branch(node, {f"{pair[0]}_{pair[1]}_sim": Kind("float64")}, words)


# Rows


def dropna(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar) or context.chance(0.3))
    return _simple(branch, ops.Dropna, {})


def filter_rows(branch: Branch, context: Context) -> Branch:
    numbers = [name for name, kind in branch.kinds.items() if _scalar_number(kind)]
    _check(bool(numbers))
    name, limit = context.random.choice(numbers), context.random.choice([0, 2, 5])
    words, filtered = context.random.choice(FILTERS)
    words = f"Filter({words.format(name=repr(name), limit=limit)})"
    return branch.then(ops.Filter(filtered(name, limit)), words)


def lambda_op(branch: Branch, context: Context) -> Branch:
    if not context.named and context.chance(0.85):
        return _own_function(branch, context)
    if branch.all(lambda kind: kind.dtype == STRING and not kind.ragged):
        length = functions.text_length if context.named else lambda column: column.str.len()
        made = ops.LambdaOp(length, dtype=np.int64)
        return branch.then(made, "LambdaOp(column.str.len(), dtype=np.int64)", _as(branch, "int64"))
    _check(branch.all(_scalar_number))
    if context.chance(0.5):
        add = functions.plus_one if context.named else lambda column: column + 1
        return branch.then(ops.LambdaOp(add), "LambdaOp(column + 1)")
    above = functions.above_two if context.named else lambda it: (it > 2).astype("int8")
    made = ops.LambdaOp(above, dtype=np.int8)
    return branch.then(made, "LambdaOp((column > 2).astype('int8'))", _as(branch, "int8"))


#: How the words of columns that were joined look.
_JOINED, _LESS = "\n  + (", "- itself"


def _own_function(branch: Branch, context: Context) -> Branch:
    """A function of columns of a kind; at times it sees its frame, or depends on another column."""
    families = {_functions_for(kind) for kind in branch.kinds.values()}
    _check(len(families) == 1 and families <= FUNCTIONS.keys())
    (found,) = families
    options: dict[str, Any] = context.option(0.05, "dtype", np.float32, np.int64)
    chosen = context.random.choice(FUNCTIONS[found])
    if found == "numbers" and context.chance(0.2):
        chosen = context.random.choice(BESIDE)
        if names := _scalars(context, branch.names) if context.chance(0.4) else []:
            options["dependency"] = [context.random.choice(names)]
    elif context.chance(0.05) and not any(sign in branch.words for sign in (_JOINED, _LESS)):
        chosen = IN_ORDER
    made = ops.LambdaOp(chosen.call, **options)
    kinds = {
        name: replace(kind, dtype=chosen.makes or kind.dtype, ragged=chosen.ragged)
        for name, kind in branch.kinds.items()
    }
    return branch.then(made, f"LambdaOp({chosen.words}{_called('', options)[1:]}", kinds)


def own_operator(branch: Branch, context: Context) -> Branch:
    _check(branch.all(_scalar_number) and not context.named)
    step, words = context.random.choice([0, 1, 7]), context.random.choice(OWN)
    if context.chance(0.3):
        return branch.then(ByModule(step), f"ByModule({step})", _as(branch, "float64"))
    kinds = {f"{name}{new_ending(words)}": kind for name, kind in _as(branch, "float64").items()}
    names = _scalars(context, branch.names) if context.chance(0.3) else []
    dependency = context.random.choice(names) if names and words in WHOLE_FRAME else ""
    made = by_value(step, words, dependency)
    return branch.then(made, f"ByValue({step}, {words!r}, {dependency!r})", kinds)


def _functions_for(kind: Kind) -> str:
    if kind.ragged:
        return "lists"
    if kind.number:
        return "numbers"
    return "texts" if kind.dtype == STRING else kind.dtype


# Names


def rename(branch: Branch, context: Context) -> Branch:
    style = context.random.random()
    if style < 0.2 and len(branch.names) == 1:
        options: dict[str, Any] = {"name": f"renamed{context.fresh()}"}
        if context.hostile:
            options["name"] = context.hostile_name()
        new = [options["name"]]
    elif style < 0.4:
        own = functions if context.named else str
        made = context.random.choice([own.upper, own.title])
        new = [made(name) for name in branch.names]
        _check(len(set(new)) == len(new))
        kinds = dict(zip(new, branch.kinds.values(), strict=True))
        return branch.then(ops.Rename(f=made), f"Rename(f=str.{made.__name__})", kinds)
    elif style < 0.5:
        number = context.fresh()
        new = [f"{name}_f{number}" for name in branch.names]
        kinds = dict(zip(new, branch.kinds.values(), strict=True))
        made = ops.Rename(f=lambda name: f"{name}_f{number}")
        return branch.then(made, f"Rename(f=lambda name: name + '_f{number}')", kinds)
    else:
        options = {"postfix": context.random.choice(["_r", "-x", f"_{context.fresh()}"])}
        if context.hostile:
            options["postfix"] = context.random.choice(["_r", "_filled", "_count", "_x", "_list"])
        new = [name + options["postfix"] for name in branch.names]
    kinds = dict(zip(new, branch.kinds.values(), strict=True))
    return branch.then(ops.Rename(**options), _called("Rename", options), kinds)


def add_metadata(branch: Branch, context: Context) -> Branch:
    tags = [context.random.choice([Tags.CATEGORICAL, Tags.CONTINUOUS, Tags.USER, "mine"])]
    made = [
        (ops.AddMetadata(tags=tags, properties={"p": 1}), f"AddMetadata({tags}, p)"),
        (ops.AddTags(tags), f"AddTags({tags})"),
        (ops.AddProperties({"p": [1, 2]}), "AddProperties(p)"),
        (ops.TagAsUserID(), "TagAsUserID()"),
        (ops.TagAsItemID(), "TagAsItemID()"),
        (ops.TagAsUserFeatures(), "TagAsUserFeatures()"),
        (ops.TagAsItemFeatures(), "TagAsItemFeatures()"),
    ]
    operator, words = context.random.choice(made)
    return branch.then(operator, words)


Maker = Callable[[Branch, Context], Branch]

#: Of each operator what puts it on a branch, and how often it is tried.
OPERATORS: dict[str, tuple[Maker, int]] = {
    "AddMetadata": (add_metadata, 2),
    "Bucketize": (bucketize, 4),
    "Categorify": (categorify, 10),
    "Clip": (clip, 5),
    "ColumnSimilarity": (column_similarity, 5),
    "DifferenceLag": (difference_lag, 2),
    "DropLowCardinality": (drop_low_cardinality, 4),
    "Dropna": (dropna, 1),
    "FillMedian": (fill_median, 4),
    "FillMissing": (fill_missing, 5),
    "Filter": (filter_rows, 2),
    "Groupby": (groupby, 9),
    "HashBucket": (hash_bucket, 2),
    "HashedCross": (hashed_cross, 2),
    "JoinExternal": (join_external, 2),
    "JoinGroupby": (join_groupby, 6),
    "LambdaOp": (lambda_op, 6),
    "ListSlice": (list_slice, 8),
    "LogOp": (log_op, 5),
    "Normalize": (normalize, 5),
    "NormalizeMinMax": (normalize_min_max, 4),
    "Own": (own_operator, 2),
    "ReduceDtypeSize": (reduce_dtype_size, 3),
    "Rename": (rename, 3),
    "TargetEncoding": (target_encoding, 6),
    "ValueCount": (value_count, 3),
}


def applied(branch: Branch, weights: Mapping[str, int], context: Context) -> Branch | None:
    """The branch with one of the operators more; nothing if none of them was found to go on it."""
    for name in context.random.choices([*weights], [*weights.values()], k=8):
        try:
            made = OPERATORS[name][0](branch, context)
        except NotHere:
            continue
        context.features[name] += 1
        return made
    return None
