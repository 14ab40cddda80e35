"""Merlin's operators that need numpy alone: what is read of them, and the steps they become."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node
from ensemble_tools.archive.inert_pickle import Inert
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.ensembles.operators import OperatorWork, find_work, make_config
from ensemble_tools.ensembles.producers import REQUEST, FromCall
from ensemble_tools.ensembles.wiring import Source
from ensemble_tools.errors import GraphNotServable
from tests.golden.archives import Graph, column
from tests.golden.cases import predictor
from tests.unit.ensemble_tools.ensembles.small_graphs import CLICK, FILTER, PATH, wire_graph
from tests.unit.ensemble_tools.ensembles.small_graphs import gather as gather_parts

UNROLL = "merlin.systems.dag.ops.unroll_features.UnrollFeatures"
SEARCH = "merlin.systems.dag.ops.faiss.QueryFaiss"
RECOMMEND = "merlin.systems.dag.ops.implicit.PredictImplicit"
LOOKUP = "merlin.systems.dag.ops.feast.QueryFeast"
SAMPLE = "merlin.systems.dag.ops.softmax_sampling.SoftmaxSampling"
ITEM, USER, AGE = column("item"), column("user"), column("age", "float32")
SCORES = column("score", "float32")


class Selected(Inert):
    """A node of merlin-core as a pickle has it: with a selector of these names, or without one."""

    budget: Any = SimpleNamespace(spend=lambda _: None)

    def __init__(self, *names: str, **state: object) -> None:
        selector = Selected.__new__(Selected)
        selector.state = {"_names": [*names], **state}
        self.state = {"_selector": selector if names else None}


def unroll(prefix: object = "u", source: object = None, item: object = "item") -> Node:
    """Users and ages for each item."""
    state = {
        "item_id_col": item,
        "unrolled_prefix": prefix,
        "unroll_cols": source or Selected("user", "age"),
    }
    graph = Graph()
    output = [ITEM, column("u_user"), column("u_age", "float32")]
    return graph.operator(UNROLL, state, output, graph.select(ITEM), graph.select(USER, AGE))


def sample(**state: object) -> Node:
    known = {
        "_input_col_name": "item",
        "_relevance_col_name": "score",
        "temperature": 20.0,
        "topk": 10,
    }
    graph = Graph()
    output = [column("ordered_ids"), column("ordered_scores", "float32")]
    first, other = graph.select(ITEM), graph.select(SCORES)
    return graph.operator(SAMPLE, {**known, **state}, output, first, other)


def filtering(**state: object) -> Node:
    known = {"_input_col": "item", "_filter_out_col": "user"}
    graph = Graph()
    output = [column("filtered_ids", "int32")]
    first, other = graph.select(ITEM), graph.select(USER)
    return graph.operator(FILTER, {**known, **state}, output, first, other)


def search(*inputs: str, path: object = "/tmp/made/items.faiss", topk: object = 100) -> Node:
    graph = Graph()
    first = graph.select(*(column(name, "float32") for name in inputs or ("query",)))
    state = {"index_path": path, "topk": topk}
    return graph.operator(SEARCH, state, [column("candidate_ids", "int32")], first)


def recommend(**state: object) -> Node:
    known = {
        "model_module_name": "implicit.cpu.als",
        "model_class_name": "AlternatingLeastSquares",
        "num_to_recommend": 7,
    }
    graph = Graph()
    output = [column("ids"), column("scores", "float64")]
    user = column("user_id")
    return graph.operator(RECOMMEND, {**known, **state}, output, graph.select(user))


def lookup(*, ragged: bool = True, **state: object) -> Node:
    known = {
        "repo_path": "/tmp/made/feature_repo",
        "entity_id": "user_id",
        "entity_view": "users",
        "entity_column": "user",
        "features": ["age"],
        "mh_features": ["clicks"],
        "include_id": True,
        "output_prefix": "of",
    }
    graph = Graph()
    output = [column("of_age", "int32"), column("of_clicks", ragged=ragged), column("user_id")]
    return graph.operator(LOOKUP, {**known, **state}, output, graph.select(USER))


def test_what_is_read_of_a_look_up() -> None:
    """The names have the prefix; where the repository lay is kept, and its last part."""
    assert find_work(lookup()) == OperatorWork(
        "lookup",
        ("user",),
        {"user_id": "user", "of_age": "user", "of_clicks": "user"},
        {"of_age": "TYPE_INT32", "of_clicks": "TYPE_INT64"},
        {
            "repository": "feature_repo",
            "path": "/tmp/made/feature_repo",
            "view": "users",
            "entity": "user_id",
            "features": {"of_age": ("age", "int32")},
            "lists": {"of_clicks": ("clicks", "int64")},
            "id": "user_id",
        },
        "feature_repo/",
        frozenset({"of_clicks"}),
    )
    bare = find_work(lookup(include_id=False, mh_features=[]))
    assert bare is not None
    assert bare.writes == {"of_age": "user"}


def test_the_config_of_a_look_up() -> None:
    """Lists are two tensors; the ids are as they come, whatever Merlin's schema says."""
    work = find_work(lookup())
    assert work is not None
    config = make_config(work, [TensorSpec("user", "TYPE_INT32", (-1,))])
    assert [(it.name, it.data_type, it.dims) for it in config.outputs.values()] == [
        ("user_id", "TYPE_INT32", (-1,)),
        ("of_age", "TYPE_INT32", (-1,)),
        ("of_clicks__values", "TYPE_INT64", (-1,)),
        ("of_clicks__offsets", "TYPE_INT32", (-1,)),
    ]


def test_what_is_read_of_each() -> None:
    """The columns, and what else the operator was made with."""
    assert find_work(unroll()) == OperatorWork(
        "unroll", ("item", "user", "age"), {"u_user": "user", "u_age": "age"}
    )
    assert find_work(unroll("", Selected())) == OperatorWork(
        "unroll", ("item", "user", "age"), {"user": "user", "age": "age"}
    )
    assert find_work(sample(temperature=1)) == OperatorWork(
        "sample",
        ("item", "score"),
        {"ordered_ids": "item", "ordered_scores": "score"},
        settings={"temperature": 1, "topk": 10},
    )
    assert find_work(filtering()) == OperatorWork(
        "filter", ("item", "user"), {"filtered_ids": "item"}, settings={"without": "user"}
    )
    assert find_work(search()) == OperatorWork(
        "search",
        ("query",),
        {"candidate_ids": "query"},
        {"candidate_ids": "TYPE_INT32"},
        {"index": "items.faiss", "topk": 100},
        "items.faiss",
    )
    assert find_work(recommend()) == OperatorWork(
        "recommend",
        ("user_id",),
        {"ids": "user_id", "scores": "user_id"},
        {"ids": "TYPE_INT64", "scores": "TYPE_FP64"},
        {
            "model": "model.npz",
            "module": "implicit.cpu.als",
            "class": "AlternatingLeastSquares",
            "count": 7,
        },
        "model.npz",
    )
    assert find_work(filtering(_filter_out_col="item")) == OperatorWork(
        "filter", ("item",), {"filtered_ids": "item"}, settings={"without": "item"}
    )


@pytest.mark.parametrize(
    "node",
    [
        unroll(item=None),
        unroll(item="user"),
        unroll(prefix=3),
        unroll(source="user"),
        unroll(source=Selected("user")),
        unroll(source=Selected("user", "age", subgroups=[1])),
        sample(temperature="hot"),
        sample(temperature=True),
        sample(topk=None),
        sample(topk=2.5),
        sample(_input_col_name=None),
        filtering(_input_col=None),
        filtering(_filter_out_col=["user"]),
        search("query", "other"),
        search(path=None),
        search(path=".."),
        search(path="/tmp/ensemble.pkl"),
        search(path="/tmp/model.py"),
        search(path="/tmp/__init__.py"),
        search(path="a\nb"),
        search(topk=0),
        lookup(repo_path=None),
        lookup(repo_path="/"),
        lookup(repo_path="/tmp/.."),
        lookup(repo_path="/tmp/ensemble.pkl"),
        lookup(repo_path="/tmp/model.py"),
        lookup(ragged=False),
        lookup(entity_view="a\nb"),
        lookup(entity_column=3),
        lookup(features="age"),
        lookup(features=[1]),
        lookup(features=["unknown"]),
        lookup(features=["of_age", "age"]),
        lookup(mh_features=None),
        lookup(include_id=1),
        lookup(output_prefix=None),
        lookup(features=[], mh_features=[], include_id=False),
        search(topk=None),
        recommend(model_module_name="os.path"),
        recommend(model_module_name="implicitly"),
        recommend(model_module_name="implicit.cpu; import os"),
        recommend(model_class_name="a.b"),
        recommend(num_to_recommend="7"),
    ],
)
def test_what_merlin_does_not_write_is_left_to_merlin(node: Node) -> None:
    assert find_work(node) is None


def test_another_class_of_that_name_is_left_to_merlin() -> None:
    node = filtering()
    mine = replace(node, operator=replace(node.operator, class_name="shop.FilterCandidates"))
    assert find_work(mine) is None


def test_names_that_meet_are_left_to_merlin() -> None:
    """It takes columns away one after the other, as they get their new names."""
    graph = Graph()
    user, twice = column("a"), column("u_a")
    state = {"item_id_col": "item", "unrolled_prefix": "u", "unroll_cols": Selected()}
    node = graph.operator(UNROLL, state, [ITEM], graph.select(ITEM), graph.select(user, twice))
    assert find_work(node) is None


def test_shapes_and_types_follow_from_what_comes() -> None:
    """Repeated lists have one length; what is sampled is one row."""
    work = find_work(unroll())
    assert work is not None
    config = make_config(
        work,
        [
            TensorSpec("item", "TYPE_INT64", (-1,)),
            TensorSpec("user__values", "TYPE_INT32", (-1, 4)),
            TensorSpec("user__offsets", "TYPE_INT32", (-1,)),
            TensorSpec("age", "TYPE_FP32", (1, 8)),
        ],
    )
    assert config.outputs == {
        "u_user": TensorSpec("u_user", "TYPE_INT32", (-1, -1, 4)),
        "u_age": TensorSpec("u_age", "TYPE_FP32", (-1, 8)),
    }
    drawn = find_work(sample())
    assert drawn is not None
    ids, scores = TensorSpec("item", "TYPE_INT32", (5,)), TensorSpec("score", "TYPE_FP64", (5, 1))
    assert make_config(drawn, [ids, scores]).outputs == {
        "ordered_ids": TensorSpec("ordered_ids", "TYPE_INT32", (-1, -1)),
        "ordered_scores": TensorSpec("ordered_scores", "TYPE_FP64", (-1, -1)),
    }


def unrolling(*more: Node, inline: bool = False) -> Graph:
    """request -> users repeated for each item -> predictor."""
    graph = Graph()
    state = {"item_id_col": "item", "unrolled_prefix": "u", "unroll_cols": Selected("user")}
    output = [ITEM, column("u_user")]
    node = graph.operator(UNROLL, state, output, graph.select(ITEM), graph.select(USER))
    if inline:
        node = graph.inline("shop.Novel", node)
    graph.call(predictor("p", (ITEM, column("u_user")), CLICK, "item + u_user"), node)
    return graph


def test_what_searches_takes_all_that_reaches_it() -> None:
    """Merlin's takes the first column, of which nobody knows which one it is."""
    graph = Graph()
    vectors, more = column("query", "float32"), column("more", "float32")
    state = {"index_path": "items.faiss", "topk": 3}
    first, other = graph.select(vectors), graph.select(more)
    output = [column("candidate_ids", "int32")]
    graph.operator(SEARCH, state, output, first, other)
    graph.nodes[-1] = replace(graph.nodes[-1], inputs=("query",))
    assert [it.operator for it in wire_graph(graph, vectors, more).inlines.values()] == [
        "QueryFaiss"
    ]
    alone = Graph()
    alone.operator(SEARCH, state, output, alone.select(vectors))
    parts = gather_parts(alone, [vectors], shapes={"query": "-1, 8"})
    (key,) = parts.calls
    assert parts.find_config(key).outputs["candidate_ids"] == TensorSpec(
        "candidate_ids", "TYPE_INT32", (-1,)
    )


def test_it_is_called_as_a_model_is() -> None:
    """What it does not write keeps its source."""
    wiring = wire_graph(unrolling(), ITEM, USER)
    step, predict = wiring.calls
    assert step.key == step.model_name == "UnrollFeatures//2"
    assert step.sources == {"item": Source(REQUEST, "item"), "user": Source(REQUEST, "user")}
    assert predict.sources == {
        "item": Source(REQUEST, "item"),
        "u_user": Source(FromCall(step.key), "u_user"),
    }
    assert not wiring.inlines


def test_beside_other_operators_merlin_runs_it() -> None:
    """Merlin's own code runs parts of the graph then."""
    wiring = wire_graph(unrolling(inline=True), ITEM, USER)
    assert [call.key for call in wiring.calls] == ["p"]
    assert [inline.operator for inline in wiring.inlines.values()] == [
        "UnrollFeatures",
        "Novel",
    ]


def test_an_older_release_runs_it_itself() -> None:
    class Outdated(Graph):
        def done(self) -> ExecutorGraph:
            return replace(super().done(), outdated="23.02")

    graph = Outdated(unrolling().nodes)
    assert [inline.operator for inline in wire_graph(graph, ITEM, USER).inlines.values()] == [
        "UnrollFeatures"
    ]


def test_a_column_that_does_not_reach_it() -> None:
    graph = unrolling()
    with pytest.raises(GraphNotServable, match="this column"):
        wire_graph(graph, USER)


def test_its_tensors_are_those_that_come() -> None:
    """Of the type that they have, whatever the schema says."""
    ragged = column("user", "int32", ragged=True)
    graph = Graph()
    state = {"item_id_col": "item", "unrolled_prefix": "", "unroll_cols": Selected("user")}
    output = [ITEM, column("user", "int32", ragged=True)]
    graph.operator(UNROLL, state, output, graph.select(ITEM), graph.select(ragged))
    parts = gather_parts(graph, [ITEM, ragged])
    plan = parts.plans["UnrollFeatures//2"]
    assert [spec.name for spec in plan.specs] == ["item", "user__values", "user__offsets"]
    assert parts.find_config("UnrollFeatures//2").outputs["user"].dims == (-1, -1)
    (again,) = parts.plans["/answer"].conversions  # repeated rows are a list again in the answer
    assert again.kind.value == "splits the rows of"
    assert PATH
