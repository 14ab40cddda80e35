"""ensemble.pkl into an executor graph: what Merlin sees, without Merlin."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools.archive.executor_graph import ExecutorGraph, SchemaColumn
from ensemble_tools.archive.graph_reader import read_graph_file
from ensemble_tools.archive.inert_pickle import MAX_OPCODES
from ensemble_tools.errors import EntryRefused, GraphNotInert, GraphUnreadable
from tests.support.examples import examples

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[4]
MERLIN_PYTHON = ROOT / ".venv-merlin/bin/python"
EXPORTS = sorted((ROOT / "examples/merlin").glob("*/repository/executor_model/1/ensemble"))
#: Importing Merlin takes 5 s on an idle machine.
MERLIN_SECONDS = 600.0
#: A refusal takes milliseconds; a hostile graph could take until the end of the world.
BOMB_SECONDS = 30.0


@pytest.fixture(scope="module")
def seen_by_merlin() -> list[Any]:
    """What Merlin itself reads, export by export."""
    done = subprocess.run(
        [str(MERLIN_PYTHON), str(HERE / "dump_graph.py"), *map(str, EXPORTS)],
        capture_output=True,
        text=True,
        timeout=MERLIN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def as_json(graph: ExecutorGraph) -> list[dict[str, Any]]:
    return [
        {
            "class": node.operator.class_name,
            "model": node.operator.model_name,
            "upstream": list(node.upstream),
            "selection": list(node.selection),
            "inputs": list(node.inputs),
            "dependency_columns": list(node.dependency_columns),
            "output": columns(node.output),
            "operator_in": columns(node.operator.columns_in),
            "operator_out": columns(node.operator.columns_out),
        }
        for node in graph.nodes
    ]


def columns(schema: tuple[SchemaColumn, ...]) -> list[list[Any]]:
    return [[column.name, column.dtype, column.is_ragged] for column in schema]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXPORTS)), ids=lambda n: EXPORTS[n].parts[-5])
def test_what_merlin_sees(number: int, seen_by_merlin: list[Any]) -> None:
    """Nodes, operators, models, edges, selections and columns are those that Merlin reads."""
    read = as_json(read_graph_file(EXPORTS[number] / "ensemble.pkl"))
    assert read == seen_by_merlin[number]


def test_nothing_is_imported() -> None:
    """Reading every export in a fresh process brings in no module at all."""
    script = """
import sys
from pathlib import Path
from ensemble_tools.archive.graph_reader import read_graph_file
before = set(sys.modules)
for path in sys.argv[1:]:
    read_graph_file(Path(path) / "ensemble.pkl")
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, EXPORTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=MERLIN_SECONDS,
        check=True,
    )
    assert done.stdout.strip() == "[]"


# --- graphs made by hand, pickled by classes of Merlin's shape ------------------------------------


class Thing:
    """Any object of Merlin's: attributes and no more."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def schema(*names: str) -> Thing:
    dtype = Thing(name="int64")
    return Thing(column_schemas={name: Thing(dtype=dtype, is_ragged=False) for name in names})


def node(*parents: Any, op: Any = None, **attributes: Any) -> Thing:
    usual = {
        "parents": list(parents),
        "dependencies": [],
        "op": op or Thing(),
        "input_schema": schema("a"),
        "output_schema": schema("a"),
        "_selector": None,
    }
    return Thing(**{**usual, **attributes})


def ensemble(output: Any) -> Thing:
    return Thing(graph=Thing(output_node=output))


def read(value: Any, tmp_path: Path) -> ExecutorGraph:
    path = tmp_path / "ensemble.pkl"
    path.write_bytes(pickle.dumps(value))
    return read_graph_file(path)


def test_selector(tmp_path: Path) -> None:
    """Names, subgroups, tags and * select as merlin-core's ColumnSelector does."""
    group = Thing(_names=["b", "a"], _tags=[], subgroups=[], _all=False)
    cases = [
        (Thing(_names=["c"], _tags=[], subgroups=[group], _all=False), ("c", "b", "a")),
        (Thing(_names=["x", "b"], _tags=[], subgroups=[], _all=False), ("b",)),
        (Thing(_names=[], _tags=["t"], subgroups=[], _all=False), ("a", "b", "c")),
        (Thing(_names=[], _tags=[], subgroups=[], _all=True), ("a", "b", "c")),
        (Thing(_names=[], _tags=[], subgroups=[], _all=False), ("a", "b", "c")),
        (None, ("a", "b", "c")),
    ]
    for selector, selection in cases:
        selecting = node(input_schema=schema("a", "b", "c"), _selector=selector)
        assert read(ensemble(selecting), tmp_path).output_node.selection == selection


def test_shared_nodes(tmp_path: Path) -> None:
    """A node that others share is one node, and comes before them."""
    shared = node()
    graph = read(ensemble(node(node(shared), node(shared), dependencies=[[shared]])), tmp_path)
    assert [node.upstream for node in graph.nodes] == [(), (0,), (0,), (1, 2, 0)]


@pytest.mark.slow
def test_long_graph(tmp_path: Path) -> None:
    """A chain of nodes may be longer than Python's stack is deep."""
    nodes = [node()]
    for _ in range(3000):
        nodes.append(node(nodes[-1]))
    # The list comes first: each node then finds its parent pickled, and pickling does not recurse.
    graph = read(Thing(flat=nodes, graph=Thing(output_node=nodes[-1])), tmp_path)
    assert [node.upstream for node in graph.nodes] == [(), *((n,) for n in range(3000))]


def doubled(depth: int) -> Thing:
    """A selector whose two subgroups are one, and so on: 2 ** depth paths in a few bytes."""
    selector = Thing(_names=["a"], _tags=[], subgroups=[], _all=False)
    for _ in range(depth):
        selector = Thing(_names=[], _tags=[], subgroups=[selector, selector], _all=False)
    return selector


def cyclic_selector() -> Thing:
    selector = Thing(_names=["a"], _tags=[], subgroups=[], _all=False)
    selector.subgroups.append(selector)
    return selector


def cyclic_nodes() -> Thing:
    own_parent = node()
    own_parent.parents.append(node(own_parent))
    return own_parent


def own_subgraph() -> Thing:
    operator = Thing()
    around_itself = node(op=operator)
    operator.__dict__["graph"] = Thing(output_node=around_itself)
    return around_itself


def many_parents() -> Thing:
    """Lists of a thousand parents each, shared by a thousand nodes each, in four floors."""
    floor = [node()] * 2000
    for _ in range(2):
        floor = [node(*floor) for _ in range(1)] * 2000
    top = node()
    top.parents.extend([floor] * 2000)
    return top


def many_columns() -> Thing:
    wide = schema(*(f"c{n}" for n in range(3000)))
    shared = [node(output_schema=wide)]
    return node(dependencies=shared * 3000)


HOSTILE: dict[str, Callable[[], Any]] = {
    "no object": lambda: 5,
    "no graph": Thing,
    "graph without nodes": lambda: Thing(graph=Thing()),
    "a list for a node": lambda: ensemble([]),
    "a node of another kind": lambda: ensemble(Thing(parents=[], dependencies=[])),
    "parents that are no list": lambda: ensemble(node(parents={})),
    "a parent that is no node": lambda: ensemble(node("a")),
    "columns that are no dict": lambda: ensemble(node(input_schema=Thing(column_schemas=[]))),
    "a column without a name": lambda: ensemble(
        node(input_schema=Thing(column_schemas={5: Thing()}))
    ),
    "a column that is no object": lambda: ensemble(
        node(input_schema=Thing(column_schemas={"a": 5}))
    ),
    "an operator that is no object": lambda: ensemble(node(op=5)),
    "a selector that is no object": lambda: ensemble(node(_selector=5)),
    "a name that is no name": lambda: ensemble(node(_selector=Thing(_names=[5]))),
    "a node above itself": lambda: ensemble(cyclic_nodes()),
    "a graph inside itself": lambda: ensemble(own_subgraph()),
    "a selector inside itself": lambda: ensemble(node(_selector=cyclic_selector())),
}

#: What Merlin may read, given the time: nothing is known of it here.
ENDLESS: dict[str, Callable[[], Any]] = {
    "a selector doubled": lambda: ensemble(node(_selector=doubled(60))),
    "many parents": lambda: ensemble(many_parents()),
    "many columns": lambda: ensemble(many_columns()),
}


@pytest.mark.parametrize("graph", [None, 5, {}, Thing(edges=[])])
def test_what_an_operator_calls_its_graph(graph: Any, tmp_path: Path) -> None:
    """One of the user's may have anything of that name, and is no Subgraph."""
    (made,) = read(ensemble(node(op=Thing(graph=graph))), tmp_path).nodes
    assert made.operator.subgraph is None


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_graph(kind: str, tmp_path: Path) -> None:
    """What is no graph, or one without end, is refused fast, in a sentence that names the file."""
    started = time.process_time()
    with pytest.raises(GraphUnreadable) as refusal:
        read(HOSTILE[kind](), tmp_path)
    assert time.process_time() - started < BOMB_SECONDS
    assert refusal.value.path == tmp_path / "ensemble.pkl"
    assert len(str(refusal.value)) < 300 + len(str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENDLESS)
def test_graph_that_takes_too_much(kind: str, tmp_path: Path) -> None:
    """It is given up fast, in a sentence that names the limit."""
    started = time.process_time()
    with pytest.raises(GraphNotInert, match="more than 1000000 nodes, edges and columns"):
        read(ENDLESS[kind](), tmp_path)
    assert time.process_time() - started < BOMB_SECONDS


def test_pickle_that_takes_too_much(tmp_path: Path) -> None:
    """Merlin may read it; it is not called broken."""
    path = tmp_path / "ensemble.pkl"
    path.write_bytes(b"\x80\x04" + b"N0" * (MAX_OPCODES // 2) + b"N.")
    with pytest.raises(GraphNotInert, match=r"more than 2000000 opcodes$"):
        read_graph_file(path)


@pytest.mark.slow
def test_a_group_of_many_columns(tmp_path: Path) -> None:
    """Its time grows with their number, not with its square: more than a minute."""
    names = [f"c{number}" for number in range(60_000)]
    group = Thing(_names=names, subgroups=[], _tags=[], _all=False)
    selector = Thing(_names=[], subgroups=[group], _tags=[], _all=False)
    started = time.process_time()
    graph = read(ensemble(node(_selector=selector, input_schema=schema(*names))), tmp_path)
    assert graph.output_node.groups == (tuple(names),)
    assert time.process_time() - started < BOMB_SECONDS


def test_odd_attribute_names(tmp_path: Path) -> None:
    """An operator's attributes may have any names; only a model's name names a model."""
    operator = Thing(_nvt_model_name="0_workflow", _torch_model_name=None)
    attributes: dict[Any, Any] = operator.__dict__
    attributes[10**5000] = "x"
    graph = read(ensemble(node(op=operator)), tmp_path)
    assert graph.output_node.operator.model_name == "0_workflow"


def test_shared_subgraphs(tmp_path: Path) -> None:
    """A graph that many Subgraph operators share is read once: 2 ** 60 paths are no work."""
    inner = Thing(output_node=node())
    for _ in range(60):
        inner = Thing(output_node=node(node(op=Thing(graph=inner)), op=Thing(graph=inner)))
    graph = read(Thing(graph=inner), tmp_path)
    first, second = (node.operator.subgraph for node in graph.nodes)
    assert first is second


def test_unreadable_files(tmp_path: Path) -> None:
    """A file that is not there, no file, or no pickle, however long, is refused by name."""
    huge = tmp_path / "huge.pkl"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    for path in (tmp_path / "nothing.pkl", tmp_path, huge):
        with pytest.raises((GraphUnreadable, EntryRefused), match=path.name):
            read_graph_file(path)


@settings(max_examples=examples(300))
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4))
def test_flipped_bytes_of_a_graph(
    flips: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With any bytes changed, a real export is a graph or one of two errors, and nothing else."""
    data = bytearray((EXPORTS[0] / "ensemble.pkl").read_bytes())
    for place, value in flips:
        data[place % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "flipped.pkl"
    path.write_bytes(data)
    try:
        graph = read_graph_file(path)
    except (GraphUnreadable, GraphNotInert):
        return
    assert isinstance(graph, ExecutorGraph)
