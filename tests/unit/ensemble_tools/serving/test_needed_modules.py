"""explain and pack name a function's module that a load may not find."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ensemble_tools.archive.inert_pickle import Inert, Key, stand_in
from ensemble_tools.archive.named_functions import NamedFunction, find_named
from ensemble_tools.archive.saved_workflow import read_objects
from ensemble_tools.archive.source_model import GRAPH_FILE
from ensemble_tools.serving.needed_modules import find_needed
from ensemble_tools.serving.opened_archive import check_archive, read_archive
from ensemble_tools.serving.serving_plan import Form, PublishedModel, Rewrite, ServingPlan

GOLDEN = Path(__file__).parents[3] / "golden"
LAMBDA = GOLDEN / "graph_json/lambda/repository"
#: Functions and an operator of session_functions, in the workflow's pickle and the executor's.
MODULE = GOLDEN / "tutorials/t4r_end_to_end_module/repository"
STEP = "0_transformworkflowtriton/1"
GRAPH = f"{STEP}/workflow/graph.json"
DOUBLE = "def double(x):\n    return x * 2\n"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A copy of the one whose LambdaOp calls nvt_functions.double."""
    return Path(shutil.copytree(LAMBDA, tmp_path / "export"))


def notes(export: Path) -> tuple[str, ...]:
    return check_archive(export, strict=True)


@pytest.mark.parametrize("elsewhere", ["", "nvt_functions.py", "executor_model/1/nvt_functions.py"])
def test_a_module_that_is_not_beside_the_step(elsewhere: str, export: Path) -> None:
    """Elsewhere in the archive it is not found either."""
    if elsewhere:
        (export / elsewhere).write_text(DOUBLE)
    (note,) = [note for note in notes(export) if note.startswith(GRAPH)]
    assert note == (
        f"{GRAPH}: LambdaOp calls 'double' of the module 'nvt_functions', which does not lie "
        f"beside {STEP}/model.py: unless the models' Python has it, a load is refused; put "
        "nvt_functions.py, or the package nvt_functions/, there"
    )


@pytest.mark.parametrize("module", ["nvt_functions", "our_package.inner", "math", "numpy.linalg"])
def test_a_module_that_is_there(module: str, export: Path) -> None:
    """Beside the step, a file or a package; or Python's own, or one that NVTabular needs."""
    graph = export / GRAPH
    graph.write_text(graph.read_text().replace('"nvt_functions"', f'"{module}"'))
    if module.startswith(("nvt", "our")):
        place = export / STEP / f"{module.replace('.', '/')}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(DOUBLE)
    assert not [note for note in notes(export) if note.startswith(GRAPH)]


def test_each_module_is_told_once_and_in_each_version(export: Path) -> None:
    config = export / "0_transformworkflowtriton/config.pbtxt"
    config.write_text(config.read_text() + "version_policy { all {} }\n")
    shutil.copytree(export / STEP, export / "0_transformworkflowtriton/2")
    graph = export / GRAPH
    content = json.loads(graph.read_text())
    (calling,) = [it for it in content["nodes"] if it["op_class"].endswith("LambdaOp")]
    content["nodes"].append({**calling, "id": 1000})
    graph.write_text(json.dumps(content))
    told = [note for note in notes(export) if "LambdaOp calls" in note]
    assert len(told) == 2, told


def test_functions_inside_of_a_subgraph(tmp_path: Path) -> None:
    def call(name: str) -> dict[str, str]:
        return {"module": "ours", "qualname": name}

    def graph_of(op_class: str, **op_params: object) -> dict[str, object]:
        node = {"id": 0, "op_class": op_class, "op_params": op_params, "op_state": {}}
        return {"nodes": [{**node, "input_schema": [], "output_schema": []}], "output_node_id": 0}

    inner = graph_of("nvtabular.ops.filter.Filter", f=call("Rows.keep"))
    outer = graph_of("merlin.dag.ops.subgraph.Subgraph", loop_until=call("done"), inner_graph=inner)
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(outer))
    assert [it for it in find_named(read_objects(graph)) if it.module == "ours"] == [
        NamedFunction("Subgraph", "ours", "done"),
        NamedFunction("Filter", "ours", "Rows.keep"),
    ]


def test_a_version_whose_graph_is_no_workflow_has_no_functions(export: Path) -> None:
    """Who loads that version is told by its own reader."""
    shutil.copytree(export / STEP, export / "0_transformworkflowtriton/2")
    config = export / "0_transformworkflowtriton/config.pbtxt"
    config.write_text(config.read_text() + "version_policy { all {} }\n")
    (export / GRAPH).write_text("[]")
    (note,) = [note for note in notes(export) if "LambdaOp calls" in note]
    assert note.startswith("0_transformworkflowtriton/2/")


def test_a_module_that_a_pickle_names(tmp_path: Path) -> None:
    """An operator that needs it is named; a pickle that has all beside it needs nothing."""
    export = Path(shutil.copytree(MODULE, tmp_path / "export"))
    assert not [note for note in notes(export) if "of the module" in note]
    (export / STEP / "session_functions.py").rename(export / "session_functions.py")
    (note,) = [note for note in notes(export) if "of the module" in note]
    assert note == (
        f"{STEP}/workflow/workflow.pkl: Filter calls 'is_long_enough' of the module "
        f"'session_functions', which does not lie beside {STEP}/model.py: unless the models' "
        "Python has it, a load is refused; put session_functions.py, or the package "
        "session_functions/, there"
    )


def test_a_module_that_the_executors_graph_names(tmp_path: Path) -> None:
    """Where Merlin's executor is served it unpickles the same functions."""
    export = Path(shutil.copytree(MODULE, tmp_path / "export"))
    (export / "executor_model/1/session_functions.py").unlink()
    made = read_archive(export, "m", rewrite=Rewrite.EXECUTOR).plan
    assert made is not None
    (note,) = [note for note in made.notes if "of the module" in note]
    assert note.startswith("executor_model/1/ensemble/ensemble.pkl: ")
    assert "which does not lie beside executor_model/1/model.py: " in note
    assert "'session_functions', which does not lie" in find_needed(made, "session_functions")
    assert find_needed(made, "another") == ""


def test_a_step_that_runs_operators_reads_the_executors_graph(tmp_path: Path) -> None:
    """It unpickles that, and finds modules where the executor would."""
    graph = tmp_path / "executor_model/1" / GRAPH_FILE
    shutil.copytree(MODULE / "executor_model/1/ensemble", graph.parent)
    step = PublishedModel(
        "m.operators", "operators", "", links=(("1/ensemble", graph.parent),), generated=True
    )
    plan = ServingPlan("m", Form.STEPPED_ENSEMBLE, "m.operators", (step,))
    assert "does not lie beside executor_model/1/model.py" in find_needed(plan, "session_functions")
    (graph.parent.parent / "session_functions.py").touch()
    assert find_needed(plan, "session_functions") == ""


def test_all_that_a_pickle_names() -> None:
    """Functions, classes, and modules that functions use which are pickled by value.

    An operator may know nodes: what another node's operator names is that one's.
    """
    by_value = stand_in("cloudpickle.cloudpickle._make_function")
    uses = by_value("code", {"m": stand_in("cloudpickle.cloudpickle.subimport")("our.dates")})
    table = {Key((1, 2)): [stand_in("shop.Item")(), {"f": stand_in("shop.price")}]}
    itself: list[object] = [table]
    itself.append(itself)
    weekday = node("nvtabular.ops.lambdaop.UDF", f=stand_in("etl.weekday"))
    own = node("(pickled by value).Own", f=uses, t=itself, target=weekday)
    inner = stand_in("merlin.dag.graph.Graph")()
    inner.__setstate__({"output_node": node("ours.Keep")})
    graph = [own, weekday, node("merlin.dag.ops.subgraph.Subgraph", graph=inner)]
    found = {(it.operator, it.module, it.qualname) for it in find_named(graph)}
    assert {it for it in found if it[1].partition(".")[0] not in ("merlin", "cloudpickle")} == {
        ("LambdaOp", "nvtabular.ops.lambdaop", "UDF"),
        ("LambdaOp", "etl", "weekday"),
        ("Own", "our.dates", "__init__"),
        ("Own", "shop", "Item"),
        ("Own", "shop", "price"),
        ("Keep", "ours", "Keep"),
    }


def node(operator: str, **state: object) -> Inert:
    """A node with an operator of that class."""
    made, op = stand_in("merlin.dag.node.Node")(), stand_in(operator)()
    op.__setstate__(state)
    made.__setstate__({"op": op, "parents": []})
    return made
