"""Graphs that a pure ensemble expresses: name -> archive, graph, request. The golden files and the
real tritonservers are both held against them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ensemble_tools.archive.executor_graph import ExecutorGraph, SchemaColumn
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import ServingPlan, plan_archive
from tests.golden.archives import (
    PREDICTOR,
    Graph,
    Step,
    Tensors,
    column,
    offline,
    write_executor,
    write_step,
)

USER, ITEM, AGE = column("user"), column("item"), column("age", "float32")
GENRES = column("genres", ragged=True)
CLICK, BUY = column("click", "float32"), column("buy", "float32")

INTS = np.array([3, 1, 2], dtype="int64")
MORE = np.array([70, 50, 60], dtype="int64")
FLOATS = np.array([0.5, 1.5, -2.0], dtype="float32")


@dataclass(frozen=True)
class Case:
    """One archive with its graph, a request, and the columns of both ends."""

    graph: ExecutorGraph
    steps: tuple[Step, ...]
    inputs: tuple[SchemaColumn, ...]
    request: Tensors = field(default_factory=dict)
    executor: str = "executor_model"
    version: int = 1
    extra: str = ""
    shapes: Mapping[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        write_executor(
            root,
            self.inputs,
            self.graph.output_node.output,
            name=self.executor,
            version=self.version,
            extra=self.extra,
            shapes=self.shapes,
        )
        for step in self.steps:
            write_step(root, step, self.version if step.class_name == PREDICTOR else 1)
        return root

    def plan(self, root: Path, model_name: str = "model") -> ServingPlan:
        """The plan for the archive, written under root."""
        self.write(root)
        return self.planned(root, model_name)

    def planned(self, root: Path, model_name: str = "model") -> ServingPlan:
        """The plan for the archive that was written under root."""
        return plan_archive(read_repository(root), self.graph, Namespace(model_name))

    def expected(self) -> Tensors:
        """What Merlin's executor answers to the request."""
        steps = {step.name: step for step in self.steps}
        return offline(self.graph, steps, self.request, self.shapes)


def workflow(name: str, columns: Iterable[SchemaColumn], **formulas: str) -> Step:
    """A step that keeps the columns' names and changes their numbers."""
    specs = tuple(columns)
    return Step(name, specs, specs, formulas)


def predictor(
    name: str, columns: Iterable[SchemaColumn], output: SchemaColumn, formula: str
) -> Step:
    return Step(name, tuple(columns), (output,), {output.name: formula}, PREDICTOR)


def keeps_names() -> Case:
    """Case 1: the workflow's outputs have its inputs' names."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER, ITEM), user="user * 10", item="item + 100")
    predict = predictor("1_predict", (USER, ITEM), CLICK, "user / item")
    graph.call(predict, graph.call(prepare, graph.select(USER, ITEM)))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (prepare, predict), (USER, ITEM), request)


def unused_output() -> Case:
    """Case 3: nobody consumes one of the workflow's outputs."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER, ITEM), user="user * 10", item="item + 100")
    predict = predictor("1_predict", (ITEM,), CLICK, "item * 0.5")
    graph.call(predict, graph.call(prepare, graph.select(USER, ITEM)))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (prepare, predict), (USER, ITEM), request)


def two_branches() -> Case:
    """Case 7: two workflows into one predictor."""
    graph = Graph()
    users = workflow("0_users", (USER,), user="user * 10")
    items = workflow("1_items", (ITEM,), item="item + 100")
    predict = predictor("2_predict", (USER, ITEM), CLICK, "user / item")
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(ITEM))))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (users, items, predict), (USER, ITEM), request)


def two_predictors() -> Case:
    """Case 7: two predictors on one workflow, one tensor going to both and to the answer."""
    graph = Graph()
    prepare = Step(
        "0_workflow", (USER, ITEM), (column("u"), column("i")), {"u": "user * 10", "i": "item + 1"}
    )
    click = predictor("1_click", (column("u"), column("i")), CLICK, "u / i")
    buy = predictor("2_buy", (column("u"),), BUY, "u * 0.25")
    prepared = graph.call(prepare, graph.select(USER, ITEM))
    scores = graph.concat(graph.call(click, prepared), graph.call(buy, prepared))
    graph.concat(scores, graph.keep(prepared, "u"))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (prepare, click, buy), (USER, ITEM), request)


def by_pass_to_predictor() -> Case:
    """Case 7: a request column goes by the workflow, into the predictor."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER,), user="user * 10")
    predict = predictor("1_predict", (USER, AGE), CLICK, "user + age")
    prepared = graph.call(prepare, graph.select(USER))
    graph.call(predict, graph.concat(prepared, graph.select(AGE)))
    request = {"user": INTS, "age": FLOATS}
    return Case(graph.done(), (prepare, predict), (USER, AGE), request)


def by_pass_to_answer() -> Case:
    """Case 7: a request column is answered as it came, and read by a step as well."""
    graph = Graph()
    predict = predictor("0_predict", (USER, AGE), CLICK, "user + age")
    request = graph.select(USER, AGE)
    graph.concat(graph.call(predict, request), graph.select(USER))
    return Case(graph.done(), (predict,), (USER, AGE), {"user": INTS, "age": FLOATS})


def only_answered() -> Case:
    """A request column that no step reads is answered as it came."""
    graph = Graph()
    predict = predictor("0_predict", (AGE,), CLICK, "age * 2")
    graph.concat(graph.call(predict, graph.select(AGE)), graph.select(USER))
    return Case(graph.done(), (predict,), (USER, AGE), {"user": INTS, "age": FLOATS})


def nested_subgraph() -> Case:
    """Case 7: the workflow is called inside a subgraph of a subgraph."""
    innermost, inner, graph = Graph(), Graph(), Graph()
    prepare = workflow("0_workflow", (USER, ITEM), user="user * 10", item="item + 100")
    predict = predictor("1_predict", (USER, ITEM), CLICK, "user / item")
    innermost.call(prepare, innermost.select(USER, ITEM))
    inner.subgraph(innermost, inner.select(USER, ITEM))
    graph.call(predict, graph.subgraph(inner, graph.select(USER, ITEM)))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (prepare, predict), (USER, ITEM), request)


def later_overrides() -> Case:
    """Of two upstream columns of one name the later one reaches the predictor."""
    graph = Graph()
    one = workflow("0_one", (USER, ITEM), user="user * 10", item="item + 100")
    other = workflow("1_other", (USER,), user="user * -1")
    predict = predictor("2_predict", (USER, ITEM), CLICK, "user / item")
    first = graph.call(one, graph.select(USER, ITEM))
    graph.call(predict, graph.concat(first, graph.call(other, graph.select(USER))))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (one, other, predict), (USER, ITEM), request)


def dropped_column() -> Case:
    """A column dropped by `[]` comes from the request again where a later node asks for it."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER, ITEM), user="user * 10", item="item + 100")
    predict = predictor("1_predict", (USER, ITEM), CLICK, "user / item")
    prepared = graph.call(prepare, graph.select(USER, ITEM))
    graph.call(predict, graph.keep(prepared, "user"))
    request = {"user": INTS, "item": MORE}
    return Case(graph.done(), (prepare, predict), (USER, ITEM), request)


def ragged_column() -> Case:
    """A ragged column stays two tensors all the way."""
    graph = Graph()
    prepare = workflow(
        "0_workflow", (USER, GENRES), user="user * 10", genres__values="genres__values + 7"
    )
    predict = predictor(
        "1_predict",
        (USER, GENRES),
        CLICK,
        "user + np.add.reduceat(genres__values, genres__offsets[:-1])",
    )
    graph.call(predict, graph.call(prepare, graph.select(USER, GENRES)))
    request = {
        "user": INTS,
        "genres__values": np.array([1, 2, 3, 4, 5, 6], dtype="int64"),
        "genres__offsets": np.array([0, 1, 3, 6], dtype="int32"),
    }
    return Case(graph.done(), (prepare, predict), (USER, GENRES), request)


def like_named_tensors() -> Case:
    """Step and column names with dots, which joined by dots would be the same tensor."""
    graph = Graph()
    dotted, plain = column("x.y"), column("x")
    one = Step("z", (USER,), (dotted,), {"x.y": "user * 10"})
    other = Step("y.z", (USER,), (plain,), {"x": "user * -1"})
    predict = predictor("p", (dotted, plain), CLICK, "x * 0.5")
    first = graph.call(one, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(other, graph.select(USER))))
    return Case(graph.done(), (one, other, predict), (USER,), {"user": INTS})


def own_name_and_version() -> Case:
    """The executor was exported under another name, and in version 3."""
    case = keeps_names()
    return Case(case.graph, case.steps, case.inputs, case.request, "my_executor", 3)


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (
        keeps_names,
        unused_output,
        two_branches,
        two_predictors,
        by_pass_to_predictor,
        by_pass_to_answer,
        nested_subgraph,
        later_overrides,
        dropped_column,
        ragged_column,
        like_named_tensors,
        own_name_and_version,
    )
}
