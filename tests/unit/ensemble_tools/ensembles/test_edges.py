"""How each reader is fed: the answer, calls, forests, and what Merlin's own code feeds."""

from __future__ import annotations

import pytest

from ensemble_tools.archive.executor_graph import SchemaColumn
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.ensembles.conversions import ConversionKind, EnsembleTensor
from ensemble_tools.ensembles.edges import (
    InputPlan,
    find_whole_spec,
    list_columns,
    plan_inputs,
    shape_forest_output,
)
from ensemble_tools.ensembles.producers import ANSWER, REQUEST, FromCall
from ensemble_tools.errors import GraphNotServable
from tests.golden.archives import FOREST, PREDICTOR, Graph, Step, column
from tests.golden.cases import predictor, workflow
from tests.unit.ensemble_tools.ensembles.small_graphs import (
    AGE,
    CLICK,
    FILTER,
    GENRES,
    ITEM,
    PATH,
    USER,
    child_config,
    executor_config,
    wire_graph,
)

ANY = (-1,)


def planned(
    graph: Graph,
    request: tuple[SchemaColumn, ...],
    *steps: Step,
    answer: tuple[SchemaColumn, ...] = (CLICK,),
    backend: str = "python",
) -> dict[str, InputPlan]:
    configs = {step.name: child_config(step, backend) for step in steps}
    executor = executor_config(request, answer)
    return plan_inputs(wire_graph(graph, *request), executor, configs, PATH)


def forest(dims: str = "-1, 2", name: str = "input__0") -> Step:
    outputs = (column("output__0", "float32"),)
    return Step("1_f", (column(name, "float32"),), outputs, {}, FOREST, {name: dims})


def test_tensors_that_fit_come_unchanged() -> None:
    """3: a call's and the answer's tensors are those of whoever makes them."""
    prepare = workflow("0_w", (USER, GENRES))
    predict = predictor("1_p", (USER, GENRES), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.call(prepare, graph.select(USER, GENRES)))
    plans = planned(graph, (USER, GENRES), prepare, predict)
    assert [*plans] == ["0_w", "1_p", ANSWER]
    made = FromCall("0_w")
    assert plans["1_p"] == InputPlan(
        "1_p",
        {
            name: EnsembleTensor(made, name)
            for name in ("user", "genres__values", "genres__offsets")
        },
        (),
        False,
        (
            TensorSpec("user", "TYPE_INT64", ANY),
            TensorSpec("genres__values", "TYPE_INT64", ANY),
            TensorSpec("genres__offsets", "TYPE_INT32", ANY),
        ),
    )
    assert plans["0_w"].tensors["genres__offsets"] == EnsembleTensor(REQUEST, "genres__offsets")
    assert plans[ANSWER].tensors == {"click": EnsembleTensor(FromCall("1_p"), "click")}


def test_columns_that_do_not_fit_are_converted() -> None:
    """3: column by column, the others come unchanged."""
    predict = predictor("0_p", (USER, ITEM), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.select(USER, ITEM))
    plan = planned(graph, (column("user", "int32"), ITEM), predict)["0_p"]
    assert plan.tensors == {"item": EnsembleTensor(REQUEST, "item")}
    (conversion,) = plan.conversions
    assert (conversion.kind, conversion.columns) == (ConversionKind.CAST, ("user",))
    assert conversion.reads == (EnsembleTensor(REQUEST, "user"),)
    assert [spec.name for spec in plan.specs] == ["user", "item"]


def test_the_requests_shapes_are_checked_and_a_python_models_are_not() -> None:
    """Triton holds backends and the request to what they declare, and python models to nothing."""
    wide = Step("0_w", (USER,), (USER,), dims={"user": "-1, 3"})
    predict = predictor("1_p", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.call(wide, graph.select(USER)))
    with pytest.raises(GraphNotServable, match=r"the request gives the shape \[-1\]"):
        planned(graph, (USER,), wide, predict)
    narrow = Step("0_w", (USER,), (USER,))
    long = Step("1_p", (USER,), (CLICK,), {}, PREDICTOR, {"user": "-1, 3"})
    assert (
        planned(graph, (USER,), narrow, long)["1_p"].conversions[0].kind is ConversionKind.PASS_ON
    )
    with pytest.raises(GraphNotServable, match=r"0_w gives the shape \[-1\] where \[-1, 3\]"):
        planned(graph, (USER,), narrow, long, backend="tensorflow")


def test_an_optional_input_may_be_left_unfed() -> None:
    """Any other that the graph does not feed is one on which the executor fails."""
    predict = predictor("0_p", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.select(USER))
    for optional in ("true", "false"):
        more = f'input {{ name: "x" data_type: TYPE_INT64 dims: [ -1 ] optional: {optional} }}'
        step = Step("0_p", (USER,), (CLICK,), class_name=PREDICTOR, extra=more)
        if optional == "true":
            assert [spec.name for spec in planned(graph, (USER,), step)["0_p"].specs] == ["user"]
        else:
            with pytest.raises(GraphNotServable, match="an input that the graph does not feed"):
                planned(graph, (USER,), step)


def test_a_column_that_the_config_does_not_have() -> None:
    """The graph feeds what the model does not take."""
    graph = Graph()
    graph.call(predictor("0_p", (USER, ITEM), CLICK, "user"), graph.select(USER, ITEM))
    with pytest.raises(GraphNotServable, match="whose config has no such input") as refused:
        planned(graph, (USER, ITEM), predictor("0_p", (USER,), CLICK, "user"))
    assert refused.value.columns == ("item",)


def test_a_column_that_its_source_does_not_declare() -> None:
    """The graph says that a model gives what its config does not have."""
    predict = predictor("1_p", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.call(workflow("0_w", (USER,)), graph.select(USER)))
    with pytest.raises(GraphNotServable, match="0_w is said to give this column, and its config"):
        planned(graph, (USER,), Step("0_w", (USER,), (ITEM,)), predict)


def test_an_answer_that_is_not_computed() -> None:
    """What the executor's config declares, the graph must put out."""
    predict = predictor("0_p", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.select(USER))
    with pytest.raises(GraphNotServable, match="does not compute this declared output") as refused:
        planned(graph, (USER,), predict, answer=(CLICK, AGE))
    assert (refused.value.operator, refused.value.columns) == ("the answer", ("age",))


def test_behind_an_inline_operator_merlin_feeds() -> None:
    """1: all tensors that the graph feeds come from a step that runs Merlin's code."""
    prepare = workflow("0_w", (USER,))
    predict = predictor("1_p", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.inline(FILTER, graph.call(prepare, graph.select(USER))))
    plans = planned(graph, (USER,), prepare, predict)
    assert plans["1_p"] == InputPlan("1_p", {}, (), True, (TensorSpec("user", "TYPE_INT64", ANY),))
    assert [plan.merlin for plan in plans.values()] == [False, True, False]


def test_an_answer_that_merlin_makes() -> None:
    """1: with an inline operator at the end."""
    graph, prepare = Graph(), workflow("0_w", (USER,))
    graph.inline(FILTER, graph.call(prepare, graph.select(USER)), [CLICK])
    assert planned(graph, (USER,), prepare)[ANSWER] == InputPlan(
        ANSWER, {}, (), True, (TensorSpec("click", "TYPE_FP32", ANY),)
    )


def test_a_forest_is_fed_with_its_columns() -> None:
    """2: each as it comes, under its own name; the step that calls the forest stacks them."""
    prepare, trees = workflow("0_w", (USER, AGE)), forest()
    graph = Graph()
    graph.call(trees, graph.call(prepare, graph.select(USER, AGE)))
    plan = planned(graph, (USER, AGE), prepare, trees, answer=trees.columns_out)["1_f"]
    assert plan.tensors == {
        "user": EnsembleTensor(FromCall("0_w"), "user"),
        "age": EnsembleTensor(FromCall("0_w"), "age"),
    }
    assert plan.specs == (
        TensorSpec("user", "TYPE_INT64", ANY),
        TensorSpec("age", "TYPE_FP32", ANY),
    )
    assert (plan.conversions, plan.merlin) == ((), False)


@pytest.mark.parametrize(
    ("trees", "says"),
    [
        (forest("-1, 3"), "2 columns reach the forest, which was trained on 3"),
        (forest(name="matrix"), "does not declare this input alone, as TYPE_FP32"),
    ],
)
def test_a_forest_of_another_matrix(trees: Step, says: str) -> None:
    """2: it takes one matrix of as many columns as it was trained on."""
    prepare, graph = workflow("0_w", (USER, AGE)), Graph()
    graph.call(trees, graph.call(prepare, graph.select(USER, AGE)))
    with pytest.raises(GraphNotServable, match=says):
        planned(graph, (USER, AGE), prepare, trees, answer=trees.columns_out)


def test_a_forest_leaves_out_a_last_size_of_one() -> None:
    """Its backend answers [rows] where [rows, 1] is declared."""
    config = child_config(forest())
    shapes = {
        dims: shape_forest_output(config, TensorSpec("o", "TYPE_FP32", dims)).dims
        for dims in ((-1, 1), (-1, 2), (1,))
    }
    assert shapes == {(-1, 1): (-1,), (-1, 2): (-1, 2), (1,): (1,)}


def test_whole_shapes_have_the_batch_dimension() -> None:
    """A config with max_batch_size leaves it out."""
    config = child_config(Step("m", (USER,), (CLICK,), extra="max_batch_size: 8"))
    spec = config.inputs["user"]
    assert (spec.dims, find_whole_spec(config, spec).dims) == ((-1,), (-1, -1))


def test_columns_of_a_config() -> None:
    """Values and offsets together are one ragged column; one of them alone is a name."""
    odd = column("x__values")
    config = executor_config((USER, GENRES, odd), (CLICK, odd))
    assert list_columns(config.inputs) == ("user", "genres", "x__values")
    assert list_columns(config.outputs) == ("click", "x__values")
