"""Requests without rows: which workflows answer them, as NVTabular does, and why others do not.

tests/workflows holds all of it against NVTabular itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ensemble_tools.archive.executor_graph import ExecutorGraph, SchemaColumn
from ensemble_tools.workflows.compiler import compile_workflow
from tests.support.fitted_operators import (
    AGE,
    CATEGORIES,
    EXAMPLES,
    INPUTS,
    KEPT,
    TAGS,
    Example,
    compiled,
    graph,
    operator,
)

LOG = operator("logop.LogOp")


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_operators(example: Example) -> None:
    """Categorify fails on a frame without rows, the others do not; nothing makes lists of none."""
    program = example.compiled()
    names = {*program.operators} | {step.operator for step in program.steps}
    refused = "Categorify" in names or any(output.ragged for output in program.outputs)
    assert bool(program.refuses_no_rows) is refused


def test_operators_one_after_the_other() -> None:
    assert compiled(LOG, LOG).refuses_no_rows == ""


def test_categorify() -> None:
    program = compiled(operator("categorify.Categorify", **CATEGORIES))
    assert program.refuses_no_rows == "Categorify of 'age' needs one at least"


def test_lists() -> None:
    assert compiled(column=TAGS).refuses_no_rows == "the lists of 'tags' need one at least"


def test_columns_that_the_request_has_not() -> None:
    """What an operator makes is not kept without rows: the next one looks into the request."""
    renamed, made = operator("rename.Rename", f=None, postfix="_x", name=None), "age_x"
    age_x = SchemaColumn(made, "float64", False, (None,))
    start, rename, log = graph(AGE, renamed, LOG).nodes
    rename = replace(rename, output=(age_x,))
    log = replace(log, selection=(made,), inputs=(made,), groups=(made,), output=(age_x,))
    program = compile_workflow(ExecutorGraph((start, rename, log)), INPUTS, Path("/none"))
    assert program.refuses_no_rows == "LogOp reads 'age_x', which is no column of it"


def test_functions() -> None:
    """What certainly fails behind one is refused without NVTabular; the rest is NVTabular's."""
    assert compiled(*KEPT).refuses_no_rows == ""
    categorify = operator("categorify.Categorify", **CATEGORIES)
    program = compiled(KEPT[0], categorify)
    assert program.refuses_no_rows == "Categorify of 'age' needs one at least"
