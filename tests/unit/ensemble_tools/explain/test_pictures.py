"""The picture's data, its folding and its layout."""

from __future__ import annotations

import html
import itertools
import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.commands.explain import FORMATS, render_plans
from ensemble_tools.errors import GraphNotExpressible
from ensemble_tools.explain.archive_picture import make_picture
from ensemble_tools.explain.fold import MOST_UNFOLDED, folded
from ensemble_tools.explain.graphviz import dot, draw, plain
from ensemble_tools.explain.picture import Box, Edge, Picture, Side, Workflow
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.opened_archive import Archive
from ensemble_tools.serving.plan import Choices, Rewrite, plan_archive
from tests.golden.archives import PREDICTOR, Graph, Step, column, write_executor
from tests.golden.cases import CASES, Case, nested_subgraph, predictor, workflow
from tests.support.examples import examples

FOREST = Path(__file__).parents[4] / "examples/merlin/forest_xgboost/repository"
MULTISTAGE = Path(__file__).parents[4] / "examples/multistage/repository"
USER, CLICK = column("user"), column("click", "float32")


def picture(case: Case, root: Path) -> Picture:
    plan = case.plan(root)
    return make_picture(Archive(read_repository(root), case.graph, plan=plan), "model")


def edges_of(side: Side) -> dict[tuple[str, str], list[str]]:
    return {
        (edge.source, edge.target): [flow.target_name for flow in edge.flows] for edge in side.edges
    }


@pytest.mark.parametrize("name", CASES)
def test_sides_are_whole(name: str, tmp_path: Path) -> None:
    """Edges join boxes that are there, boxes come after what feeds them, all calls correspond."""
    found = picture(CASES[name](), tmp_path)
    for side in found.sides:
        place_of = {node.id: number for number, node in enumerate(side.nodes)}
        assert len(place_of) == len(side.nodes)
        assert all(place_of[edge.source] < place_of[edge.target] for edge in side.edges)
        assert all(edge.flows or side is found.merlin for edge in side.edges)
    assert found.merlin is not None
    corresponding = {first for first, _ in found.correspondences}
    calls = {node.id for node in found.merlin.nodes if node.kind == "call"}
    unused = {"unused_output"}  # none of its calls is
    assert calls <= corresponding or name in unused


def test_columns_of_merlins_edges(tmp_path: Path) -> None:
    """Of two columns of one name the later one arrives; the request gives what is missing."""
    found = picture(CASES["later_overrides"](), tmp_path / "a").merlin
    assert found is not None
    edges = edges_of(found)
    assert edges["merlin.1", "merlin.4"] == ["item"]
    assert edges["merlin.3", "merlin.4"] == ["user"]
    dropped = picture(CASES["dropped_column"](), tmp_path / "b").merlin
    assert dropped is not None
    assert edges_of(dropped)["merlin.request", "merlin.3"] == ["item"]


def test_subgraph_is_drawn_in_place(tmp_path: Path) -> None:
    """The operators inside a Subgraph are boxes that say where they are."""
    found = picture(nested_subgraph(), tmp_path).merlin
    assert found is not None
    inside = [node for node in found.nodes if node.within]
    assert inside
    assert all(node.id.count(".") >= 2 for node in inside)
    assert any(node.kind == "subgraph" for node in found.nodes)


def test_cast_is_an_edges_own(tmp_path: Path) -> None:
    """Where Merlin's executor casts, the edge says from what to what."""
    graph = Graph()
    prepare = Step("0_w", (USER,), (column("u", "int32"),), {"u": "user"})
    predict = predictor("1_p", (column("u"),), CLICK, "u")
    graph.call(predict, graph.call(prepare, graph.select(USER)))
    case = Case(graph.done(), (prepare, predict), (USER,))
    case.write(tmp_path)
    error = GraphNotExpressible(tmp_path, "PredictPyTorchTriton", ("u",), "because", "remedy")
    archive = Archive(read_repository(tmp_path), case.graph, refusal=error)
    found = make_picture(archive, "model")
    assert found.merlin is not None
    casts = [flow for edge in found.merlin.edges for flow in edge.flows if flow.is_cast]
    assert [(flow.source_dtype, flow.target_dtype) for flow in casts] == [("int32", "int64")]
    assert found.refused_at == ("merlin.2",)


@pytest.mark.parametrize("rewrite", [Rewrite.AUTO, Rewrite.EXECUTOR])
def test_who_calls_the_forest(rewrite: Rewrite) -> None:
    """A forest is a box that the generated step, or the executor, calls; its answer is read."""
    repository = read_repository(FOREST)
    graph = read_executor_graph(repository)
    plan = plan_archive(repository, graph, Namespace("model"), Choices(rewrite=rewrite))
    found = make_picture(Archive(repository, graph, plan=plan), "model")
    assert found.triton is not None
    titles = {node.id: node.title for node in found.triton.nodes}
    called = [
        (titles[edge.source], titles[edge.target]) for edge in found.triton.edges if edge.calls
    ]
    caller = "model.forest" if rewrite is Rewrite.AUTO else "model"
    assert [pair for pair in called if "fil" in pair[1]] == [(caller, "model.1_filtriton")]
    assert len(called) == (1 if rewrite is Rewrite.AUTO else 2)
    assert found.left_out == ()
    assert ("merlin.2", "triton.model.model.1_filtriton") in found.correspondences


def test_steps_in_the_place_of_operators() -> None:
    """Each stands beside its operator and has that one's reason alone; a note is said once."""
    repository = read_repository(MULTISTAGE)
    graph = read_executor_graph(repository)
    found = make_picture(
        Archive(repository, graph, plan=plan_archive(repository, graph, Namespace("m"))), "m"
    )
    assert found.triton is not None
    titles = {node.id: node.title for node in found.triton.nodes}
    pairs = {merlin: titles[ours] for merlin, ours in found.correspondences}
    assert {pairs[f"merlin.{place}"] for place in (1, 7)} == {"m.lookup", "m.lookup_2"}
    assert [pairs[f"merlin.{place}"] for place in (4, 10, 13)] == [
        "m.search",
        "m.unroll",
        "m.sample",
    ]
    about = {
        reason.text.partition(":")[0]: {titles[node] for node in reason.nodes if node in titles}
        for reason in found.reasons
    }
    assert about["QueryFeast"] == {"m.lookup", "m.lookup_2"}
    assert about["QueryFaiss"] == {"m.search"}
    assert [note for note in found.notes if "needs Feast" in note] == [
        "QueryFeast: its step needs Feast in the Python that runs models"
    ]


# --- large graphs -------------------------------------------------------------------------------


def wide_graph(branches: int, root: Path) -> tuple[ExecutorGraph, Path]:
    """A selection and a workflow a branch, all into one predictor."""
    graph, called = Graph(), []
    columns = [column(f"c{number}") for number in range(branches)]
    for number, wide_column in enumerate(columns):
        step = workflow(f"{number}_workflow", (wide_column,))
        called.append(graph.call(step, graph.select(wide_column)))
    joined = graph.concat(*called)
    predict = Step(f"{branches}_p", joined.output, (CLICK,), {}, PREDICTOR)
    graph.call(predict, joined)
    write_executor(root, columns, (CLICK,))
    return graph.done(), root


@pytest.mark.slow
def test_five_hundred_operators(tmp_path: Path) -> None:
    """They are explained in every format in a few seconds, folded to what fits a page."""
    graph, root = wide_graph(249, tmp_path)
    error = GraphNotExpressible(tmp_path, "x", (), "because", "remedy")
    archive = Archive(read_repository(root), graph, refusal=error)
    assert len(graph.nodes) == 500
    started = time.process_time()
    assert all(render_plans(archive, "large", form) for form in FORMATS)
    assert time.process_time() - started < 10
    small = folded(make_picture(archive, "large"))
    assert small.merlin is not None
    assert [node.title for node in small.merlin.nodes] == [
        "request",
        "249 SelectionOp",
        "249 TransformWorkflowTriton",
        "#498 ConcatColumns",
        "#499 PredictPyTorchTriton",
        "answer",
    ]


@st.composite
def sides(chosen: st.DrawFn, most: int = 90) -> Side:
    """A graph without circles: each box is fed by some earlier ones."""
    count = chosen(st.integers(2, most))
    kinds = [
        "request",
        *chosen(st.lists(st.sampled_from(["call", "selection"]), min_size=count, max_size=count)),
        "answer",
    ]
    nodes = tuple(
        Box(f"merlin.{number}", kind, f"#{number} {kind.title()}Op", outputs=())
        for number, kind in enumerate(kinds)
    )
    edges = []
    for number in range(1, len(nodes)):
        feeding = chosen(
            st.sets(st.integers(max(0, number - 9), number - 1), min_size=1, max_size=3)
        )
        edges += [Edge(f"merlin.{source}", f"merlin.{number}") for source in sorted(feeding)]
    return Side("Merlin's graph", nodes, tuple(edges))


@settings(max_examples=examples(50))
@given(sides())
def test_folding_loses_nothing(side: Side) -> None:
    """Every operator is in one box, no edge leads up, small pictures stay as they are."""
    small = folded(Picture("a", "m", None, None, merlin=side)).merlin
    assert small is not None
    assert sum(node.folded for node in small.nodes) == len(side.nodes)
    place_of = {node.id: number for number, node in enumerate(small.nodes)}
    assert all(place_of[edge.source] < place_of[edge.target] for edge in small.edges)
    if len(side.nodes) <= MOST_UNFOLDED:
        assert small == side


@pytest.mark.parametrize(
    ("reasons", "mark"),
    [
        ([""], "compiled: numpy"),
        (["a"], "not compiled"),
        (["a", "b"], "not compiled"),
        (["", "a"], None),
        ([None, ""], None),
    ],
)
def test_folded_workflows(reasons: list[str | None], mark: str | None) -> None:
    """A box that stands for several is marked where the mark is true of all of them."""
    steps = [
        Box(
            f"triton.step.{number}",
            "step",
            f"m.{number}",
            "python",
            workflow=None if reason is None else Workflow((), reason),
        )
        for number, reason in zip(range(60), itertools.cycle(reasons))
    ]
    nodes = (Box("triton.request", "request", "request"), *steps)
    edges = tuple(Edge("triton.request", step.id) for step in steps)
    side = Side("What Triton serves", nodes, edges)
    small = folded(Picture("a", "m", None, None, triton=side)).triton
    assert small is not None
    workflows = [node.workflow for node in small.nodes if node.folded > 1]
    assert [shown and shown.mark for shown in workflows] == [mark]


@settings(max_examples=examples(8))
@given(sides(most=40))
def test_both_sides_stand_in_place(side: Side) -> None:
    """Merlin's graph is on the left; an edge leads down, and never from a model to an operator."""
    other = replace(
        side,
        nodes=tuple(replace(node, id=_on_the_right(node.id), kind="step") for node in side.nodes),
        edges=tuple(
            Edge(_on_the_right(edge.source), _on_the_right(edge.target)) for edge in side.edges
        ),
    )
    pairs = tuple((node.id, _on_the_right(node.id)) for node in side.nodes)
    shown = Picture("a", "m", None, None, merlin=side, triton=other, correspondences=pairs)
    laid_out = _laid_out(shown)
    left, right = laid_out["cluster_merlin"], laid_out["cluster_triton"]
    assert left[2] <= right[0]
    for number in range(len(folded(shown).sides[0].nodes) - 1):
        assert laid_out[f"n{number}"][0] < left[2]


def _on_the_right(merlins: str) -> str:
    return merlins.replace("merlin", "triton")


def _laid_out(shown: Picture) -> dict[str, tuple[float, ...]]:
    """Of each box and frame, by Graphviz's names: left, bottom, right, top; a box's middle."""
    run = subprocess.run(
        ["dot", "-Tjson0"], input=dot(shown).encode(), capture_output=True, check=True, timeout=60
    )
    return {
        thing["name"]: tuple(map(float, (thing.get("bb") or thing["pos"]).split(",")))
        for thing in json.loads(run.stdout)["objects"]
    }


def test_pairs_share_a_row() -> None:
    """What corresponds stands side by side; a pair that would make a circle does not."""

    def side(whose: str, names: str) -> Side:
        ids = [f"{whose}.{name}" for name in names]
        edges = tuple(Edge(*pair) for pair in itertools.pairwise(ids))
        return Side(whose, tuple(Box(name, "step", name) for name in ids), edges)

    def rows(*pairs: tuple[str, str]) -> dict[str, float]:
        shown = Picture("a", "m", None, None, side("merlin", "abc"), side("triton", "xy"), pairs)
        laid_out = _laid_out(shown)
        return {name: laid_out[f"n{number}"][1] for number, name in enumerate("abcxy")}

    parallel = rows(("merlin.a", "triton.x"), ("merlin.c", "triton.y"))
    assert parallel["a"] == parallel["x"]
    assert parallel["c"] == parallel["y"]
    crossed = rows(("merlin.a", "triton.y"), ("merlin.c", "triton.x"))
    assert crossed["a"] > crossed["b"] > crossed["c"]
    assert crossed["x"] > crossed["y"]


# --- words --------------------------------------------------------------------------------------


@given(st.text(max_size=300), st.integers(6, 60))
def test_plain(text: str, most: int) -> None:
    """Text is cut to its place, and is printable ASCII and … alone."""
    cut = html.unescape(plain(text, most))
    assert len(cut) <= most + 1
    assert all(char == "…" or " " <= char <= "~" for char in cut)


@given(st.text(max_size=8), st.text(max_size=8))
def test_plain_tells_apart(first: str, second: str) -> None:
    """Names that differ beyond ASCII are written differently."""
    if "\\" not in first + second and first.strip(" ") and second.strip(" ") and first != second:
        assert plain(first) != plain(second)


def test_a_refusal_alone(tmp_path: Path) -> None:
    """An archive in which nothing was found has a picture that says why."""
    (tmp_path / "m/1").mkdir(parents=True)
    drawn = draw(Picture(str(tmp_path), "m", None, None, refusal="x " * 400), "svg")
    assert b"Refused: x x" in drawn
