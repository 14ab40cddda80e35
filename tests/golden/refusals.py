"""Graphs that Merlin's own executor fails on, each with what its refusal must name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.golden.archives import FOREST, PREDICTOR, Graph, Step, column
from tests.golden.cases import (
    AGE,
    CLICK,
    GENRES,
    ITEM,
    USER,
    Case,
    keeps_names,
    predictor,
    workflow,
)


@dataclass(frozen=True)
class Refusal:
    """A case, and what the message says: operator, columns, words of the reason, of the remedy."""

    case: Case
    operator: str
    columns: tuple[str, ...]
    reason: str
    remedy: str


def one_step(step: Step, *inputs: str) -> Case:
    """A step on the request alone, whose answer is its output."""
    graph = Graph()
    columns = step.columns_in
    graph.call(step, graph.select(*columns))
    return Case(graph.done(), (step,), columns)


def two_steps(first: Step, second: Step) -> Case:
    graph = Graph()
    graph.call(second, graph.call(first, graph.select(*first.columns_in)))
    return Case(graph.done(), (first, second), first.columns_in)


def dense_to_ragged() -> Refusal:
    """The request's single numbers into a workflow that was fitted on ragged lists."""
    step = Step("0_workflow", (GENRES,), (CLICK,))
    case = one_step(step)
    return Refusal(
        Case(case.graph, case.steps, (column("genres"),)),
        "TransformWorkflowTriton",
        ("genres",),
        "the request gives the shape [-1]",
        "export it",
    )


def cast_by_the_operator() -> Refusal:
    """The operator's schema casts to another type than the model's config takes."""
    step = Step("0_predict", (AGE,), (CLICK,), {}, PREDICTOR, {}, {"age": "TYPE_FP64"})
    case = one_step(step)
    return Refusal(
        Case(case.graph, case.steps, (column("age", "float64"),)),
        "PredictPyTorchTriton",
        ("age",),
        "the operator sends TYPE_FP32",
        "export the",
    )


def other_rank() -> Refusal:
    """A dense list of another rank."""
    step = Step("0_predict", (AGE,), (CLICK,), {}, PREDICTOR, {"age": "-1, 4"})
    return Refusal(
        one_step(step),
        "PredictPyTorchTriton",
        ("age",),
        "gives the shape [-1] where [-1, 4]",
        "export it again",
    )


def batched_workflow() -> Refusal:
    """Case 9: the workflow was exported with max_batch_size 64."""
    step = Step("0_workflow", (USER,), (CLICK,), extra="max_batch_size: 64")
    return Refusal(
        one_step(step),
        "TransformWorkflowTriton",
        (),
        "max_batch_size of 0_workflow is 64",
        "max_batch_size unset",
    )


def batched_throughout() -> Refusal:
    """Case 9: executor and workflow agree on a maximum batch size, and no request would fit."""
    step = Step("0_workflow", (USER,), (CLICK,), extra="max_batch_size: 64")
    case = one_step(step)
    return Refusal(
        Case(case.graph, case.steps, case.inputs, extra="max_batch_size: 64"),
        "the executor",
        (),
        "max_batch_size of executor_model is 64",
        "max_batch_size unset",
    )


def child_missing() -> Refusal:
    """The archive lacks a model that the graph calls."""
    case = keeps_names()
    return Refusal(
        Case(case.graph, case.steps[:1], case.inputs),
        "1_predict",
        (),
        "no directory of that name",
        "add 1_predict/ beside executor_model/",
    )


def not_in_request() -> Refusal:
    """The graph wants a column that the executor's config does not have."""
    case = keeps_names()
    return Refusal(
        Case(case.graph, case.steps, (USER,)),
        "SelectionOp",
        ("item",),
        "neither an earlier operator nor the request",
        "export the graph",
    )


def not_computed() -> Refusal:
    """The executor's config has an output that the graph does not have."""
    case = keeps_names()
    return Refusal(
        Case(
            case.graph,
            case.steps,
            case.inputs,
            extra='output { name: "new" dims: -1 data_type: TYPE_INT64 }',
        ),
        "the answer",
        ("new",),
        "does not compute this",
        "export the graph",
    )


def dropped_and_gone() -> Refusal:
    """A column that `[]` dropped, and that the request does not have either."""
    graph = Graph()
    prepare = Step("0_workflow", (USER,), (column("u"), column("i")), {"u": "user", "i": "user"})
    predict = predictor("1_predict", (column("u"), column("i")), CLICK, "u / i")
    graph.call(predict, graph.keep(graph.call(prepare, graph.select(USER)), "u"))
    return Refusal(
        Case(graph.done(), (prepare, predict), (USER,)),
        "PredictPyTorchTriton",
        ("i",),
        "neither an earlier operator",
        "export the graph",
    )


def unfed_input() -> Refusal:
    """A child's config has an input that its operator does not feed."""
    extra = 'input { name: "more" data_type: TYPE_INT64 dims: -1 }'
    return Refusal(
        one_step(Step("0_workflow", (USER,), (CLICK,), extra=extra)),
        "TransformWorkflowTriton",
        ("more",),
        "does not feed",
        "export the graph",
    )


def no_such_input() -> Refusal:
    """A child's config lacks an input that its operator feeds."""
    graph = Graph()
    called = Step("0_workflow", (USER, ITEM), (CLICK,))
    graph.call(called, graph.select(USER, ITEM))
    written = Step("0_workflow", (USER,), (CLICK,))
    return Refusal(
        Case(graph.done(), (written,), (USER, ITEM)),
        "TransformWorkflowTriton",
        ("item",),
        "has no such input",
        "export the graph",
    )


def narrow_forest() -> Refusal:
    """More columns reach the forest than it was trained on."""
    trees = Step(
        "1_filtriton",
        (column("input__0", "float32"),),
        (column("output__0", "float32"),),
        {},
        FOREST,
        {"input__0": "-1, 1"},
    )
    return Refusal(
        two_steps(workflow("0_workflow", (USER, ITEM)), trees),
        "PredictForestTriton",
        ("user", "item"),
        "2 columns reach the forest, which was trained on",
        "select the forest's columns",
    )


REFUSALS: dict[str, Callable[[], Refusal]] = {
    made.__name__: made
    for made in (
        dense_to_ragged,
        cast_by_the_operator,
        other_rank,
        batched_workflow,
        batched_throughout,
        child_missing,
        not_in_request,
        not_computed,
        dropped_and_gone,
        unfed_input,
        no_such_input,
        narrow_forest,
    )
}
