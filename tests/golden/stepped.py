"""Graphs that need generated steps: name -> the form, and archive, graph and request of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ensemble_tools.serving.plan import Form
from tests.golden.archives import FOREST, PREDICTOR, Graph, Step, column
from tests.golden.cases import (
    AGE,
    BUY,
    CLICK,
    FLOATS,
    GENRES,
    INTS,
    ITEM,
    MORE,
    USER,
    Case,
    keeps_names,
    only_answered,
    predictor,
    workflow,
)

RAGGED = {
    "genres__values": np.array([5, 6, 7, 8, 9, 10], dtype="int64"),
    "genres__offsets": np.array([0, 2, 4, 6], dtype="int32"),
}
PAIRS = np.array([[5, 6], [7, 8], [9, 10]], dtype="int64")


@dataclass(frozen=True)
class Stepped:
    """A case, the form it is served in, its generated models, and words of the reasons."""

    case: Case
    form: Form
    generated: tuple[str, ...]
    reasons: tuple[str, ...]


def one_call(step: Step, **request: np.ndarray) -> Case:
    """A step on the request alone."""
    graph = Graph()
    graph.call(step, graph.select(*step.columns_in))
    return Case(graph.done(), (step,), step.columns_in, request)


def root_cast() -> Stepped:
    """Case 6: the request's data types are not the fitted ones; numbers overflow as numpy's do."""
    small = column("item", "int8")
    step = Step(
        "0_workflow",
        (USER, small, AGE),
        (CLICK,),
        {"click": "user + item.astype('int64') * 1000 + age"},
    )
    case = one_call(
        step,
        user=np.array([3, 1, 2], dtype="int32"),
        item=np.array([300, -129, 5], dtype="int64"),
        age=np.array([0.1, 1e300, np.nan], dtype="float64"),
    )
    inputs = (column("user", "int32"), ITEM, column("age", "float64"))
    return Stepped(
        replace(case, inputs=inputs),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("'user': the request gives INT32 where INT64", "'age': the request gives FP64 where FP32"),
    )


def not_a_number() -> Stepped:
    """NaN and infinities into integers: whatever numpy makes of them."""
    case = one_call(
        Step("0_workflow", (USER,), (CLICK,), {"click": "user % 1000"}),
        user=np.array([np.nan, np.inf, -1e30, 2.7], dtype="float64"),
    )
    return Stepped(
        replace(case, inputs=(column("user", "float64"),)),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("FP64 where INT64",),
    )


def cast_between_and_behind() -> Stepped:
    """A cast between two steps, and one of the answer: two levels, so two steps."""
    graph = Graph()
    score = column("score", "float64")
    prepare = Step("0_workflow", (USER,), (column("u", "int32"),), {"u": "user * 7"})
    predict = predictor("1_predict", (column("u"),), CLICK, "u / 3")
    graph.call(prepare, graph.select(USER))
    graph.call(predict, graph.nodes[-1])
    last = graph.nodes[-1]
    graph.nodes[-1] = replace(last, output=(replace(CLICK, dtype="float64"),))
    assert score.dtype == "float64"
    case = Case(graph.done(), (prepare, predict), (USER,), {"user": INTS})
    return Stepped(
        case,
        Form.STEPPED_ENSEMBLE,
        ("convert", "convert_2"),
        ("1_predict, column 'u': 0_workflow gives INT32", "the answer, column 'click'"),
    )


def one_step_is_enough() -> Stepped:
    """Casts of the request for the first and for the last call are carried out together."""
    graph = Graph()
    prepare = Step("0_workflow", (USER,), (column("u"),), {"u": "user * 7"})
    predict = predictor("1_predict", (column("u"), AGE), CLICK, "u / age")
    first = graph.call(prepare, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.select(AGE)))
    request = {"user": INTS.astype("int32"), "age": FLOATS.astype("float64")}
    inputs = (column("user", "int32"), column("age", "float64"))
    return Stepped(
        Case(graph.done(), (prepare, predict), inputs, request),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("0_workflow, column 'user'", "1_predict, column"),
    )


def ragged_to_dense() -> Stepped:
    """Case 4: a ragged workflow output into a predictor of fixed length."""
    graph = Graph()
    offsets = {"genres__values": "genres__values + 1", "genres__offsets": "genres__offsets"}
    prepare = Step("0_workflow", (GENRES,), (GENRES,), offsets)
    predict = Step(
        "1_predict",
        (column("genres"),),
        (CLICK,),
        {"click": "genres[:, 0] * genres[:, 1]"},
        PREDICTOR,
        {"genres": "-1, 2"},
    )
    graph.call(predict, graph.call(prepare, graph.select(GENRES)))
    return Stepped(
        Case(graph.done(), (prepare, predict), (GENRES,), RAGGED),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("1_predict, column 'genres': 0_workflow gives a ragged list where the dense",),
    )


def ragged_root_to_scalars() -> Stepped:
    """A ragged list of candidates into a model of one number a row: every element is a row."""
    case = one_call(predictor("0_predict", (column("genres"),), CLICK, "genres / 2"), **RAGGED)
    return Stepped(
        replace(case, inputs=(GENRES,)),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("0_predict, column 'genres': the request gives a ragged list",),
    )


def dense_to_ragged() -> Stepped:
    """Case 5: a dense list of the request into a workflow that was fitted on ragged ones."""
    step = Step(
        "0_workflow",
        (GENRES,),
        (CLICK,),
        {"click": "np.add.reduceat(genres__values, genres__offsets[:-1])"},
    )
    case = one_call(step, genres=PAIRS.astype("int32"))
    return Stepped(
        replace(case, inputs=(column("genres", "int32"),), shapes={"genres": "-1, 2"}),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("'genres': the request gives the dense shape",),
    )


def workflow_alone() -> Stepped:
    """Case 2: a workflow alone, whose answer has the request's names, is served itself."""
    return Stepped(
        one_call(workflow("0_workflow", (USER, ITEM), user="user * 10"), user=INTS, item=MORE),
        Form.STEP_ALONE,
        (),
        ("'user': it has the name of a column of the request",),
    )


def workflow_alone_with_casts() -> Stepped:
    """Case 2 and 6: the model in front casts as well, before and behind."""
    case = one_call(workflow("0_workflow", (USER,), user="user * 10"), user=INTS.astype("int32"))
    last = case.graph.output_node
    graph = replace(
        case.graph,
        nodes=(*case.graph.nodes[:-1], replace(last, output=(column("user", "float32"),))),
    )
    return Stepped(
        replace(case, graph=graph, inputs=(column("user", "int32"),)),
        Form.STEPPED_ENSEMBLE,
        ("ensemble",),
        ("it has the name", "INT32 where INT64"),
    )


def joined_to_the_answer() -> Stepped:
    """Case 2: a workflow's column, under its own name, beside the prediction."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER, ITEM), user="user * 10", item="item + 100")
    predict = predictor("1_predict", (USER, ITEM), CLICK, "user / item")
    prepared = graph.call(prepare, graph.select(USER, ITEM))
    graph.concat(graph.call(predict, prepared), graph.keep(prepared, "item"))
    request = {"user": INTS, "item": MORE}
    return Stepped(
        Case(graph.done(), (prepare, predict), (USER, ITEM), request),
        Form.STEPPED_ENSEMBLE,
        ("ensemble",),
        ("'item': it has the name",),
    )


def one_model_twice() -> Stepped:
    """Two operators on one model, one behind the other."""
    graph = Graph()
    step = workflow("0_workflow", (USER,), user="user * 10 + 1")
    graph.call(step, graph.call(step, graph.select(USER)))
    return Stepped(
        Case(graph.done(), (step,), (USER,), {"user": INTS}),
        Form.STEPPED_ENSEMBLE,
        ("ensemble",),
        ("'user': it has the name",),
    )


def unread_request() -> Stepped:
    """The executor wants a column in each request that no step reads."""
    case = keeps_names()
    request = {**case.request, "age": FLOATS}
    return Stepped(
        replace(case, inputs=(*case.inputs, AGE), request=request),
        Form.STEPPED_ENSEMBLE,
        ("ensemble",),
        ("'age': no step reads it",),
    )


def only_answers_request() -> Stepped:
    """A request column goes to the answer and to no step."""
    return Stepped(only_answered(), Form.STEPPED_ENSEMBLE, ("ensemble",), ("'user': no step",))


def selection_alone() -> Stepped:
    """A graph without any model."""
    graph = Graph()
    graph.keep(graph.select(USER, ITEM), "item")
    last = graph.nodes[-1]
    graph.nodes[-1] = replace(last, output=(column("item", "float32"),))
    return Stepped(
        Case(graph.done(), (), (USER, ITEM), {"user": INTS, "item": MORE}),
        Form.STEPPED_ENSEMBLE,
        (),
        ("'item': it has the name", "'user': no step reads it"),
    )


def forest() -> Stepped:
    """The forest operator stacks the columns that reach it, in their order, as FP32."""
    graph = Graph()
    u, i, a = column("u"), column("i", "int32"), column("a", "float64")
    prepare = Step(
        "0_workflow", (USER, ITEM, AGE), (i, u, a), {"u": "user * 7", "i": "item", "a": "age / 3"}
    )
    trees = Step(
        "1_filtriton",
        (column("input__0", "float32"),),
        (column("output__0", "float32"),),
        {"output__0": "input__0[:, 0] * 100 + input__0[:, 1] * 10 + input__0[:, 2]"},
        FOREST,
        {"input__0": "-1, 3"},
    )
    graph.call(trees, graph.call(prepare, graph.select(USER, ITEM, AGE)))
    request = {"user": INTS, "item": MORE, "age": FLOATS}
    return Stepped(
        Case(graph.done(), (prepare, trees), (USER, ITEM, AGE), request),
        Form.STEPPED_ENSEMBLE,
        ("forest",),
        ("1_filtriton: it takes one matrix",),
    )


def answers_of_two_levels() -> Stepped:
    """The answer joins columns of both depths, each cast."""
    graph = Graph()
    prepare = Step("0_workflow", (USER,), (column("u"),), {"u": "user * 7"})
    predict = predictor("1_predict", (column("u"),), BUY, "u / 3")
    first = graph.call(prepare, graph.select(USER))
    graph.concat(graph.call(predict, first), first)
    last = graph.nodes[-1]
    output = (column("buy", "float64"), column("u", "int32"))
    graph.nodes[-1] = replace(last, output=output)
    return Stepped(
        Case(graph.done(), (prepare, predict), (USER,), {"user": INTS}),
        Form.STEPPED_ENSEMBLE,
        ("convert",),
        ("column 'buy'", "column 'u'"),
    )


STEPPED: dict[str, Callable[[], Stepped]] = {
    made.__name__: made
    for made in (
        root_cast,
        not_a_number,
        cast_between_and_behind,
        one_step_is_enough,
        ragged_to_dense,
        ragged_root_to_scalars,
        dense_to_ragged,
        workflow_alone,
        workflow_alone_with_casts,
        joined_to_the_answer,
        one_model_twice,
        unread_request,
        only_answers_request,
        selection_alone,
        forest,
        answers_of_two_levels,
    )
}
