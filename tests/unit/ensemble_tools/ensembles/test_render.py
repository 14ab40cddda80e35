"""Configs and sources, by value."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.ensembles.ordering import order_steps
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.reads import find_reads
from ensemble_tools.ensembles.render import EnsembleForm, GeneratedModel, render_models
from tests.golden.archives import FOREST, Graph, Step, column
from tests.golden.cases import predictor, workflow
from tests.unit.ensemble_tools.ensembles.small_graphs import (
    CLICK,
    ITEM,
    USER,
    behind_an_operator,
    casting,
    gather,
    in_a_row,
    keeping_a_name,
    side_by_side,
)


def rendered(parts: Parts) -> EnsembleForm:
    reads = find_reads(parts)
    return render_models(parts, reads, order_steps(parts, reads), "m.{}".format)


def by_name(parts: Parts) -> dict[str | None, GeneratedModel]:
    return {model.name: model for model in rendered(parts).models}


def message(text: str) -> pb.ModelConfig:
    return text_format.Parse(text, pb.ModelConfig())


def literals(model: GeneratedModel) -> dict[str, Any]:
    """What stands at the end of a generated source: names and their values."""
    assert model.source is not None
    filled = ast.parse(model.source.rpartition("# --- what this model does")[2])
    found = {}
    for statement in filled.body:
        assert isinstance(statement, ast.Assign)
        (target,) = statement.targets
        found[ast.unparse(target)] = ast.literal_eval(statement.value)
    return found


def test_a_pure_ensemble() -> None:
    """The executor's own inputs and outputs, and a step for each call."""
    assert rendered(in_a_row()) == EnsembleForm(
        (
            GeneratedModel(
                None,
                message("""
                    platform: "ensemble"
                    input { name: "user" data_type: TYPE_INT64 dims: [ -1 ] }
                    output { name: "click" data_type: TYPE_FP32 dims: [ -1 ] }
                    ensemble_scheduling {
                      step {
                        model_name: "m.0_workflow" model_version: -1
                        input_map { key: "user" value: "user" }
                        output_map { key: "u" value: "u.0_workflow" }
                      }
                      step {
                        model_name: "m.1_predict" model_version: -1
                        input_map { key: "u" value: "u.0_workflow" }
                        output_map { key: "click" value: "click" }
                      }
                    }
                """),
            ),
        ),
    )


def test_a_child_that_waits_has_an_input_more() -> None:
    """In its config and in its step; it has the type and shape of what it waits for."""
    models = rendered(side_by_side())
    assert models.waits == {
        "1_items": pb.ModelInput(name="after", data_type=pb.TYPE_INT64, dims=[-1])
    }
    step = models.models[-1].config.ensemble_scheduling.step[1]
    assert dict(step.input_map) == {"item": "item", "after": "user.0_users"}


def test_the_input_more_has_a_name_that_is_free() -> None:
    """A child may have an input of that name."""
    after = column("after")
    users, items = workflow("0_users", (USER,)), workflow("1_items", (after,))
    predict = predictor("2_p", (USER, after), CLICK, "user")
    graph = Graph()
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(after))))
    waits = rendered(gather(graph, [USER, after], users, items, predict)).waits
    assert [added.name for added in waits.values()] == ["after."]


def test_a_step_that_converts() -> None:
    """It knows its tensors by their names in the ensemble; its source says what it does."""
    models = by_name(casting())
    assert [*models] == ["convert", None]
    assert models["convert"].config == message("""
        backend: "python"
        input { name: "user" data_type: TYPE_INT32 dims: [ -1 ] }
        output { name: "user.to.0_predict" data_type: TYPE_INT64 dims: [ -1 ] }
        instance_group { kind: KIND_CPU }
    """)
    assert literals(models["convert"]) == {
        "CONVERSIONS": [
            {
                "kind": "cast",
                "columns": ["user"],
                "reads": ["user"],
                "writes": ["user.to.0_predict"],
                "dtype": "int64",
                "shape": [-1],
                "why": "the request gives INT32 where INT64 is expected",
            }
        ]
    }
    step = models[None].config.ensemble_scheduling.step[-1]
    assert step.model_name == "m.convert"
    assert dict(step.input_map) == {"user": "user"}
    assert dict(step.output_map) == {"user.to.0_predict": "user.to.0_predict"}


def test_a_step_with_merlin() -> None:
    """It is told what calls answered, and which reader of the graph to feed; the graph lies by."""
    models = by_name(behind_an_operator())
    assert [*models] == ["operators", None]
    assert models["operators"].with_graph
    assert [tensor.name for tensor in models["operators"].config.input] == [
        "user",
        "user.0_workflow",
    ]
    assert literals(models["operators"]) == {
        "CALLS": {"0_workflow": {"user": "user.0_workflow"}},
        "READERS": {"1_predict": ((3,), {"user": "user.to.1_predict"})},
    }


def test_generated_models_have_what_the_executor_has() -> None:
    """As many instances; a step with Merlin also the executor's parameters."""
    prepare, predict = workflow("0_w", (USER,)), predictor("1_p", (USER,), CLICK, "user")
    graph = Graph()
    prepared = graph.call(prepare, graph.select(USER))
    operator = "merlin.systems.dag.ops.session_filter.FilterCandidates"
    graph.call(predict, graph.inline(operator, prepared))
    extra = (
        "instance_group { count: 3 kind: KIND_GPU }\n"
        'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "env.tar.gz" } }\n'
    )
    model = by_name(gather(graph, [USER], prepare, predict, extra=extra))["operators"]
    assert [(group.count, group.kind) for group in model.config.instance_group] == [
        (3, pb.ModelInstanceGroup.KIND_CPU)
    ]
    assert model.config.parameters["EXECUTION_ENV_PATH"].string_value == "env.tar.gz"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("instance_group { }", (pb.ModelInstanceGroup.KIND_CPU, [])),
        ("instance_group { kind: KIND_AUTO }", (pb.ModelInstanceGroup.KIND_CPU, [])),
        ("instance_group { kind: KIND_GPU }", (pb.ModelInstanceGroup.KIND_GPU, [])),
        (
            "instance_group { kind: KIND_GPU gpus: [ 1, 0 ] } instance_group { kind: KIND_CPU }",
            (pb.ModelInstanceGroup.KIND_GPU, [1, 0]),
        ),
    ],
)
def test_a_search_is_on_a_gpu_that_is_asked_for(groups: str, expected: object) -> None:
    """By the executor's own config alone: one that names no kind leaves GPUs to the predictors."""
    graph, query = Graph(), column("query", "float32")
    state = {"index_path": "/there/items.faiss", "topk": 3}
    operator = "merlin.systems.dag.ops.faiss.QueryFaiss"
    found = [column("candidate_ids", "int32")]
    graph.operator(operator, state, found, graph.select(query))
    parts = gather(graph, [query], shapes={"query": "-1, 8"}, extra=groups)
    config = by_name(parts)["search"].config
    (group,) = config.instance_group
    assert (group.kind, [*group.gpus]) == expected


def trees(name: str = "1_f") -> Step:
    outputs, shapes = (column("output__0", "float32"),), {"input__0": "-1, 2", "output__0": "-1, 1"}
    return Step(name, (column("input__0", "float32"),), outputs, {}, FOREST, shapes)


def test_a_forest_is_called_by_a_step() -> None:
    """The step takes the columns; the forest itself is loaded for it."""
    prepare, graph = workflow("0_w", (USER, ITEM)), Graph()
    graph.call(trees(), graph.call(prepare, graph.select(USER, ITEM)))
    models = rendered(gather(graph, [USER, ITEM], prepare, trees()))
    assert models.called == ("1_f",)
    forest, ensemble = models.models
    assert forest.name == "forest"
    assert forest.config == message("""
        backend: "python"
        input { name: "user" data_type: TYPE_INT64 dims: [ -1 ] }
        input { name: "item" data_type: TYPE_INT64 dims: [ -1 ] }
        output { name: "output__0" data_type: TYPE_FP32 dims: [ -1 ] }
        instance_group { kind: KIND_CPU }
    """)
    assert literals(forest) == {
        "MODEL": "m.1_f",
        "COLUMNS": ["user", "item"],
        "OUTPUTS": ["output__0"],
    }
    assert ensemble.config.ensemble_scheduling.step[1].model_name == "m.forest"
    assert [list(output.dims) for output in ensemble.config.output] == [[-1]]


def test_names_of_generated_models_are_free() -> None:
    """Models of the archive may be called as generated ones would be."""
    prepare, graph = workflow("ensemble", (USER, ITEM)), Graph()
    prepared = graph.call(prepare, graph.select(USER, ITEM))
    graph.concat(graph.call(trees("forest"), prepared), graph.keep(prepared, "user"))
    models = rendered(gather(graph, [USER, ITEM], prepare, trees("forest")))
    assert [model.name for model in models.models] == ["forest_2", "ensemble_2", None]
    assert models.called == ("forest", "ensemble_2")


def test_a_model_in_front() -> None:
    """It has the executor's names, and the ensemble behind it names of its own."""
    models = by_name(keeping_a_name())
    assert [*models] == ["ensemble", None]
    assert models["ensemble"].source is None
    assert [(t.name, t.data_type) for t in models["ensemble"].config.input] == [
        ("user.to.0_workflow", pb.TYPE_INT64)
    ]
    assert [tensor.name for tensor in models["ensemble"].config.output] == [
        "click.1_predict",
        "user.0_workflow",
    ]
    assert models[None].config == message("""
        backend: "python"
        input { name: "user" data_type: TYPE_INT32 dims: [ -1 ] }
        output { name: "click" data_type: TYPE_FP32 dims: [ -1 ] }
        output { name: "user" data_type: TYPE_INT64 dims: [ -1 ] }
        instance_group { kind: KIND_CPU }
    """)
    found = literals(models[None])
    assert (found["MODEL"], found["SENT"], found["FETCHED"]) == (
        "m.ensemble",
        ["user.to.0_workflow"],
        ["click.1_predict", "user.0_workflow"],
    )
    assert [row["writes"] for row in found["BEFORE"]] == [["user.to.0_workflow"]]
    assert found["AFTER"] == []
    assert found["ANSWER"] == [("click", "click.1_predict"), ("user", "user.0_workflow")]


def test_a_front_model_without_an_ensemble() -> None:
    """A graph without calls: the answer is made of the request alone."""
    graph = Graph()
    graph.select(USER)
    last = graph.nodes.pop()
    graph.nodes.append(type(last)(**{**vars(last), "output": (column("user", "int32"),)}))
    (front,) = rendered(gather(graph, [USER])).models
    found = literals(front)
    assert (front.name, found["MODEL"], found["SENT"], found["FETCHED"]) == (None, "", [], [])
    assert [row["dtype"] for row in found["BEFORE"]] == ["int32"]
    assert found["ANSWER"] == [("user", "user.to.answer")]


def test_outputs_have_the_shapes_that_they_really_have() -> None:
    """Nobody holds a python model's answer to its declared shape; Triton does an ensemble's."""
    predict = Step("0_p", (USER,), (CLICK,), dims={"click": "-1, 3"})
    graph = Graph()
    graph.call(predict, graph.select(USER))
    parts = gather(graph, [USER], predict, shapes={"click": "-1, 9, 9"})
    (ensemble,) = rendered(parts).models
    assert [list(output.dims) for output in ensemble.config.output] == [[-1, 3]]


def test_an_ensemble_asks_for_all_of_the_request() -> None:
    """As the executor does, whatever its config says of being optional."""
    predict = predictor("0_p", (USER, ITEM), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.select(USER, ITEM))
    extra = 'input { name: "item" data_type: TYPE_INT64 dims: [ -1 ] optional: true }'
    parts = gather(graph, [USER], predict, extra=extra)
    (ensemble,) = rendered(parts).models
    assert [(tensor.name, tensor.optional) for tensor in ensemble.config.input] == [
        ("user", False),
        ("item", False),
    ]
