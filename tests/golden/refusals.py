"""Graphs that a pure ensemble cannot express, each with what its refusal must name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.golden.archives import PREDICTOR, Graph, Step, column
from tests.golden.cases import (
    AGE,
    CLICK,
    GENRES,
    ITEM,
    USER,
    Case,
    keeps_names,
    only_answered,
    predictor,
    workflow,
)

SYSTEMS = "merlin.systems.dag.ops"


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


def name_of_request() -> Refusal:
    """Case 2: a workflow alone, whose answer has the request's names."""
    return Refusal(
        one_step(workflow("0_workflow", (USER,), user="user * 10")),
        "the answer", ("user",), "the name of a request column", "rename the column",
    )  # fmt: skip


def ragged_to_dense() -> Refusal:
    """Case 4: a ragged workflow output into a predictor of fixed length."""
    first = workflow("0_workflow", (GENRES,))
    dense = column("genres")
    second = Step("1_predict", (dense,), (CLICK,), {}, PREDICTOR, {"genres": "-1, 4"})
    return Refusal(
        two_steps(first, second),
        "PredictPyTorchTriton", ("genres",), "gives a ragged list where one dense", "export it",
    )  # fmt: skip


def dense_to_ragged() -> Refusal:
    """Case 5: the request's dense list into a workflow that was fitted on ragged ones."""
    step = Step("0_workflow", (GENRES,), (CLICK,))
    case = one_step(step)
    return Refusal(
        Case(case.graph, case.steps, (column("genres"),)),
        "TransformWorkflowTriton", ("genres",), "the request gives one dense tensor", "export it",
    )  # fmt: skip


def other_type() -> Refusal:
    """Case 6: the request's data type is not the fitted one."""
    case = one_step(Step("0_workflow", (USER,), (CLICK,)))
    return Refusal(
        Case(case.graph, case.steps, (column("user", "int32"),)),
        "TransformWorkflowTriton", ("user",),
        "gives TYPE_INT32 where TYPE_INT64 is expected", "of one type",
    )  # fmt: skip


def cast_by_the_operator() -> Refusal:
    """Case 6: both configs agree, and the operator's schema would cast in between."""
    step = Step("0_predict", (AGE,), (CLICK,), {}, PREDICTOR, {}, {"age": "TYPE_FP64"})
    case = one_step(step)
    return Refusal(
        Case(case.graph, case.steps, (column("age", "float64"),)),
        "PredictPyTorchTriton", ("age",), "where TYPE_FP32 is expected", "of one type",
    )  # fmt: skip


def other_rank() -> Refusal:
    """A dense list of another rank."""
    step = Step("0_predict", (AGE,), (CLICK,), {}, PREDICTOR, {"age": "-1, 4"})
    return Refusal(
        one_step(step), "PredictPyTorchTriton", ("age",), "gives the shape [-1] where [-1, 4]",
        "export it again",
    )  # fmt: skip


def batched_workflow() -> Refusal:
    """Case 9: the workflow was exported with max_batch_size 64."""
    step = Step("0_workflow", (USER,), (CLICK,), extra="max_batch_size: 64")
    return Refusal(
        one_step(step), "TransformWorkflowTriton", (),
        "max_batch_size of 0_workflow is 64", "max_batch_size unset",
    )  # fmt: skip


def batched_throughout() -> Refusal:
    """Case 9: executor and workflow agree on a maximum batch size, and no request would fit."""
    step = Step("0_workflow", (USER,), (CLICK,), extra="max_batch_size: 64")
    case = one_step(step)
    return Refusal(
        Case(case.graph, case.steps, case.inputs, extra="max_batch_size: 64"),
        "the executor", (), "max_batch_size of executor_model is 64", "max_batch_size unset",
    )  # fmt: skip


def inline(class_name: str) -> Callable[[], Refusal]:
    def refusal() -> Refusal:
        graph = Graph()
        prepare = workflow("0_workflow", (USER, ITEM))
        graph.inline(class_name, graph.call(prepare, graph.select(USER, ITEM)), (CLICK,))
        return Refusal(
            Case(graph.done(), (prepare,), (USER, ITEM)),
            class_name.rpartition(".")[2], ("user", "item"), "runs Python inside", "move what it",
        )  # fmt: skip

    return refusal


def looping_subgraph() -> Refusal:
    """A Subgraph with loop_until."""
    inner, graph = Graph(), Graph()
    step = Step("0_workflow", (USER,), (CLICK,))
    inner.call(step, inner.select(USER))
    graph.subgraph(inner, graph.select(USER), loops=True)
    return Refusal(
        Case(graph.done(), (step,), (USER,)),
        "Subgraph", (), "repeats its graph until", "unroll the loop",
    )  # fmt: skip


def child_missing() -> Refusal:
    """The archive lacks a model that the graph calls."""
    case = keeps_names()
    return Refusal(
        Case(case.graph, case.steps[:1], case.inputs),
        "1_predict", (), "no directory of that name", "add 1_predict/ beside executor_model/",
    )  # fmt: skip


def one_model_twice() -> Refusal:
    """Two operators on one model."""
    graph = Graph()
    step = workflow("0_workflow", (USER,))
    graph.call(step, graph.call(step, graph.select(USER)))
    return Refusal(
        Case(graph.done(), (step,), (USER,)),
        "TransformWorkflowTriton", (), "'0_workflow' is called by two", "a model of its own",
    )  # fmt: skip


def unread_request() -> Refusal:
    """The executor wants a column in each request that no step reads: Triton will not load that."""
    case = keeps_names()
    return Refusal(
        Case(case.graph, case.steps, (*case.inputs, AGE)),
        "the request", ("age",), "uses it for nothing", "remove the column",
    )  # fmt: skip


def only_answers_request() -> Refusal:
    """A request column goes to the answer and to no step: Triton will not load that either."""
    return Refusal(
        only_answered(), "the request", ("user",), "answers it as it came", "remove the column"
    )


def not_in_request() -> Refusal:
    """The graph wants a column that the executor's config does not have."""
    case = keeps_names()
    return Refusal(
        Case(case.graph, case.steps, (USER,)),
        "SelectionOp", ("item",), "neither an earlier operator nor the request", "export the graph",
    )  # fmt: skip


def not_computed() -> Refusal:
    """The executor's config has an output that the graph does not have."""
    case = keeps_names()
    return Refusal(
        Case(case.graph, case.steps, case.inputs, extra='output { name: "new" dims: -1 '
             "data_type: TYPE_INT64 }"),
        "the answer", ("new",), "does not compute this", "export the graph",
    )  # fmt: skip


def dropped_and_gone() -> Refusal:
    """A column that `[]` dropped, and that the request does not have either."""
    graph = Graph()
    prepare = Step("0_workflow", (USER,), (column("u"), column("i")), {"u": "user", "i": "user"})
    predict = predictor("1_predict", (column("u"), column("i")), CLICK, "u / i")
    graph.call(predict, graph.keep(graph.call(prepare, graph.select(USER)), "u"))
    return Refusal(
        Case(graph.done(), (prepare, predict), (USER,)),
        "PredictPyTorchTriton", ("i",), "neither an earlier operator", "export the graph",
    )  # fmt: skip


def unfed_input() -> Refusal:
    """A child's config has an input that its operator does not feed."""
    extra = 'input { name: "more" data_type: TYPE_INT64 dims: -1 }'
    return Refusal(
        one_step(Step("0_workflow", (USER,), (CLICK,), extra=extra)),
        "TransformWorkflowTriton", ("more",), "does not feed", "export the graph",
    )  # fmt: skip


def no_such_input() -> Refusal:
    """A child's config lacks an input that its operator feeds."""
    graph = Graph()
    called = Step("0_workflow", (USER, ITEM), (CLICK,))
    graph.call(called, graph.select(USER, ITEM))
    written = Step("0_workflow", (USER,), (CLICK,))
    return Refusal(
        Case(graph.done(), (written,), (USER, ITEM)),
        "TransformWorkflowTriton", ("item",), "has no such input", "export the graph",
    )  # fmt: skip


REFUSALS: dict[str, Callable[[], Refusal]] = {
    made.__name__: made
    for made in (
        name_of_request, ragged_to_dense, dense_to_ragged, other_type, cast_by_the_operator,
        other_rank, batched_workflow, batched_throughout, looping_subgraph, child_missing,
        one_model_twice, unread_request, only_answers_request, not_in_request, not_computed,
        dropped_and_gone, unfed_input, no_such_input,
    )
} | {
    class_name: inline(class_name)
    for class_name in (
        f"{SYSTEMS}.session_filter.FilterCandidates",
        f"{SYSTEMS}.unroll_features.UnrollFeatures",
        f"{SYSTEMS}.softmax_sampling.SoftmaxSampling",
        f"{SYSTEMS}.faiss.QueryFaiss",
        f"{SYSTEMS}.feast.QueryFeast",
        "(pickled by value).MyOperator",
        "mine.SelectionOp",
        "merlin.dag.ops.udf.UDF",
    )
}  # fmt: skip
