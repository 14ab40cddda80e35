"""NVTabular's operators as the compiler meets them, fitted, in small graphs.

EXAMPLES has one of every class that is compiled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, Operator, SchemaColumn
from ensemble_tools.archive.inert_pickle import read_pickle
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.workflows.compiler import compile_workflow
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.program import Program
from tests.support.pickled_frames import USERS

AGE = SchemaColumn("age", "float64", False, (None,))
USER = SchemaColumn("user", "int64", False, (None,))
DRINK = SchemaColumn("drink", "object", False, (None,))
TAGS = SchemaColumn("tags", "int64", True, (None, None))
COLUMNS = (AGE, USER, DRINK, TAGS)
INPUTS = {
    "age": TensorSpec("age", "TYPE_FP64", (-1,)),
    "user": TensorSpec("user", "TYPE_INT64", (-1,)),
    "drink": TensorSpec("drink", "TYPE_STRING", (-1,)),
    "tags__values": TensorSpec("tags__values", "TYPE_INT64", (-1,)),
    "tags__offsets": TensorSpec("tags__offsets", "TYPE_INT32", (-1,)),
}


def operator(called: str, module: str = "nvtabular.ops", /, **state: Any) -> Operator:
    """One with that state, as it is read from a pickle."""
    inert: Mapping[str, Any] = read_pickle(pickle.dumps(state))
    return Operator(f"{module}.{called}", called.rpartition(".")[2], state=inert)


def _with(made: Operator, **inert: Any) -> Operator:
    """The operator with more of its state, read already."""
    return replace(made, state={**made.state, **inert})


def root(*columns: SchemaColumn) -> Node:
    """The selection of the request's columns."""
    names = tuple(column.name for column in columns)
    return Node(
        0,
        Operator("merlin.dag.ops.selection.SelectionOp", "SelectionOp", selector=names),
        (),
        names,
        names,
        (),
        columns,
        names,
        columns,
        is_leaf=True,
    )


def graph(column: SchemaColumn, *operators: Operator) -> ExecutorGraph:
    """A column, and one operator after the other."""
    names = (column.name,)
    nodes = [
        Node(number, made, (number - 1,), names, names, (), (column,), names, (column,))
        for number, made in enumerate(operators, 1)
    ]
    return ExecutorGraph((root(column), *nodes))


def compiled(
    *operators: Operator, column: SchemaColumn = AGE, inputs: Mapping[str, TensorSpec] = INPUTS
) -> Program:
    """The program of operators that stand one after the other; the workflow lies in /none."""
    return compile_workflow(graph(column, *operators), inputs, Path("/none"))


def of_table(table: bytes, columns: tuple[SchemaColumn, ...], *operators: Operator) -> Program:
    """The program of JoinExternal with a pickled frame, by `user`, and of operators behind it.

    columns: those of the table that are asked for; each operator is applied to all of them.
    """
    join = operator("join_external.JoinExternal", on="user", on_ext="user", how="left")
    join = _with(join, _ext_cache=read_pickle(table))
    names, output = tuple(column.name for column in columns), (USER, *columns)
    nodes = [Node(1, join, (0,), ("user",), ("user",), (), output, ("user",))]
    for number, made in enumerate(operators, 2):
        nodes.append(Node(number, made, (number - 1,), names, names, (), columns, names))
    return compile_workflow(ExecutorGraph((root(USER), *nodes)), INPUTS, Path("/none"))


def why_not_compiled(compiling: Callable[[], Program]) -> str:
    """Why an operator is kept, or the whole workflow is not compiled; empty where all of it is."""
    try:
        kept = compiling().kept
    except NotCompiled as error:
        return str(error)
    return kept[0].reason if kept else ""


#: Categorify's parameters.
CATEGORIES = {
    "encode_type": "joint",
    "dtype": None,
    "storage_name": {},
    "search_sorted": False,
    "name_sep": "_",
    "split_out": 1,
    "cat_cache": "host",
    "num_buckets": None,
    "single_table": False,
    "out_path": "/exported",
    "categories": {"age": "/exported/categories/unique.age.parquet"},
}


@dataclass(frozen=True)
class Example:
    """An operator on columns of the request. groups: the selection; output: what it puts out."""

    operator: Operator
    groups: tuple[str | tuple[str, ...], ...]
    output: tuple[SchemaColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The selected columns."""
        return tuple(
            name
            for group in self.groups
            for name in (group if isinstance(group, tuple) else (group,))
        )

    def compiled(self) -> Program:
        """The program of this operator alone."""
        inputs = tuple(column.name for column in COLUMNS)
        node = Node(1, self.operator, (0,), self.names, inputs, (), self.output, self.groups)
        return compile_workflow(ExecutorGraph((root(*COLUMNS), node)), INPUTS, Path("/none"))


class _Schema:
    def __init__(self, *names: str) -> None:
        self.column_schemas = dict.fromkeys(names)


class _Selected:
    """A node of merlin-core."""

    def __init__(self, *names: str) -> None:
        self.output_schema = _Schema(*names)


class _Cell:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return _Cell, (self.value,)


class _Boundaries:
    """A function of Bucketize's, as cloudpickle writes it."""

    def __init__(self, boundaries: Any) -> None:
        self.__dict__.update(
            __module__="nvtabular.ops.bucketize",
            __qualname__="Bucketize.__init__.<locals>.<lambda>",
            __closure__=(_Cell(boundaries),),
        )


def _numbers(name: str, dtype: str = "float64") -> SchemaColumn:
    return SchemaColumn(name, dtype, False, (None,))


_TAGS = (
    "AddMetadata",
    "AddTags",
    "AddProperties",
    "TagAsUserID",
    "TagAsItemID",
    "TagAsUserFeatures",
    "TagAsItemFeatures",
)
_STATISTICS = tuple(_numbers(f"user_{name}") for name in ("count", "age_mean", "age_min"))
_TARGETS = (_numbers("TE_user_age", "float32"), _numbers("__fold__", "uint8"))

EXAMPLES = {
    example.operator.class_name: example
    for example in (
        *(Example(operator(f"add_metadata.{name}"), ("age",), (AGE,)) for name in _TAGS),
        *(
            Example(operator(f"add_metadata.{name}", "merlin.dag.ops"), ("age",), (AGE,))
            for name in _TAGS
        ),
        Example(operator("value_counts.ValueCount"), ("tags",), (TAGS,)),
        Example(operator("drop_low_cardinality.DropLowCardinality"), ("age",), (AGE,)),
        Example(operator("selection.SelectionOp", "merlin.dag.ops"), ("age",), (AGE,)),
        Example(operator("concat_columns.ConcatColumns", "merlin.dag.ops"), ("age",), (AGE,)),
        Example(operator("subset_columns.SubsetColumns", "merlin.dag.ops"), ("age",), (AGE,)),
        Example(operator("subtraction.SubtractionOp", "merlin.dag.ops"), ("age",), (AGE,)),
        *(
            Example(
                operator("rename.Rename", module, f=None, postfix="_years", name=None),
                ("age",),
                (_numbers("age_years"),),
            )
            for module in ("nvtabular.ops", "merlin.dag.ops")
        ),
        Example(operator("categorify.Categorify", **CATEGORIES), ("age",), (AGE,)),
        Example(operator("hash_bucket.HashBucket", num_buckets=5), ("user",), (USER,)),
        Example(
            operator("hashed_cross.HashedCross", num_buckets=7),
            (("user", "drink"),),
            (_numbers("user_X_drink", "int32"),),
        ),
        Example(
            operator(
                "bucketize.Bucketize",
                boundaries=_Boundaries([1, 2.5, np.float32(7)]),
                use_digitize=True,
            ),
            ("age",),
            (_numbers("age", "int32"),),
        ),
        Example(
            operator(
                "normalize.Normalize",
                means={"age": np.float64(40.5)},
                stds={"age": 1.5},
                out_dtype=None,
            ),
            ("age",),
            (AGE,),
        ),
        Example(
            operator(
                "normalize.NormalizeMinMax",
                mins={"user": np.int64(-3)},
                maxs={"user": np.int64(9)},
                out_dtype=np.float32,
            ),
            ("user",),
            (_numbers("user", "float32"),),
        ),
        Example(operator("logop.LogOp"), ("age",), (AGE,)),
        Example(operator("clip.Clip", min_value=0, max_value=None), ("age",), (AGE,)),
        Example(
            operator("reduce_dtype_size.ReduceDtypeSize", dtypes={"age": np.dtype("float32")}),
            ("age",),
            (_numbers("age", "float32"),),
        ),
        Example(
            operator("fill.FillMissing", fill_val=0.5, add_binary_cols=True),
            ("age",),
            (AGE, SchemaColumn("age_filled", "bool", False, (None,))),
        ),
        Example(
            operator("fill.FillMedian", medians={"age": np.float64(3)}, add_binary_cols=False),
            ("age",),
            (AGE,),
        ),
        Example(operator("dropna.Dropna"), ("age",), (AGE,)),
        Example(
            operator("list_slice.ListSlice", start=0, end=3, max_elements=3, pad=False),
            ("tags",),
            (TAGS,),
        ),
        Example(
            operator(
                "groupby.Groupby",
                groupby_cols=["user"],
                sort_cols=["age"],
                name_sep="_",
                ascending=True,
                list_aggs={"age": ["list"]},
                conv_aggs={"age": ["mean", "last"]},
            ),
            ("user", "age"),
            (USER, SchemaColumn("age_list", "float64", True, (None, None)), _numbers("age_mean")),
        ),
        Example(
            operator("difference_lag.DifferenceLag", partition_cols=["user"], shifts=[1, -1]),
            ("age",),
            (_numbers("age_difference_lag_1", "float32"),),
        ),
        Example(
            operator(
                "join_groupby.JoinGroupby",
                categories={"user": "/exported/categories/cat_stats.user.parquet"},
                storage_name={},
                stats=["count", "mean", "min"],
                name_sep="_",
                out_path="/exported",
            ),
            ("user",),
            _STATISTICS,
        ),
        Example(
            _with(
                operator("join_external.JoinExternal", on="user", on_ext=["user"], how="left"),
                _ext_cache=read_pickle(USERS),
            ),
            ("user",),
            (USER, _numbers("weight"), _numbers("score", "float32")),
        ),
        Example(
            operator(
                "target_encoding.TargetEncoding",
                kfold=3,
                fold_seed=42,
                p_smooth=20,
                stats={
                    name: f"/exported/categories/te_stats.{name}.parquet"
                    for name in ("user", "__fold___user")
                },
                target=_Selected("age"),
                target_mean=None,
                means={"age": 0.25},
                out_dtype=None,
                drop_folds=False,
                name_sep="_",
                out_col=None,
                out_path="/exported",
            ),
            ("user",),
            _TARGETS,
        ),
    )
}
#: One that NVTabular runs, before another that is compiled.
KEPT = (operator("udf.UDF", "merlin.dag.ops", f=None), operator("logop.LogOp"))
#: What ITEMS has beside its key.
CITY, GENRES = (
    SchemaColumn("city", "object", False, (None,)),
    SchemaColumn("genres", "object", True, (None, None)),
)
