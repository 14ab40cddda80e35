"""The exports of XGBoost, LightGBM and TensorFlow: made anew, and their children's numbers.

The truths are the numbers that each framework computed offline when the export was made. Here they
are compared with the export's own models in a tritonserver without the container: the child that
holds the predictor, under a stand-in backend, and the executor that calls it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tests.end_to_end.conftest import EXAMPLES
from tests.support.container import ROOT
from tests.support.plain_triton import PlainTriton, plain_triton

FRAMEWORKS_PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
MERLIN_PYTHON = ROOT / ".venv-merlin" / "bin" / "python"
WORKFLOW = "0_transformworkflowtriton"
EXECUTOR = "executor_model"

# Measured: 15 s, on two cores that others use too.
EXPORT_SECONDS = 800
TREELITE_SECONDS = 60

# As for the other exports: on one machine equal to the last bit, and training lets the last bits of
# another CPU grow.
TRAINED_RELATIVE, TRAINED_ABSOLUTE = 1e-3, 1e-4
# One trained model on two ways: some units in the last of float32's 24 bits.
SERVED_RELATIVE = 1e-6

pytestmark = pytest.mark.thorough


@dataclass(frozen=True)
class Export:
    """One of the three: its predictor's child, and the columns that a forest gets, in order."""

    name: str
    child: str
    features: tuple[str, ...] = ()


EXPORTS = (
    Export("forest_xgboost", "1_filtriton", ("user_id", "item_id", "age", "price")),
    Export("forest_lightgbm", "1_filtriton", ("price", "item_id", "age")),
    Export("tensorflow_ragged", "1_predicttensorflowtriton"),
)
NAMES = [export.name for export in EXPORTS]
FORESTS = [export for export in EXPORTS if export.features]


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def config(path: Path) -> model_config_pb2.ModelConfig:
    return text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def check(found: list[Any], expected: list[Any], relative: float, absolute: float = 0) -> None:
    """Names, types and shapes are equal, and the numbers within the tolerance."""
    assert [{**tensor, "data": None} for tensor in found] == [
        {**tensor, "data": None} for tensor in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert one["data"] == pytest.approx(other["data"], rel=relative, abs=absolute)


# --- made anew ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all three exports, made just now."""
    destination = tmp_path_factory.mktemp("exports")
    done = subprocess.run(
        [FRAMEWORKS_PYTHON, "-m", "examples.merlin.export_frameworks", destination],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EXPORT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return destination


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_export_is_the_scripts(name: str, made: Path) -> None:
    """The same files, equal configs and requests, and answers that are equal but for arithmetic."""
    assert files(EXAMPLES / name) == files(made / name)
    configs = {path for path in files(made / name) if path.endswith("config.pbtxt")}
    assert len(configs) == 3
    for path in configs:
        assert config(EXAMPLES / name / path) == config(made / name / path), path
    assert read(EXAMPLES / name / "request.json") == read(made / name / "request.json")
    committed, fresh = (read(root / name / "expected.json") for root in (EXAMPLES, made))
    check(fresh["outputs"], committed["outputs"], TRAINED_RELATIVE, TRAINED_ABSOLUTE)


@pytest.mark.parametrize("name", NAMES)
def test_no_path_of_a_machine(name: str) -> None:
    """An export names no directory of the machine that made it, besides one under /tmp."""
    traces = [str(ROOT), str(Path.home()) + "/", "site-packages", "/home/"]
    for path in (EXAMPLES / name).rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [trace for trace in traces if trace.encode() in content], path


# treelite 2.4, which Merlin 23.08 pins, is what the FIL of its Triton reads forests by.
READ_BY_TREELITE = """
import json, sys, treelite, treelite.gtil, numpy
model = treelite.Model.load(sys.argv[1], sys.argv[2])
rows = numpy.array(json.loads(sys.argv[3]), dtype=numpy.float32)
print(json.dumps(treelite.gtil.predict(model, rows).ravel().tolist()))
"""


# --- served ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=EXPORTS, ids=NAMES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Export, PlainTriton]]:
    """An export, and its models served as Merlin wrote them, by the frameworks' Python."""
    export: Export = request.param
    with plain_triton(
        tmp_path_factory.mktemp(export.name),
        EXAMPLES / export.name / "repository",
        [WORKFLOW, export.child, EXECUTOR],
        SERVE_BACKEND_PYTHON=str(FRAMEWORKS_PYTHON),
    ) as server:
        yield export, server


of_forests = pytest.mark.parametrize(
    "served", FORESTS, ids=[export.name for export in FORESTS], indirect=True
)


def transformed(export: Export, server: PlainTriton) -> list[Any]:
    """What the workflow's model makes of the committed request."""
    answer = server.infer(WORKFLOW, read(EXAMPLES / export.name / "request.json"))
    assert answer.status_code == 200, answer.text
    outputs: list[Any] = answer.json()["outputs"]
    return outputs


def stacked(columns: list[Any], features: tuple[str, ...]) -> list[Any]:
    """The one input of a forest: FP32 [rows, features]."""
    by_name = {tensor["name"]: tensor["data"] for tensor in columns}
    rows = zip(*(by_name[name] for name in features), strict=True)
    data = [float(value) for row in rows for value in row]
    shape = [len(data) // len(features), len(features)]
    return [{"name": "input__0", "datatype": "FP32", "shape": shape, "data": data}]


def test_the_childs_numbers(served: tuple[Export, PlainTriton]) -> None:
    """The predictor answers what its framework computed, given what the workflow makes of the rows.

    A forest gets the columns in the order of its parent in Merlin's graph.
    """
    export, server = served
    columns = transformed(export, server)
    inputs = stacked(columns, export.features) if export.features else columns
    answer = server.infer(export.child, {"inputs": inputs})
    assert answer.status_code == 200, answer.text
    expected = read(EXAMPLES / export.name / "expected.json")["outputs"]
    check(answer.json()["outputs"], expected, SERVED_RELATIVE)


@of_forests
def test_a_forest_tells_its_columns_apart(served: tuple[Export, PlainTriton]) -> None:
    """In any other order of two columns the numbers are others: the right ones are no luck."""
    export, server = served
    columns = transformed(export, server)
    expected = read(EXAMPLES / export.name / "expected.json")["outputs"][0]["data"]
    for place in range(1, len(export.features)):
        swapped = list(export.features)
        swapped[0], swapped[place] = swapped[place], swapped[0]
        answer = server.infer(export.child, {"inputs": stacked(columns, tuple(swapped))})
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["data"] != pytest.approx(expected, rel=1e-3), swapped


@of_forests
def test_nvidias_reader_answers_the_same(served: tuple[Export, PlainTriton]) -> None:
    """The forest's file is one that the FIL of Merlin's own Triton reads, with equal numbers."""
    export, server = served
    (tensor,) = stacked(transformed(export, server), export.features)
    width = len(export.features)
    rows = [tensor["data"][place : place + width] for place in range(0, len(tensor["data"]), width)]
    version = EXAMPLES / export.name / "repository" / export.child / "1"
    (file,) = version.iterdir()
    kind = "xgboost_json" if file.suffix == ".json" else "lightgbm"
    done = subprocess.run(
        [MERLIN_PYTHON, "-c", READ_BY_TREELITE, file, kind, json.dumps(rows)],
        capture_output=True,
        text=True,
        timeout=TREELITE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = read(EXAMPLES / export.name / "expected.json")["outputs"][0]["data"]
    assert json.loads(done.stdout) == pytest.approx(expected, rel=SERVED_RELATIVE)


def test_the_executors_numbers(served: tuple[Export, PlainTriton]) -> None:
    """Merlin's own executor answers the offline numbers through the stand-in backends."""
    export, server = served
    answer = server.infer(EXECUTOR, read(EXAMPLES / export.name / "request.json"))
    assert answer.status_code == 200, answer.text
    expected = read(EXAMPLES / export.name / "expected.json")["outputs"]
    check(answer.json()["outputs"], expected, SERVED_RELATIVE)
