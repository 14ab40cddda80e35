"""A workflow's graph.json is read as its pickle would be; what it is not is told in one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.archive.graph_json import MAX_DEPTH, read_graph_json
from ensemble_tools.archive.graph_reader import read_graph_file
from ensemble_tools.archive.json_fields import NotAWorkflow
from ensemble_tools.archive.saved_workflow import find_workflow_file
from ensemble_tools.archive.workflow_files import read_workflow_files
from ensemble_tools.errors import EntryRefused

EXPORTS = Path(__file__).parents[3] / "golden/graph_json"
WORKFLOW = "repository/0_transformworkflowtriton/1/workflow"

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def dense() -> str:
    """What NVTabular wrote: 0 to 9 are SelectionOp, FillMissing, SelectionOp, Clip, LogOp,
    SelectionOp, NormalizeMinMax, Normalize, Categorify and ConcatColumns.
    """
    return (EXPORTS / "dense" / WORKFLOW / "graph.json").read_text()


def read_text(directory: Path, text: str | bytes) -> Any:
    path = directory / "graph.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_graph_json(path)


def put(place: str, value: object) -> Change:
    """Puts a value at a place such as `nodes/3/id`; what has no value loses the field."""

    def change(graph: dict[str, Any]) -> None:
        *path, last = place.split("/")
        found: Any = graph
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found[part]
        key: Any = int(last) if isinstance(found, list) else last
        if value is ...:
            del found[key]
        else:
            found[key] = value

    return change


def calling(module: object, qualname: object) -> Change:
    """A LambdaOp in the place of Clip."""

    def change(graph: dict[str, Any]) -> None:
        node = graph["nodes"][3]
        node["op_class"] = "nvtabular.ops.lambdaop.LambdaOp"
        node["op_params"] = {"f": {"module": module, "qualname": qualname}, "dependency": []}

    return change


def joined(graph: dict[str, Any]) -> None:
    """A JoinGroupby of three columns that are combined in the place of Categorify."""
    node = graph["nodes"][8]
    node["op_class"] = "nvtabular.ops.join_groupby.JoinGroupby"
    node["op_params"] = {"stats": ["sum"], "cont_cols": ["price"]}
    together = "_".join(node["selector"]["names"])
    node["op_state"]["categories"] = [{"key": [together], "path": "categories/x.parquet"}]
    node["op_state"]["storage_name"] = dict.fromkeys(node["selector"]["names"], together)


def nested(depth: int) -> Change:
    """Subgraphs within each other, around the whole graph."""

    def change(graph: dict[str, Any]) -> None:
        for _ in range(depth):
            inner = {"output_node_id": graph["output_node_id"], "nodes": graph["nodes"]}
            record = {
                **inner["nodes"][-1],
                "id": 0,
                "op_class": "merlin.dag.ops.subgraph.Subgraph",
                "op_params": {"name": "s", "loop_until": None, "inner_graph": inner},
                "op_state": {},
                "parent_ids": [],
                "dependency_ids": [],
            }
            graph.update(output_node_id=0, nodes=[record])

    return change


def test_nodes_and_columns_are_those_of_the_file(dense: str) -> None:
    """Operators, edges, selections and types, in the order in which they are run."""
    graph = read_graph_file(EXPORTS / "dense" / WORKFLOW / "graph.json")
    assert [(node.operator.label, node.upstream, node.selection) for node in graph.nodes] == [
        ("SelectionOp", (), ("user_id", "category", "city")),
        ("Categorify", (0,), ("user_id", "category", "city")),
        ("SelectionOp", (), ("price",)),
        ("LogOp", (2,), ("price",)),
        ("Normalize", (3,), ("price",)),
        ("SelectionOp", (), ("age",)),
        ("FillMissing", (5,), ("age",)),
        ("Clip", (6,), ("age",)),
        ("NormalizeMinMax", (7,), ("age",)),
        ("ConcatColumns", (1, 4, 8), ("user_id", "category", "city", "price", "age")),
    ]
    types = [column.dtype for column in graph.output_node.output]
    assert types == ["int64", "int64", "int64", "float64", "float64"]


def test_of_two_files_graph_json_is_the_workflow(tmp_path: Path) -> None:
    """A pickle beside it was left by an earlier export: NVTabular that writes graph.json reads it
    alone.
    """
    assert find_workflow_file(tmp_path) == tmp_path / "workflow.pkl"
    (tmp_path / "workflow.pkl").write_bytes(b"no pickle")
    assert find_workflow_file(tmp_path) == tmp_path / "workflow.pkl"
    (tmp_path / "graph.json").write_text("{}")
    assert find_workflow_file(tmp_path) == tmp_path / "graph.json"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put("format_version", 2), "its format_version is 2, and 1 is known"),
        (put("format_version", "1"), "format_version is a text, expected a whole number"),
        (put("format_version", True), "format_version is true or false, expected a whole number"),
        (put("nodes", ...), "the file: nodes is missing"),
        (put("nodes", {}), "the file: nodes is an object, expected a list"),
        (put("nodes", []), "output_node_id is 9, and there is no such node"),
        (put("nodes/3", None), "the file: node at place 3 is null, expected an object"),
        (put("output_node_id", 77), "output_node_id is 77, and there is no such node"),
        (put("nodes/3/id", 4), "node at place 4: id is 4, as another node's is"),
        (put("nodes/3/id", 3.0), "node at place 3: id is a number, expected a whole number"),
        (put("nodes/3/op_class", None), "node 3: op_class is null, expected a text"),
        (
            put("nodes/3/op_class", "nvtabular.ops.groupby.Groupby"),
            "node 3: op_class is 'nvtabular.ops.groupby.Groupby', which has no form in it",
        ),
        (put("nodes/3/op_params", []), "op_params is a list, expected an object"),
        (
            put("nodes/1/op_params/fill_val", [10]),
            "node 1 (FillMissing): op_params: fill_val is a list, expected a text or a whole numb",
        ),
        (put("nodes/3/op_params", {}), "min_value and max_value are null, expected one of them"),
        (put("nodes/3/parent_ids", [77]), "node 3: parent_ids has 77, and there is no such node"),
        (put("nodes/9/dependency_ids", [77]), "node 9: dependency_ids has 77, and there is no su"),
        (put("nodes/3/parent_ids", [3]), "its nodes go in a circle (3, 3)"),
        (put("nodes/1/parent_ids", [3]), "its nodes go in a circle ("),
        (put("nodes/9/dependency_ids", ["7"]), "dependency_ids has a text among its ids"),
        (put("nodes/3/selector", {"tags": []}), "node 3 (Clip): selector: names is missing"),
        (put("nodes/3/selector/names", [["age"]]), "names has a list among its names"),
        (put("nodes/3/input_schema", None), "input_schema is null, expected a list"),
        (
            put("nodes/3/output_schema/0/dtype/name", 5),
            "output_schema, column 0: dtype: name is a whole number, expected a text",
        ),
        (
            put("nodes/3/output_schema/0/dtype/shape/0/min", None),
            "dimension 0: min is null, expected a whole number",
        ),
        (put("nodes/7/op_state/means/price", "1"), "means has a text among its numbers"),
        (put("nodes/7/op_state/means/price", True), "means has true or false among its numbers"),
        (put("nodes/7/op_state/means/price", 10**400), "means has a number of more than 64 bits"),
        (put("nodes/8/op_state/categories/0/path", "/etc/passwd"), "is '/etc/passwd', which is"),
        (
            put("nodes/8/op_state/categories/0/path", "a/../../../x"),
            "node 8 (Categorify): op_state: categories at place 0: path is 'a/../../../x', which "
            "is not among the workflow's artifacts",
        ),
        (
            put("nodes/8/op_state/categories/0/path", "../../artifacts_/x"),
            "path is '../../artifacts_/x', which is not among the workflow's artifacts",
        ),
        (put("nodes/8/op_state/categories/0/key", []), "key is empty"),
        (
            put("nodes/8/op_state/categories/0", ...),
            "categories has nothing for 'user_id': columns that are combined are saved as columns",
        ),
        (
            joined,
            "categories has nothing for 'user_id': columns that are combined are saved as col",
        ),
        (put("nodes/8/op_state/storage_name/city", 1), "storage_name has a whole number for 'city"),
        (calling("our-module", "double"), "module is 'our-module', expected names with dots bet"),
        (calling("", "double"), "node 3 (LambdaOp): op_params: f: module is '', expected names"),
        (
            calling("ours", "made.<locals>.double"),
            "qualname is 'made.<locals>.double', expected",
        ),
        (calling("ours", 3), "qualname is a whole number, expected a text"),
        (nested(MAX_DEPTH + 1), f"it has more than {MAX_DEPTH} Subgraphs within each other"),
    ],
)
def test_what_nvtabular_does_not_write(
    change: Change, told: str, dense: str, tmp_path: Path
) -> None:
    """It is told with the node and the field."""
    graph = json.loads(dense)
    change(graph)
    with pytest.raises(NotAWorkflow) as error:
        read_text(tmp_path, json.dumps(graph))
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("nodes/1/op_params/fill_val", {"age": 1.5}),
        ("nodes/1/op_params/add_binary_cols", 1),
        ("nodes/3/op_params/min_value", True),
        ("nodes/3/op_params/min_value", "ä"),
        ("nodes/8/op_params/single_table", 1),
        ("nodes/8/op_params/search_sorted", None),
    ],
)
def test_what_operators_take_beside(place: str, value: object, dense: str, tmp_path: Path) -> None:
    """NVTabular serves what its operators take, though they are not documented to; the compiler
    judges what it knows of.
    """
    graph = json.loads(dense)
    put(place, value)(graph)
    read_text(tmp_path, json.dumps(graph))


def test_ids_in_any_order(dense: str, tmp_path: Path) -> None:
    """NVTabular numbers a node that is needed at two depths after one that needs it."""
    graph = json.loads(dense)
    for record in graph["nodes"]:
        record["id"] = 9 - record["id"]
        for name in ("parent_ids", "dependency_ids"):
            record[name] = [9 - number for number in record[name]]
    graph["output_node_id"] = 0
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    found = read_graph_file(tmp_path / "graph.json")
    assert found == read_graph_file(EXPORTS / "dense" / WORKFLOW / "graph.json")


def test_a_file_beside_its_node(dense: str, tmp_path: Path) -> None:
    """NVTabular puts Categorify's vocabs there, and names them from the node's directory."""
    graph = json.loads(dense)
    put("nodes/8/op_state/categories/0/path", "../node_8categories/unique.x.parquet")(graph)
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    found = read_workflow_files(tmp_path)
    assert found is not None
    assert tmp_path / "artifacts/node_8categories/unique.x.parquet" in found.missing


def test_subgraphs_within_each_other(dense: str, tmp_path: Path) -> None:
    """Up to a limit; the artifacts of each lie in those of the one around it."""
    graph = json.loads(dense)
    nested(MAX_DEPTH)(graph)
    read_text(tmp_path, json.dumps(graph))
    found = read_workflow_files(tmp_path)
    assert found is not None
    around = "artifacts/node_0/" * MAX_DEPTH
    place = tmp_path / around / "artifacts/node_8/categories/unique.city.parquet"
    assert place in found.missing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "it is no JSON"),
        (b"[]", "the file is a list, expected an object"),
        (b'{"nodes": [', "it is no JSON"),
        (b"\xff\xfe{\0}\0", "it is not UTF-8 text"),
        (b'{"nodes": [], "nodes": []}', "an object has the key 'nodes' twice"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "it is no JSON"),
        (b'{"a": [' + b"0," * 1_000_001 + b"0]}", "it has more than 1000000 values"),
        (b'{"a": [' + b"[]," * 500_000 + b"0]}", "it has more than 500000 objects and lists"),
        (b" " * (64 * 1024 * 1024 + 1), "it has more than 67108864 bytes"),
    ],
    ids=["empty", "list", "cut", "utf16", "twice", "deep", "digits", "many", "lists", "large"],
)
def test_what_is_no_json(text: bytes, told: str, tmp_path: Path) -> None:
    """It is told, too, and neither takes long nor much."""
    with pytest.raises(NotAWorkflow) as error:
        read_text(tmp_path, text)
    assert told in str(error.value)


@pytest.mark.parametrize("kind", ["nan", "huge"])
def test_numbers_without_bounds_are_read(kind: str, dense: str, tmp_path: Path) -> None:
    """NaN and Infinity are what NVTabular writes of columns without values; the compiler judges."""
    value = {"nan": "NaN", "huge": "1e999"}[kind]
    read_text(tmp_path, dense.replace("2.825137125651042", value))


@pytest.mark.parametrize(
    ("saved", "read"),
    [
        (None, None),
        ({"name": "float32", "element_type": "float"}, "float32"),
        ({"name": "<class 'numpy.float32'>"}, "float32"),
        ({"name": "<class 'float'>"}, "float"),
        ({"name": "<f4"}, "float32"),
        ({"name": "|i1"}, "int8"),
        ({"name": "<u8"}, "uint64"),
        ({"name": ">f4"}, ">f4"),
        ({"name": "<class 'mine.float32'>"}, "<class 'mine.float32'>"),
    ],
)
def test_types_by_every_name(saved: object, read: str | None, dense: str, tmp_path: Path) -> None:
    """numpy's codes, its names, and the classes that NVTabular cannot read again; others stay."""
    graph = json.loads(dense)
    put("nodes/7/op_params/out_dtype", saved)(graph)
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    nodes = read_graph_file(tmp_path / "graph.json").nodes
    (normalize,) = [node.operator for node in nodes if node.operator.label == "Normalize"]
    assert normalize.state["out_dtype"] == read


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """graph.json may be anything that bears the name."""
    os.mkfifo(tmp_path / "graph.json")
    with pytest.raises(EntryRefused):
        read_graph_json(tmp_path / "graph.json")
    assert read_workflow_files(tmp_path) is None


def test_its_files_are_those_of_its_nodes(tmp_path: Path) -> None:
    """What is there, and what is missing, by its place; nothing of the exporting machine counts."""
    workflow = tmp_path / "workflow"
    shutil.copytree(EXPORTS / "dense" / WORKFLOW, workflow)
    categories = workflow / "artifacts/node_8/categories"
    places = [categories / f"unique.{name}.parquet" for name in ("category", "city", "user_id")]
    found = read_workflow_files(workflow)
    assert found is not None
    assert (found.nvtabular, found.pickled, found.categories) == ("0+unknown", False, (*places,))
    places[1].unlink()
    found = read_workflow_files(workflow)
    assert found is not None
    assert (found.missing, found.elsewhere) == ((places[1],), ())
