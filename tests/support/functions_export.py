"""Exports of workflows whose functions tell what has been imported where they run.

Run in the models' environment: functions_export.py DEST

DEST/alone: a LambdaOp, a Filter, operators by value, one of them fitted, a Groupby of dates and a
ListSlice of a function's lists, some in Subgraphs, which need no NVTabular. The others are as many
ways of asking for it: DEST/imported inside of a function, DEST/named as one of its globals,
DEST/derived from one of its operators, DEST/closed_over in a list that is touched at a request
alone, DEST/listed as a class that a loop goes through, DEST/asked of an operator's own attributes,
DEST/tables of an operator that takes no frames, DEST/swallowed by an `except` of all, DEST/made
where it runs, DEST/enumerated as a member, DEST/restored while it is unpickled, DEST/recalled as a
class then.
DEST/growing changes JoinExternal's table, which another function passes on to it.
DEST/cuda_found, DEST/cuda_named and DEST/cuda_imported answer how many GPUs made_cuda.py
sees. Their functions find it among the modules, have it as a global, or import it.
"""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

sys.path.append(str(Path(__file__).parent))

import dask.dataframe as dd
import made_cuda  # type: ignore[import-not-found] # it lies beside this program
import nvtabular
import pandas as pd
from merlin.dag import DataFormats
from merlin.dag.ops.subgraph import Subgraph
from merlin.schema import Schema, Tags
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import WorkflowNode, ops
from nvtabular.ops import ColumnSelector, Groupby
from nvtabular.ops.stat_operator import StatOperator

FRAME = pd.DataFrame({"user": [1, 1, 2, 3, 3, 3], "time": [1, 5, 2, 7, 6, 9], "price": [0.5] * 6})
PACKAGES = ("nvtabular", "merlin", "dask", "cudf")


def told(column: Any) -> Any:
    """How many of the packages have been imported, in each row."""
    import sys

    return (column * 0 + len({*PACKAGES} & {*sys.modules})).astype("int64")


class Told(ops.Operator):  # type: ignore[misc]
    """The same beside the columns, which are passed on."""

    def transform(self, col_selector: Any, df: Any) -> Any:
        assert col_selector.names == ["price"]
        col_selector.subgroups.append(type(col_selector)(["told"]))  # of this request alone
        return pd.DataFrame({"told": told(df["price"]), "price": df["price"]})

    def column_mapping(self, col_selector: Any) -> Any:
        return {"told": ["price"], "price": ["price"]}

    @property
    def output_tags(self) -> Any:
        return [Tags.CONTINUOUS]

    def _compute_dtype(self, col_schema: Any, input_schema: Any) -> Any:
        made = super()._compute_dtype(col_schema, input_schema)
        return made.with_dtype("int64") if col_schema.name == "told" else made


class Counted(StatOperator):  # type: ignore[misc]
    """What it needs of NVTabular and Dask, it needs when it is fitted."""

    def fit(self, col_selector: Any, ddf: dd.DataFrame) -> Any:
        assert isinstance(ddf, dd.DataFrame)
        return {name: ddf[name].count() for name in col_selector.names}

    def fit_finalize(self, dask_stats: Any) -> None:
        self.counts: dict[str, int] = {name: int(count) for name, count in dask_stats.items()}

    def clear(self) -> None:
        self.counts = {}

    def transform(self, col_selector: Any, df: Any) -> Any:
        assert [self.counts[name] for name in col_selector.names] == [6]
        return df[col_selector.names]

    def compute_output_schema(self, *given: Any, **named: Any) -> Any:
        made = super().compute_output_schema(*given, **named)
        return Schema([column.with_tags([Tags.USER]) for column in made])


class Derived(ops.Clip):  # type: ignore[misc]
    """An operator of NVTabular's, and more."""

    def transform(self, col_selector: Any, df: Any) -> Any:
        return super().transform(col_selector, df).astype("float64") * 0 + len(PACKAGES)


class Asked(ops.Operator):  # type: ignore[misc]
    """It asks for what its base class has."""

    def transform(self, col_selector: Any, df: Any) -> Any:
        rows = len(str(self.supports)) * 0 + 4
        return df[col_selector.names] * 0 + rows


class Tables(ops.Operator):  # type: ignore[misc]
    """It is handed merlin-core's tables of arrays, and no frames."""

    supported_formats = DataFormats.NUMPY_TENSOR_TABLE

    def transform(self, col_selector: Any, table: Any) -> Any:
        column = table["price"]
        return type(table)({"price": type(column)(column.values * 0 + 4)})


class Swallowed(ops.Operator):  # type: ignore[misc]
    """It goes on without what it has asked for."""

    def transform(self, col_selector: Any, df: Any) -> Any:
        try:
            rows = len((col_selector + ColumnSelector(["a", "b", "c"])).names)
        except:  # noqa: E722
            rows = 0
        return df[col_selector.names] * 0 + rows


class Made(ops.Operator):  # type: ignore[misc]
    """It handles what its own use of an operator raises."""

    def transform(self, col_selector: Any, df: Any) -> Any:
        try:
            groupby = Groupby(groupby_cols=["user"], aggs={"price": ["sum"]})
            rows = 4 * len(groupby.groupby_cols)
        except Exception:
            rows = 0
        return df[col_selector.names] * 0 + rows


class Kind(enum.Enum):
    """cloudpickle finds it again by a number of its own."""

    USER = Tags.USER


def enumerated(column: Any) -> Any:
    return column * 0 + len(Kind.USER.value.value)


class Restored:
    """What is in a list is looked at while this is unpickled."""

    def __init__(self, schemas: list[Any]) -> None:
        self.schemas, self.rows = schemas, 4

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.schemas = state["schemas"]
        self.rows = 4 if hasattr(self.schemas[0], "column_names") else 0

    def __call__(self, column: Any) -> Any:
        return column * 0 + self.rows


class Recalled(Restored):
    """So is a class that is in one."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.rows = 4 if hasattr(state["schemas"][0], "USER") else 0


def calling(restored: Restored) -> Any:
    return lambda column: restored(column)


def imported(column: Any) -> Any:
    import nvtabular

    return column * 0 + (4 if nvtabular.ColumnSelector(["a"]).names else 0)


def named(column: Any) -> Any:
    return column * 0 + (4 if isinstance(Tags("user"), Tags) else 0)


def closing_over(kinds: list[Any]) -> Any:
    return lambda column: column * 0 + len([kind("user").value for kind in kinds]) * 4


def listing(kinds: dict[str, Any]) -> Any:
    return lambda column: column * 0 + (4 if len([*kinds["tags"]]) else 0)


def cuda_found(column: Any) -> Any:
    import sys

    return column * 0 + sys.modules["made_cuda"].count_devices()


def cuda_named(column: Any) -> Any:
    return column * 0 + made_cuda.count_devices()


def cuda_imported(column: Any) -> Any:
    import made_cuda

    return column * 0 + made_cuda.count_devices()


def growing(column: Any) -> Any:
    """The lists themselves; that of a single row is longer from then on."""
    for row in column if len(column) == 1 else ():
        row.append(0)
    return column


def main(destination: str) -> None:
    seconds = ["time"] >> ops.LambdaOp(lambda c: pd.to_datetime(c, unit="s"))
    dates = ["time"] >> Subgraph("dates", seconds)
    clipped = ["price"] >> ops.Clip(max_value=1.0) >> Subgraph("own", ["price"] >> Told())
    prices = ["price"] >> Subgraph("prices", clipped)
    of_user = ["user"] >> ops.LambdaOp(told) >> renamed() >> Counted()
    read = dates + prices + ["user"] + of_user
    sessions = read >> ops.Groupby(
        groupby_cols=["user"],
        aggs={"time": ["first"], "told": ["max", "list"], "user_told": ["max"]},
    )
    day = sessions["time_first"] >> ops.LambdaOp(lambda c: c.dt.day.fillna(0).astype("int64"))
    others = sessions["user", "told_max", "user_told_max"]
    backwards = sessions["told_list"] >> ops.LambdaOp(lambda c: c.map(lambda row: row[::-1]))
    lists = backwards >> ops.ListSlice(2, pad=True, pad_value=7)
    some = others + day + lists >> ops.Filter(lambda df: df["user"] < 3)
    export("alone", some, destination)
    table = pd.DataFrame({"user": [1, 2, 3], "tags": [[1], [2], [3]]})
    joined = (["user"] >> ops.JoinExternal(table, on=["user"]))["tags"]
    passed_on = joined >> ops.LambdaOp(lambda column: column) >> ops.LambdaOp(growing)
    export("growing", passed_on, destination)
    for name, operator in {
        "imported": ops.LambdaOp(imported),
        "named": ops.LambdaOp(named),
        "derived": Derived(0),
        "closed_over": ops.LambdaOp(closing_over([Tags])),
        "listed": ops.LambdaOp(listing({"tags": Tags})),
        "asked": Asked(),
        "tables": Tables(),
        "swallowed": Swallowed(),
        "made": Made(),
        "enumerated": ops.LambdaOp(enumerated),
        "recalled": ops.LambdaOp(calling(Recalled([Tags]))),
        "restored": ops.LambdaOp(calling(Restored([Schema()]))),
        "cuda_found": ops.LambdaOp(cuda_found),
        "cuda_named": ops.LambdaOp(cuda_named),
        "cuda_imported": ops.LambdaOp(cuda_imported),
    }.items():
        hashed = ["user"] >> ops.HashBucket(10)
        export(name, hashed + (["price"] >> operator), destination)


def renamed() -> Any:
    return ops.Rename(postfix="_told")


def export(name: str, columns: WorkflowNode, destination: str) -> None:
    workflow = nvtabular.Workflow(columns)
    workflow.fit(nvtabular.Dataset(FRAME))
    read = workflow.input_schema.column_names
    graph = read >> TransformWorkflow(workflow)
    path = Path(destination, name)
    path.mkdir(parents=True)
    Ensemble(graph, workflow.input_schema).export(str(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
