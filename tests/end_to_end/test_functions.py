"""Functions of users' run in pandas: NVTabular is imported where something needs it, and then only.

The exports' functions answer how many of its packages have been imported where they run; so they do
before tritonserver has been asked for anything else.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.kept import RUN_WITHOUT_NVTABULAR
from tests.contract.test_contract_warm import interpreters
from tests.support.container import ROOT, Container, running, until
from tests.support.protocol import values

PYTHON = ROOT / ".venv-merlin/bin/python"
PROGRAM = ROOT / "tests/support/functions_export.py"
#: What asks for NVTabular, and what the log then says of it.
ASKING = {
    "imported": "a function imports NVTabular",
    "named": "a function uses Tags",
    "derived": "Derived derives from NVTabular's Clip",
    "closed_over": "an operator uses Tags",
    "listed": "an operator uses Tags",
    "asked": "an operator asks for Operator.supports",
    "tables": "a function uses DataFormats",
    "swallowed": "an operator asks for ColumnSelector.__add__",
    "made": "a Groupby is made",
    "enumerated": "a function uses Tags",
    "recalled": "it is unpickled with USER of Tags",
    "restored": "it is unpickled with column_names of Schema",
}
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "user": ("INT64", [1, 1, 2, 3, 3, 3]),
    "time": ("INT64", [1, 5, 2, 7, 6, 9]),
    "price": ("FP64", [0.5] * 6),
}
#: Prints attributes of NVTabular's classes that those in their place have not.
COMPARE = """
import importlib
from ensemble_tools.workflows.runtime.pandas_operators import BASES, CLASSES
for (module, name), ours in CLASSES.items():
    theirs = getattr(importlib.import_module(module), name)
    for attribute in {*dir(theirs)} - {*dir(object)}:
        known = any(attribute in vars(base) for base in ours.__mro__)
        if not known and not hasattr(ours, "__getattr__"):
            print(name, attribute)
print(*sorted(f"{module}.{name}" for module, name in CLASSES))
"""
#: Prints how many nodes are walked of a graph.json of 600, each of which needs the two before it.
WALK = """
import json
from ensemble_tools.workflows.graph_json_model import find_inner_output, link_records, read_upstream
from ensemble_tools.workflows.runtime.unpickling import walk_nodes
needed = [[*range(max(0, number - 2), number)] for number in range(600)]
nodes = [{"id": id, "parent_ids": ids, "op_params": {}} for id, ids in enumerate(needed)]
graph = json.loads(json.dumps({"output_node_id": 599, "nodes": nodes}))
walked = [*walk_nodes(link_records(graph), read_upstream, find_inner_output)]
print(len(walked), [path for path, _ in walked[-2:]])
"""
#: Prints options of pandas' that NVTabular's process has otherwise.
OPTIONS = """
import pandas as pd
from pandas._config import config
import ensemble_tools.workflows.runtime.pandas_frames
before = {name: pd.get_option(name) for name in config._registered_options}
import nvtabular
print([name for name, value in before.items() if pd.get_option(name) != value])
"""

pytestmark = pytest.mark.tritonserver


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    command: list[str | Path] = [PYTHON, "-W", "ignore", PROGRAM, folder]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory, exports: Path) -> Iterator[Container]:
    folder = tmp_path_factory.mktemp("served")
    with running(folder, SERVE_MODEL_ROOT=str(exports)) as container:
        yield container


def ask(container: Container, name: str, *columns: str) -> Any:
    inputs = [
        {"name": column, "datatype": datatype, "shape": [len(data)], "data": data}
        for column, (datatype, data) in COLUMNS.items()
        if column in columns
    ]
    answer = container.invoke(name, {"inputs": inputs})
    assert answer.status_code == 200, answer.text
    return answer


def count_values(container: Container, name: str) -> int:
    """Of a request's column."""
    (model,) = container.http.get(f"/models/{name}/features").json()["models"]
    ((*columns,),) = model["workflows"].values()
    return sum(column["values"] for column in columns if column["column"] == "user")


def test_functions_alone_import_nothing(container: Container, exports: Path) -> None:
    """Lambdas, a Filter, operators by value, a Groupby of dates and a ListSlice of lists.

    What NVTabular would fail on, it is not imported to fail on.
    """
    with container.loaded("alone", exports / "alone"):
        for _ in range(2):
            answer = ask(container, "alone", *COLUMNS)
            assert values(answer, "user") == [1, 2]
            assert values(answer, "told_list") == [0, 0, 0, 7]
            assert values(answer, "told_max") == values(answer, "user_told_max") == [0, 0]
        user = {"name": "user", "datatype": "INT64", "shape": [0], "data": []}
        others = [{**user, "name": "time"}, {**user, "name": "price", "datatype": "FP64"}]
        answer = container.invoke("alone", {"inputs": [user, *others]})
        assert answer.status_code == 400
        assert "the request has no rows: " in answer.text
        until(lambda: count_values(container, "alone") == 12, "the compiled part has counted")
    assert "NVTabular is imported" not in container.log
    assert {process.command[1] for process in interpreters(container)} == {"pandas"}


#: Each imports NVTabular, which takes seconds.
_FEW = {"imported", "derived", "recalled"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in _FEW else pytest.mark.thorough) for name in ASKING],
)
def test_what_asks_for_nvtabular_gets_it(name: str, container: Container, exports: Path) -> None:
    """Its classes are real where a function sees them; the log says once why it is imported."""
    before = len(container.log)
    with container.loaded(name, exports / name):
        for _ in range(2):
            assert values(ask(container, name, "user", "price"), "price") == [4.0] * 6
    said = re.compile(r"NVTabular is imported: (.*)\n")
    until(lambda: said.search(container.log, before), "the log says so", container)
    assert said.findall(container.log, before) == [ASKING[name]]


def test_a_table_that_a_request_changes(container: Container, exports: Path) -> None:
    """Later requests see it, as in NVTabular, also those whose own functions change nothing."""
    lengths = []
    with container.loaded("growing", exports / "growing"):
        for users in ([1, 2], [1], [1, 2], [2], [1, 2]):
            user = {"name": "user", "datatype": "INT64", "shape": [len(users)], "data": users}
            answer = container.invoke("growing", {"inputs": [user]})
            assert answer.status_code == 200, answer.text
            offsets = np.array(values(answer, "tags__offsets"), int)
            lengths.append(np.diff(offsets).tolist())
    assert lengths == [[1, 1], [2], [2, 1], [2], [2, 2]]


@pytest.mark.thorough
def test_the_classes_in_the_place_of_nvtabulars() -> None:
    """They have each attribute that NVTabular's have, if only to ask for NVTabular."""
    command: list[str | Path] = [PYTHON, "-W", "ignore", "-c", COMPARE]
    run = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, text=True)
    *lacking, known = run.stdout.splitlines()
    assert lacking == []
    others = {
        "merlin.dag.selector.ColumnSelector",
        "merlin.dag.operator.Operator",
        "merlin.dag.ops.stat_operator.StatOperator",
    }
    assert {*known.split()} - others == {*RUN_WITHOUT_NVTABULAR} - {
        "nvtabular.ops.lambdaop.LambdaOp"
    }


def test_a_node_of_graph_json_is_walked_once() -> None:
    """However large its id is, and however many nodes need it."""
    command: list[str | Path] = [PYTHON, "-W", "ignore", "-c", WALK]
    run = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, text=True)
    assert run.stdout == "600 [(598,), (599,)]\n"


@pytest.mark.thorough
def test_pandas_is_set_as_nvtabular_sets_it() -> None:
    """Dask switches numexpr off, with which pandas calculates otherwise where it is installed."""
    command: list[str | Path] = [PYTHON, "-W", "ignore", "-c", OPTIONS]
    run = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, text=True)
    assert run.stdout == "[]\n"
