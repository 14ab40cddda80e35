"""Small graphs and what the stages make of them, without files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ensemble_tools.archive.executor_graph import SchemaColumn
from ensemble_tools.archive.model_config import ModelConfig, parse_model_config
from ensemble_tools.ensembles.edges import (
    list_columns,
    plan_inputs,
)
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.placement import drop_idle_calls, put_into_steps
from ensemble_tools.ensembles.producers import ANSWER
from ensemble_tools.ensembles.wiring import Wiring, wire
from tests.golden.archives import Graph, Step, column, tensor_fields
from tests.golden.cases import predictor, workflow

PATH = Path("executor_model/1/ensemble")
USER, ITEM, AGE = column("user"), column("item"), column("age", "float32")
GENRES = column("genres", ragged=True)
CLICK, BUY = column("click", "float32"), column("buy", "float32")
#: One of Merlin's operators that runs Python inside the executor.
FILTER = "merlin.systems.dag.ops.session_filter.FilterCandidates"


def child_config(step: Step, backend: str = "python") -> ModelConfig:
    """The config.pbtxt of a child."""
    tensors = (
        f"{tensor_fields('input', step.columns_in, step)}\n"
        f"{tensor_fields('output', step.columns_out, step)}\n"
    )
    text = f'name: "{step.name}"\nbackend: "{backend}"\n{tensors}{step.extra}'
    return parse_model_config(text, Path(step.name))


def executor_config(
    request: Iterable[SchemaColumn],
    answer: Iterable[SchemaColumn],
    shapes: Mapping[str, str] | None = None,
    extra: str = "",
) -> ModelConfig:
    """The executor's; shapes: those that are not [-1]."""
    tensors = (
        f"{tensor_fields('input', request, None, shapes)}\n"
        f"{tensor_fields('output', answer, None, shapes)}\n"
    )
    text = f'platform: "merlin_executor"\nbackend: "python"\n{tensors}{extra}'
    return parse_model_config(text, Path("executor_model"))


def wire_graph(graph: Graph, *request: SchemaColumn) -> Wiring:
    """The wiring of a request of these columns; all that the graph puts out is answered."""
    answered = tuple(spec.name for spec in graph.done().output_node.output)
    return wire(graph.done(), tuple(spec.name for spec in request), answered, PATH)


def gather(
    graph: Graph,
    request: Iterable[SchemaColumn],
    *steps: Step,
    shapes: Mapping[str, str] | None = None,
    extra: str = "",
    backends: Mapping[str, str] | None = None,
) -> Parts:
    """What the three stages are about. backends: of children that are no python models."""
    executor = executor_config(request, graph.done().output_node.output, shapes, extra)
    configs = {
        step.name: child_config(step, (backends or {}).get(step.name, "python")) for step in steps
    }
    columns = list_columns(executor.inputs), list_columns(executor.outputs)
    wiring = wire(graph.done(), *columns, PATH)
    plans = plan_inputs(wiring, executor, configs, PATH)
    wiring = drop_idle_calls(wiring, plans)
    kept = {ANSWER, *(call.key for call in wiring.calls)}
    plans = {key: plan for key, plan in plans.items() if key in kept}
    placement = put_into_steps(wiring, plans, frozenset(configs), PATH)
    return Parts(wiring, executor, configs, plans, placement)


def in_a_row() -> Parts:
    """request -> 0_workflow -> 1_predict -> answer, with names that change."""
    prepare = Step("0_workflow", (USER,), (column("u"),))
    predict = predictor("1_predict", (column("u"),), CLICK, "u")
    graph = Graph()
    graph.call(predict, graph.call(prepare, graph.select(USER)))
    return gather(graph, [USER], prepare, predict)


def side_by_side(users: Step | None = None, items: Step | None = None) -> Parts:
    """Two workflows on columns of their own, one predictor on both; either may be another step."""
    users = users or workflow("0_users", (USER,))
    items = items or workflow("1_items", (ITEM,))
    predict = predictor("2_predict", (USER, ITEM), CLICK, "user / item")
    graph = Graph()
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(ITEM))))
    return gather(graph, [USER, ITEM], users, items, predict)


def casting() -> Parts:
    """A cast of the request in front of the only call."""
    predict = predictor("0_predict", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.select(USER))
    return gather(graph, [column("user", "int32")], predict)


def keeping_a_name() -> Parts:
    """The answer's column has the name of the request's, so that a model stands in front."""
    step = workflow("0_workflow", (USER,))
    predict = predictor("1_predict", (USER,), CLICK, "user")
    graph = Graph()
    prepared = graph.call(step, graph.select(USER))
    graph.concat(graph.call(predict, prepared), graph.keep(prepared, "user"))
    return gather(graph, [column("user", "int32")], step, predict)


def behind_an_operator() -> Parts:
    """request -> 0_workflow -> inline operator -> 1_predict -> answer."""
    prepare = workflow("0_workflow", (USER,))
    predict = predictor("1_predict", (USER,), CLICK, "user")
    graph = Graph()
    prepared = graph.call(prepare, graph.select(USER))
    graph.call(predict, graph.inline(FILTER, prepared))
    return gather(graph, [USER], prepare, predict)
