"""What operators do, by their classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ensemble_tools.archive.executor_graph import Operator
from ensemble_tools.ensembles.operator_kinds import (
    OperatorKind,
    classify,
    has_foreign_operators,
    is_foreign,
    list_called_models,
)
from tests.golden.archives import FOREST, PREDICTOR, WORKFLOW, Graph
from tests.golden.cases import predictor, workflow
from tests.unit.ensemble_tools.ensembles.small_graphs import CLICK, FILTER, USER


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [
        (WORKFLOW, OperatorKind.CALL),
        (PREDICTOR, OperatorKind.CALL),
        (FOREST, OperatorKind.FOREST),
        ("merlin.dag.ops.subset_columns.SubsetColumns", OperatorKind.SELECTION),
        ("merlin.dag.ops.subtraction.SubtractionOp", OperatorKind.SUBTRACTION),
        ("merlin.dag.ops.add_metadata.AddTags", OperatorKind.IDENTITY),
        ("merlin.dag.ops.subgraph.Subgraph", OperatorKind.SUBGRAPH),
        (FILTER, OperatorKind.INLINE),
        ("shop.SelectionOp", OperatorKind.INLINE),
        ("nvtabular.ops.clip.Clip", OperatorKind.INLINE),
    ],
)
def test_kinds(class_name: str, kind: OperatorKind) -> None:
    """Merlin's own classes are known by name; of all others nothing is assumed."""
    assert classify(Operator(class_name, "label")) is kind


@pytest.mark.parametrize(
    ("class_name", "foreign"),
    [(FILTER, False), ("nvtabular.ops.clip.Clip", False), ("shop.Novel", True)],
)
def test_foreign(class_name: str, foreign: bool) -> None:
    """Whoever is not Merlin's may call models by itself; a subgraph is looked into."""
    assert is_foreign(Operator(class_name, "label")) is foreign
    inner, graph = Graph(), Graph()
    inner.inline(class_name, inner.select(USER))
    graph.subgraph(inner, graph.select(USER))
    assert has_foreign_operators(graph.done()) is foreign


def test_called_models_each_once() -> None:
    """In the order of evaluation, those of subgraphs behind; a graph that is shared counts once."""
    prepare, predict = workflow("0_w", (USER,)), predictor("1_p", (USER,), CLICK, "user")
    inner, graph = Graph(), Graph()
    inner.call(predict, inner.select(USER))
    first = graph.call(prepare, graph.select(USER))
    graph.concat(graph.subgraph(inner, first), graph.call(prepare, graph.select(USER)))
    assert list_called_models(graph.done()) == ("0_w", "1_p")


def test_a_graph_that_many_share_is_looked_into_once() -> None:
    """Subgraphs in subgraphs multiply: 2 to the 40th visits would never end."""
    inner = Graph()
    inner.call(workflow("0_w", (USER,)), inner.select(USER))
    for _ in range(40):
        outer, done = Graph(), inner.done()
        nodes = [outer.subgraph(inner, outer.select(USER)) for _ in range(2)]
        outer.nodes = [
            replace(node, operator=replace(node.operator, subgraph=done)) if node in nodes else node
            for node in outer.nodes
        ]
        inner = outer
    assert list_called_models(inner.done()) == ("0_w",)
