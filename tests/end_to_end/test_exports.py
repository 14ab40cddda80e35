"""The committed Merlin exports are what examples/merlin/export.py makes, in meaning.

Not in bytes: exports hold time stamps and the paths of where they were made. `make setup` has made
.venv-merlin; the whole module exports once, so it wants to stay on one worker.
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

CHECKOUT = Path(__file__).parents[2]
COMMITTED = CHECKOUT / "examples" / "merlin"
MERLIN_PYTHON = CHECKOUT / ".venv-merlin" / "bin" / "python"
NAMES = ("dense", "ragged", "two_workflows", "session")

#: Makes the exports, and says what Merlin reads in each repository, with a JSON object in the last
#: line: both scripts as they are, in one process, since importing Merlin takes seconds.
MAKE_AND_DESCRIBE = """
import runpy, sys
make, destination, describe, *repositories = sys.argv[1:]
for sys.argv in ([make, destination], [describe, *repositories]):
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
"""
# Measured: 17 s, on two cores that others use too.
MAKE_SECONDS = 800

# On one machine the numbers are equal to the last bit. Other CPUs take the float32 sums of the
# training steps in another order, and thirty steps let that grow.
RELATIVE = 1e-3
ABSOLUTE = 1e-4

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.xdist_group("exports"),
]


@dataclass(frozen=True)
class Made:
    """All four exports, made just now in a directory, and what Merlin reads in each repository.

    The meanings are of the committed repositories, too.
    """

    directory: Path
    meanings: dict[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Made by the scripts of examples/merlin; what they say is in the failure."""
    directory = tmp_path_factory.mktemp("exports")
    repositories = [root / name / "repository" for root in (COMMITTED, directory) for name in NAMES]
    scripts = (COMMITTED / "export.py", directory, COMMITTED / "describe.py")
    command: list[str | Path] = [MERLIN_PYTHON, "-c", MAKE_AND_DESCRIBE, *scripts, *repositories]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    described: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return Made(directory, {Path(path): meaning for path, meaning in described.items()})


@pytest.fixture(scope="module")
def made(anew: Made) -> Path:
    """A directory with all four exports, made just now."""
    return anew.directory


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
def test_meaning(name: str, anew: Made) -> None:
    """Merlin reads the same graphs, schemas, fitted numbers, tables and models in both."""
    committed, fresh = (
        anew.meanings[root / name / "repository"] for root in (COMMITTED, anew.directory)
    )
    assert committed["steps"]
    assert not list(differences(committed, fresh))


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
