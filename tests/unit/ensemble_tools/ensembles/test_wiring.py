"""Merlin's executor, run on names: which column of which step goes where."""

from __future__ import annotations

import pytest

from ensemble_tools.archive.executor_graph import Node
from ensemble_tools.ensembles.producers import REQUEST, FromCall, FromInline
from ensemble_tools.ensembles.wiring import MATRIX, Source
from ensemble_tools.errors import GraphNotExpressible, GraphNotServable
from tests.golden.archives import FOREST, Graph, Step, column
from tests.golden.cases import predictor, workflow
from tests.unit.ensemble_tools.ensembles.small_graphs import (
    AGE,
    BUY,
    CLICK,
    FILTER,
    ITEM,
    USER,
    wire_graph,
)

PREPARE = workflow("0_workflow", (USER, ITEM))
PREDICT = predictor("1_predict", (USER, ITEM), CLICK, "user")
TREES = Step("f", (column("input__0", "float32"),), (column("output__0", "float32"),), {}, FOREST)


def test_a_column_comes_from_the_call_that_made_it() -> None:
    """request -> workflow -> predictor -> answer: each end has its source."""
    graph = Graph()
    graph.call(PREDICT, graph.call(PREPARE, graph.select(USER, ITEM)))
    wiring = wire_graph(graph, USER, ITEM)
    assert [call.key for call in wiring.calls] == ["0_workflow", "1_predict"]
    first, second = wiring.calls
    assert first.sources == {"user": Source(REQUEST, "user"), "item": Source(REQUEST, "item")}
    assert second.sources == {
        "user": Source(FromCall("0_workflow"), "user"),
        "item": Source(FromCall("0_workflow"), "item"),
    }
    assert wiring.answer == {"click": Source(FromCall("1_predict"), "click")}
    assert wiring.columns == (CLICK,)
    assert (wiring.inlines, wiring.notes, wiring.idle) == ({}, (), frozenset())


def test_choosing_operators_disappear() -> None:
    """1: selections, subsets, sums, identities and subgraphs leave each column its source."""
    inner, graph = Graph(), Graph()
    inner.call(PREPARE, inner.select(USER, ITEM))
    prepared = graph.subgraph(inner, graph.select(USER, ITEM))
    tagged = graph.inline("merlin.dag.ops.add_metadata.AddMetadata", prepared)
    graph.concat(graph.keep(tagged, "user"), graph.select(AGE))
    wiring = wire_graph(graph, USER, ITEM, AGE)
    assert wiring.answer == {
        "user": Source(FromCall("0_workflow"), "user"),
        "age": Source(REQUEST, "age"),
    }
    (call,) = wiring.calls
    assert call.node_path == (1, 1)  # in the graph's second node, the subgraph's second


def test_of_equal_names_the_later_one_stays() -> None:
    """Merging is the executor's: what comes later overrides."""
    graph = Graph()
    one, other = workflow("0_one", (USER, ITEM)), workflow("1_other", (USER,))
    first = graph.call(one, graph.select(USER, ITEM))
    graph.concat(first, graph.call(other, graph.select(USER)))
    assert wire_graph(graph, USER, ITEM).answer == {
        "user": Source(FromCall("1_other"), "user"),
        "item": Source(FromCall("0_one"), "item"),
    }


def test_a_dropped_column_comes_from_the_request_again() -> None:
    """What no upstream node has, and a node asks for, is the request's."""
    graph = Graph()
    prepared = graph.call(PREPARE, graph.select(USER, ITEM))
    graph.call(PREDICT, graph.keep(prepared, "user"))
    assert wire_graph(graph, USER, ITEM).calls[1].sources == {
        "user": Source(FromCall("0_workflow"), "user"),
        "item": Source(REQUEST, "item"),
    }


def test_calls_of_one_model_have_keys_of_their_own() -> None:
    """2: a further call of the same model is another step."""
    step = workflow("0_workflow", (USER,))
    graph = Graph()
    graph.call(step, graph.call(step, graph.select(USER)))
    wiring = wire_graph(graph, USER)
    assert [(call.key, call.model_name) for call in wiring.calls] == [
        ("0_workflow", "0_workflow"),
        ("0_workflow/2", "0_workflow"),
    ]
    assert wiring.answer == {"user": Source(FromCall("0_workflow/2"), "user")}


def test_calls_that_the_answer_does_not_need_are_dropped() -> None:
    """The executor makes them, and Triton drops what they answer."""
    graph = Graph()
    prepared = graph.call(PREPARE, graph.select(USER, ITEM))
    unread = predictor("2_unread", (USER,), BUY, "user")
    both = graph.concat(graph.call(PREDICT, prepared), graph.call(unread, prepared))
    graph.keep(both, "click")
    wiring = wire_graph(graph, USER, ITEM)
    assert [call.key for call in wiring.calls] == ["0_workflow", "1_predict"]


def test_a_forest_takes_what_reaches_it_in_that_order() -> None:
    """3: from one node the order of columns is sure."""
    graph = Graph()
    graph.call(TREES, graph.call(PREPARE, graph.select(USER, ITEM)))
    call = wire_graph(graph, USER, ITEM).calls[1]
    assert (call.columns_in, call.sources) == ((MATRIX,), {})
    assert (
        call.stacked
        == call.reads
        == (
            Source(FromCall("0_workflow"), "user"),
            Source(FromCall("0_workflow"), "item"),
        )
    )


def test_a_forests_order_is_its_schemas_where_merlins_is_open() -> None:
    """3: the executor joins sets, whose order is another at each start; a note says so."""
    graph = Graph()
    first = graph.call(workflow("0_users", (USER,)), graph.select(USER))
    second = graph.call(workflow("1_items", (ITEM,)), graph.select(ITEM))
    graph.call(TREES, first, second)
    wiring = wire_graph(graph, USER, ITEM)
    assert [source.column for source in wiring.calls[2].stacked] == ["user", "item"]
    assert wiring.notes == (
        "PredictForestTriton gets its columns in the order of its schema (user, item); Merlin's "
        "executor joins them in an order that changes from start to start (python's hash seed)",
    )


def test_an_inline_operator_is_a_source() -> None:
    """4: what it gives is its own, and what reached it is what it reads."""
    graph = Graph()
    prepared = graph.call(PREPARE, graph.select(USER, ITEM))
    graph.call(PREDICT, graph.inline(FILTER, prepared))
    wiring = wire_graph(graph, USER, ITEM)
    (key, inline), *others = wiring.inlines.items()
    assert not others
    assert wiring.calls[1].sources["user"] == Source(FromInline(key), "user")
    assert inline.operator == "FilterCandidates"
    assert inline.columns == ("user", "item")
    assert inline.reads == (
        Source(FromCall("0_workflow"), "user"),
        Source(FromCall("0_workflow"), "item"),
    )
    assert (inline.models, inline.foreign) == ((), False)


def test_what_merlin_calls_above_an_inline_operators_reader() -> None:
    """All that is upstream in the graph, also where no column of it reaches the reader."""
    graph = Graph()
    prepared = graph.call(PREPARE, graph.select(USER, ITEM))
    inner = Graph()
    inner.inline(FILTER, inner.select(AGE))
    both = graph.concat(prepared, graph.subgraph(inner, graph.select(AGE)))
    graph.call(predictor("1_predict", (AGE,), CLICK, "age"), graph.keep(both, "age"))
    first, second = wire_graph(graph, USER, ITEM, AGE).calls
    assert not first.above
    assert second.above == {"0_workflow"}


@pytest.mark.parametrize(("class_name", "foreign"), [("shop.Novel", True), (FILTER, False)])
def test_an_operator_of_somebody_else_is_foreign(class_name: str, foreign: bool) -> None:
    """Nothing is known of what it does."""
    graph = Graph()
    graph.inline(class_name, graph.select(USER))
    (inline,) = wire_graph(graph, USER).inlines.values()
    assert inline.foreign is foreign


def test_a_loop_over_a_subgraph_is_an_inline_operator_with_its_calls() -> None:
    """Who calls how often is known when it runs."""
    inner, graph = Graph(), Graph()
    inner.call(PREPARE, inner.select(USER, ITEM))
    graph.subgraph(inner, graph.select(USER, ITEM), loops=True)
    wiring = wire_graph(graph, USER, ITEM)
    assert wiring.calls == ()
    assert [inline.models for inline in wiring.inlines.values()] == [("0_workflow",)]


def test_idle_calls_stay_for_inline_operators() -> None:
    """Merlin's own code makes them all; they are known as what nothing in the answer needs."""
    graph = Graph()
    prepared = graph.call(PREPARE, graph.select(USER, ITEM))
    predicted = graph.call(PREDICT, graph.inline(FILTER, prepared))
    unread = predictor("2_unread", (CLICK,), BUY, "click")
    graph.keep(graph.concat(predicted, graph.call(unread, predicted)), "click")
    wiring = wire_graph(graph, USER, ITEM)
    assert [call.key for call in wiring.calls] == ["0_workflow", "1_predict", "2_unread"]
    assert wiring.idle == {"2_unread"}


def missing_in_the_request() -> Graph:
    graph = Graph()
    graph.call(PREDICT, graph.select(USER, ITEM))
    return graph


def missing_in_a_selection() -> Graph:
    graph = Graph()
    graph.select(USER)
    last = graph.select(USER)
    graph.nodes[-1] = Node(
        last.number, last.operator, (0,), ("user", "gone"), last.inputs, (), last.output
    )
    return graph


@pytest.mark.parametrize(
    ("graph", "column_name", "says"),
    [
        (missing_in_the_request(), "item", "neither an earlier operator nor the request has"),
        (missing_in_a_selection(), "gone", "selects a column that does not reach it"),
    ],
)
def test_a_column_from_nowhere(graph: Graph, column_name: str, says: str) -> None:
    """Merlin's executor fails on it as well."""
    with pytest.raises(GraphNotServable, match=says) as refused:
        wire_graph(graph, USER)
    assert refused.value.columns == (column_name,)


def test_a_column_from_nowhere_behind_an_inline_operator() -> None:
    """What that gives is known when it runs, so that only the executor can tell."""
    graph = Graph()
    graph.call(PREDICT, graph.inline(FILTER, graph.select(USER), [USER]))
    with pytest.raises(GraphNotExpressible, match="neither an earlier operator"):
        wire_graph(graph, USER)


@pytest.mark.parametrize("name", ["user__values", "user__offsets"])
def test_parts_of_lists(name: str) -> None:
    """Merlin's executor joins or drops such columns, in a request as between its operators."""
    graph = Graph()
    graph.call(PREPARE, graph.select(USER, ITEM))
    with pytest.raises(GraphNotExpressible, match=r"the request, column .* part of a list column"):
        wire_graph(graph, USER, ITEM, column(name, "int64"))
    graph = Graph()
    graph.call(predictor("0_predict", (USER,), column(name, "int64"), "user"), graph.select(USER))
    with pytest.raises(GraphNotExpressible, match="part of a list column") as refused:
        wire_graph(graph, USER)
    assert refused.value.columns == (name,)


def test_other_columns_than_the_forest_was_trained_on() -> None:
    """Without an order of its own, a forest must get the columns of its schema."""
    graph = Graph()
    first = graph.call(workflow("0_users", (USER,)), graph.select(USER))
    second = graph.call(workflow("1_items", (ITEM,)), graph.select(ITEM))
    graph.call(TREES, first, second)
    last = graph.nodes[-1]
    schema = Step(TREES.name, (USER, AGE), TREES.columns_out, {}, "merlin.x.PredictForestTriton")
    other = Graph()
    other.call(schema, other.select(USER, AGE))
    operator = other.nodes[-1].operator
    graph.nodes[-1] = Node(
        last.number, operator, last.upstream, last.selection, last.inputs, (), last.output
    )
    with pytest.raises(GraphNotServable, match="not the columns that the forest was trained on"):
        wire_graph(graph, USER, ITEM)


def test_a_model_that_is_not_named() -> None:
    """An operator that calls, and says not whom, is refused with its remedy."""
    graph = Graph()
    graph.call(Step("", (USER,), ()), graph.select(USER))
    with pytest.raises(GraphNotServable, match=r"names no Triton model or no columns; export"):
        wire_graph(graph, USER)


def test_subgraphs_without_end() -> None:
    """Subgraphs of subgraphs multiply: the evaluation is bounded."""
    inner = Graph()
    inner.select(USER)
    for _ in range(14):
        outer = Graph()
        outer.subgraph(inner, outer.subgraph(inner, outer.select(USER)))
        inner = outer
    with pytest.raises(GraphNotExpressible, match="more than 10000 nodes"):
        wire_graph(inner, USER)
