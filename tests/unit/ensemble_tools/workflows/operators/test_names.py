"""Columns with the names that NVTabular, merlin-core and merlin-systems use while they work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node, Operator, SchemaColumn
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.workflows.compiler import compile_workflow
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.program import Program, program_text
from ensemble_tools.workflows.runtime.program import LoadedProgram
from tests.support.fitted_operators import CATEGORIES, EXAMPLES, operator, root, why_not_compiled

NAN = float("nan")


def program(
    applied: Operator, groups: tuple[str | tuple[str, ...], ...], outputs: dict[str, str]
) -> Program:
    """An operator on columns of the request, all of them float64. outputs: names and types."""
    names = tuple(
        name for group in groups for name in (group if isinstance(group, tuple) else (group,))
    )
    columns = [SchemaColumn(name, "float64", False, (None,)) for name in names]
    answered = tuple(SchemaColumn(name, dtype, False, (None,)) for name, dtype in outputs.items())
    node = Node(1, applied, (0,), names, names, (), answered, groups)
    inputs = {name: TensorSpec(name, "TYPE_FP64", (-1,)) for name in names}
    return compile_workflow(ExecutorGraph((root(*columns), node)), inputs, Path("/none"))


def changed(class_name: str, **state: Any) -> Operator:
    """The example of a class with other parameters."""
    example = EXAMPLES[f"nvtabular.ops.{class_name}"].operator
    return operator(class_name, **{**example.state, **state})


def categorify(*stored: str, **state: Any) -> Operator:
    files = {name: f"/exported/categories/unique.{name}.parquet" for name in stored}
    return operator("categorify.Categorify", **{**CATEGORIES, "categories": files, **state})


def target_encoding(group: str, target: str = "clicked", **state: Any) -> Operator:
    files = {name: f"/exported/categories/{name}.parquet" for name in (group, f"__fold___{group}")}
    means = {"target": _Selected(target), "means": {target: 0.5}, "stats": files}
    return changed("target_encoding.TargetEncoding", **{**means, "drop_folds": True, **state})


class _Selected:
    """A node of merlin-core that puts out one column."""

    def __init__(self, name: str) -> None:
        self.output_schema = _Schema(name)


class _Schema:
    def __init__(self, name: str) -> None:
        self.column_schemas = {name: None}


def join_groupby(group: str) -> Operator:
    return changed(
        "join_groupby.JoinGroupby", categories={group: f"/exported/categories/{group}.parquet"}
    )


def groupby(key: str, column: str, *aggregations: str) -> Operator:
    return changed(
        "groupby.Groupby",
        groupby_cols=[key],
        sort_cols=[],
        list_aggs={column: list(aggregations)},
        conv_aggs={},
    )


@pytest.mark.parametrize(
    ("applied", "groups", "named"),
    [
        (categorify("order"), ("order",), "order"),
        (categorify("labels"), ("labels",), "labels"),
        (categorify("age", "order"), ("age", "order"), "order"),
        (
            categorify("order_b", encode_type="combo"),
            (("order", "b"),),
            "order",
        ),
        (
            categorify("a_b", storage_name={"a": "a_b", "labels": "labels"}),
            ("a", "labels"),
            "labels",
        ),
        (
            categorify("order", storage_name={"or": "order", "der": "order"}, name_sep=""),
            (("or", "der"),),
            "order",
        ),
        (join_groupby("__tmp__"), ("__tmp__",), "__tmp__"),
        (target_encoding("__tmp__"), ("__tmp__",), "__tmp__"),
        (target_encoding("__fold__"), ("__fold__",), "__fold__"),
        (target_encoding("count_y"), ("count_y",), "count_y"),
        (target_encoding("count_y_all", kfold=1), ("count_y_all",), "count_y_all"),
        (target_encoding("clicked_sum_y"), ("clicked_sum_y",), "clicked_sum_y"),
        (target_encoding("a", out_col=["a"]), ("a",), "a"),
        (target_encoding("a", out_col=["count_y_all"]), ("a",), "count_y_all"),
        (target_encoding("a", out_col=["__tmp__"]), ("a",), "__tmp__"),
        (groupby("x_list", "x", "first"), ("x_list", "x"), "x_list"),
    ],
)
def test_an_operators_own_columns(
    applied: Operator, groups: tuple[str | tuple[str, ...], ...], named: str
) -> None:
    """NVTabular's own code runs the operator, and the reason has operator and column."""
    reason = f"{applied.label} of '{named}': NVTabular uses the name for a column of its own"
    assert why_not_compiled(lambda: program(applied, groups, {})) == reason


@pytest.mark.parametrize(
    ("applied", "name"),
    [
        (changed("normalize.Normalize", means={"order": 1.0}, stds={"order": 1.0}), "order"),
        (operator("logop.LogOp"), "labels"),
        (changed("fill.FillMissing"), "__tmp__"),
        (categorify("index"), "index"),
        (categorify("__tmp__"), "__tmp__"),
        (join_groupby("order"), "order"),
        (target_encoding("__fold__", kfold=1), "__fold__"),
        (target_encoding("order"), "order"),
    ],
)
def test_other_operators_do_not_mind(applied: Operator, name: str) -> None:
    """A name is one operator's own: the others are compiled as for any other column."""
    assert program(applied, (name,), {}).steps


@pytest.mark.parametrize("name", ["x__values", "x__offsets"])
def test_parts_of_lists(name: str) -> None:
    """merlin-core joins them to lists, or drops them, in a request as in an answer."""
    reason = f"^'{name}': merlin-core reads such a name as a part of a list column$"
    with pytest.raises(NotCompiled, match=reason):
        program(operator("logop.LogOp"), (name,), {name: "float32"})
    renamed = operator("rename.Rename", f=None, postfix=None, name=name)
    with pytest.raises(NotCompiled, match=reason):
        program(renamed, ("x",), {name: "float64"})


def test_two_outputs_of_one_name() -> None:
    """NVTabular's frame would have both."""
    files = {name: f"/exported/{name}.parquet" for name in ("a", "a_b")}
    encoding = target_encoding("a", kfold=1, stats=files, out_col=["made", "made"])
    with pytest.raises(NotCompiled, match="it gives two columns one name"):
        program(encoding, ("a", "a_b"), {})


@pytest.mark.parametrize("class_name", ["fill.FillMissing", "fill.FillMedian"])
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (
            ("x", "x_filled"),
            {"x_filled": [False, True], "x_filled_filled": [False, False]},
        ),
        (
            ("x_filled", "x"),
            {"x_filled": [False, True], "x_filled_filled": [True, False]},
        ),
    ],
)
def test_a_flag_is_filled_next(
    class_name: str, order: tuple[str, ...], expected: dict[str, list[bool]], tmp_path: Path
) -> None:
    """As NVTabular answered: it writes flags into the frame that it walks over."""
    fill = changed(
        class_name, add_binary_cols=True, fill_val=0, medians={"x": 2.0, "x_filled": 3.0}
    )
    compiled = program(fill, order, dict.fromkeys(expected, "bool"))
    (tmp_path / "program.json").write_text(program_text(compiled, []))
    request = {"x": np.array([1.5, NAN]), "x_filled": np.array([NAN, 2.5])}
    answer = LoadedProgram(tmp_path).run(request)
    assert {name: array.tolist() for name, array in answer.items()} == expected
