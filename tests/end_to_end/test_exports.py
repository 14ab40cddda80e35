"""The committed Merlin exports are what examples/merlin/export.py makes, in meaning.

Not in bytes: exports hold time stamps and the paths of where they were made. `make setup` has made
.venv-merlin; the whole module exports once, so it wants to stay on one worker.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

CHECKOUT = Path(__file__).parents[2]
COMMITTED = CHECKOUT / "examples" / "merlin"
MERLIN_PYTHON = CHECKOUT / ".venv-merlin" / "bin" / "python"
NAMES = ("dense", "ragged", "two_workflows", "session")

# Measured: 15 s for the exports and 7 s for a description, on two cores that others use too.
EXPORT_SECONDS = 240
DESCRIBE_SECONDS = 120

# On one machine the numbers are equal to the last bit. Other CPUs take the float32 sums of the
# training steps in another order, and thirty steps let that grow.
RELATIVE = 1e-3
ABSOLUTE = 1e-4

pytestmark = [
    pytest.mark.xdist_group("exports"),
    pytest.mark.timeout(EXPORT_SECONDS + 2 * DESCRIBE_SECONDS),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all four exports, made just now."""
    destination = tmp_path_factory.mktemp("exports")
    run_merlin("export.py", str(destination), seconds=EXPORT_SECONDS)
    return destination


@pytest.fixture(scope="module")
def meanings(made: Path) -> dict[Path, dict[str, Any]]:
    """What Merlin reads in each repository, the committed ones and those made just now."""
    repositories = [root / name / "repository" for root in (COMMITTED, made) for name in NAMES]
    printed = run_merlin("describe.py", *map(str, repositories), seconds=DESCRIBE_SECONDS)
    described: dict[str, dict[str, Any]] = json.loads(printed)
    return {Path(path): meaning for path, meaning in described.items()}


def run_merlin(script: str, *arguments: str, seconds: int) -> str:
    """Runs a script of examples/merlin in the models' environment; its output is in the failure."""
    command = [str(MERLIN_PYTHON), str(COMMITTED / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def config(path: Path) -> model_config_pb2.ModelConfig:
    return text_format.Parse(path.read_text("utf-8"), model_config_pb2.ModelConfig())


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Every place where two JSON values mean something else, floats within the tolerance."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{where}/{index}")
    elif isinstance(one, float) and isinstance(other, float):
        if one != pytest.approx(other, rel=RELATIVE, abs=ABSOLUTE):
            yield f"{where}: {one} is not {other}"
    elif type(one) is not type(other) or one != other:
        yield f"{where}: {one} is not {other}"


@pytest.mark.parametrize("name", NAMES)
def test_files(name: str, made: Path) -> None:
    """A committed export has the files that the script writes, category tables included."""
    assert files(COMMITTED / name) - {"README.md"} == files(made / name)


@pytest.mark.parametrize("name", NAMES)
def test_configs(name: str, made: Path) -> None:
    """Every committed config.pbtxt is the one that Merlin writes, as a protobuf."""
    paths = {path for path in files(made / name) if path.endswith("config.pbtxt")}
    assert paths
    for path in paths:
        assert config(COMMITTED / name / path) == config(made / name / path), path


@pytest.mark.parametrize("name", NAMES)
def test_meaning(name: str, meanings: dict[Path, dict[str, Any]], made: Path) -> None:
    """Merlin reads the same graphs, schemas, fitted numbers, tables and models in both."""
    committed = meanings[COMMITTED / name / "repository"]
    assert not list(differences(committed, meanings[made / name / "repository"]))


@pytest.mark.parametrize("name", NAMES)
def test_request(name: str, made: Path) -> None:
    """A committed request is the script's, to the last digit: it depends on no arithmetic."""
    committed, fresh = (read(root / name / "request.json") for root in (COMMITTED, made))
    assert committed == fresh


@pytest.mark.parametrize("name", NAMES)
def test_expected(name: str, made: Path) -> None:
    """A committed answer is the one that Merlin computes offline for the committed request."""
    committed, fresh = (read(root / name / "expected.json") for root in (COMMITTED, made))
    assert not list(differences(committed, fresh))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_told_apart(name: str) -> None:
    """The rows of an answer differ: a wrong wiring cannot give the right numbers by luck."""
    (output,) = read(COMMITTED / name / "expected.json")["outputs"]
    rows = output["shape"][0]
    width = len(output["data"]) // rows
    answers = {tuple(output["data"][row * width : (row + 1) * width]) for row in range(rows)}
    assert len(answers) == rows


def test_no_path_of_a_machine() -> None:
    """An export names no directory of the machine that made it, besides one under /tmp."""
    traces = [str(CHECKOUT), str(Path.home()) + "/", "site-packages", "/home/"]
    for name in NAMES:
        for path in (COMMITTED / name).rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            assert not [trace for trace in traces if trace.encode() in content], path
