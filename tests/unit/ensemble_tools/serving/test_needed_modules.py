"""explain and pack name a function's module that a load may not find."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ensemble_tools.archive.graph_json import NamedFunction, read_functions
from ensemble_tools.packing.checking import check_archive
from ensemble_tools.serving.setting_names import SettingNames

LAMBDA = Path(__file__).parents[3] / "golden/graph_json/lambda/repository"
STEP = "0_transformworkflowtriton/1"
GRAPH = f"{STEP}/workflow/graph.json"
DOUBLE = "def double(x):\n    return x * 2\n"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A copy of the one whose LambdaOp calls nvt_functions.double."""
    return Path(shutil.copytree(LAMBDA, tmp_path / "export"))


def notes(export: Path) -> tuple[str, ...]:
    return check_archive(export, strict=True, names=SettingNames())


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

    inner = {"op_class": "nvtabular.ops.filter.Filter", "op_params": {"f": call("keep")}}
    outer = {
        "op_class": "merlin.dag.ops.subgraph.Subgraph",
        "op_params": {"loop_until": call("done"), "inner_graph": {"nodes": [inner]}},
    }
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps({"nodes": [outer]}))
    assert list(read_functions(graph)) == [
        NamedFunction("Subgraph", "ours", "done"),
        NamedFunction("Filter", "ours", "keep"),
    ]


def test_a_version_whose_graph_is_no_workflow_has_no_functions(export: Path) -> None:
    """Who loads that version is told by its own reader."""
    shutil.copytree(export / STEP, export / "0_transformworkflowtriton/2")
    config = export / "0_transformworkflowtriton/config.pbtxt"
    config.write_text(config.read_text() + "version_policy { all {} }\n")
    (export / GRAPH).write_text("[]")
    (note,) = [note for note in notes(export) if "LambdaOp calls" in note]
    assert note.startswith("0_transformworkflowtriton/2/")
