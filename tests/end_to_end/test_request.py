"""`request` makes what archives answer, in a real container, by the call that it prints."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from simulator.tests.support.simulator import ENDPOINT, Simulator, simulator
from tests.end_to_end.conftest import EXAMPLES, EXPORTS
from tests.support.container import ROOT, Container, running
from verification.request_command import WRITTEN, main

MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"
ARCHIVES = {
    **{name: EXAMPLES / name / "repository" for name in EXPORTS},
    "multistage": ROOT / "examples/multistage/repository",
}
#: Every type of Triton's, behind a batch dimension: answered as they come.
TYPES = (
    *("BOOL", "INT8", "INT16", "INT32", "INT64"),
    *("UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "STRING"),
)
ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("OUT_" + tensor.name(), tensor.as_numpy())
            for tensor in request.inputs()
        ]) for request in requests]
"""


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    directory = tmp_path_factory.mktemp("requests")
    settings = {"SERVE_MODEL_ROOT": "/", "SERVE_BACKEND_PYTHON": str(MODELS_PYTHON)}
    with running(directory, **settings) as started:
        yield started


def printed(*arguments: str | Path) -> str:
    """What the program says on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "ensemble_tools", "request", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(*arguments: str | Path) -> str:
    """The same of the program's own function, which the door above leads to."""
    said = StringIO()
    with redirect_stdout(said):
        assert main([*map(str, arguments)]) == WRITTEN
    return said.getvalue()


def answer_to_curl(container: Container, archive: Path, body: Path, *options: str) -> bytes:
    """What the printed call of curl brings for a model that is loaded under the name `m`."""
    url = ("--model-name", "m", "--url", f"http://127.0.0.1:{container.port}")
    call = shlex.split(written(archive, "-o", body, "--curl", *url, *options))
    done = subprocess.run(
        [*call, "--fail-with-body"], cwd=body.parent, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    found = body.parent / "answer.bin"
    return found.read_bytes() if found.exists() else done.stdout


@pytest.mark.parametrize("name", ARCHIVES)
def test_examples(name: str, container: Container, tmp_path: Path) -> None:
    """Each is answered, with JSON and in the binary form."""
    with container.loaded("m", ARCHIVES[name]):
        answer = json.loads(answer_to_curl(container, ARCHIVES[name], tmp_path / "request.json"))
        assert all(output["data"] for output in answer["outputs"])
        binary = answer_to_curl(container, ARCHIVES[name], tmp_path / "request.bin", "--binary")
        assert b'"binary_data_size"' in binary


def test_categories_are_known(tmp_path: Path) -> None:
    """They come from the workflow's files, which are read out of the packed archive."""
    packed = tmp_path / "dense.tar.gz"
    command = ["tar", "-C", str(ARCHIVES["dense"]), "-czf", str(packed), "."]
    subprocess.run(command, check=True)
    request = json.loads(printed(packed, "--rows", "50"))
    assert request == json.loads(printed(ARCHIVES["dense"], "--rows", "50"))
    users = next(one for one in request["inputs"] if one["name"] == "user_id")
    assert users["shape"] == [50]
    assert {*users["data"]} <= {*range(1000, 1020)}


@pytest.mark.thorough
def test_bert(container: Container, tmp_path: Path) -> None:
    """A plain model of PyTorch with a config."""
    script = ROOT / "examples/bert/export.py"
    subprocess.run([MODELS_PYTHON, script, tmp_path / "made"], check=True, capture_output=True)
    (archive,) = (tmp_path / "made").rglob("repository")
    with container.loaded("m", archive):
        answer = json.loads(answer_to_curl(container, archive, tmp_path / "request.json"))
    assert answer["outputs"][0]["shape"] == [5, 4]


def write_echo(directory: Path, *types: str) -> Path:
    """A model with an input and an output of each type, three a row, at most four rows."""
    (directory / "echo/1").mkdir(parents=True)
    (directory / "echo/1/model.py").write_text(ECHO)
    tensors = "".join(
        f'{part} {{ name: "{prefix}{kind}" data_type: TYPE_{kind} dims: [3] }}\n'
        for kind in types
        for part, prefix in (("input", ""), ("output", "OUT_"))
    )
    (directory / "echo/config.pbtxt").write_text(f'backend: "python"\nmax_batch_size: 4\n{tensors}')
    return directory


def test_every_type(container: Container, tmp_path: Path) -> None:
    """In the binary form; as JSON those that it can carry, and the others are a sentence."""
    archive = write_echo(tmp_path / "all", *TYPES)
    with container.loaded("m", archive):
        binary = answer_to_curl(container, archive, tmp_path / "request.bin", "--binary")
    for kind in TYPES:
        assert f'"OUT_{kind}"'.encode() in binary
    done = subprocess.run(
        [sys.executable, "-m", "ensemble_tools", "request", archive],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the tensor 'FP16' is of FP16, which JSON cannot carry" in done.stderr
    others = write_echo(tmp_path / "others", *(kind for kind in TYPES if kind != "FP16"))
    with container.loaded("m", others):
        body = tmp_path / "others.json"
        (tmp_path / "answer.bin").unlink()
        answer = json.loads(answer_to_curl(container, others, body))
    sent = {one["name"]: one["data"] for one in json.loads(body.read_text())["inputs"]}
    for output in answer["outputs"]:
        assert output["shape"] == [4, 3]
        expected = sent[output["name"].removeprefix("OUT_")]
        assert (
            output["data"] == pytest.approx(expected, rel=1e-6)
            if "FP" in output["name"]
            else output["data"] == expected
        )


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive that `pack` wrote, alone in its folder."""
    path = tmp_path_factory.mktemp("archives") / "dense.tar.gz"
    command = [sys.executable, "-m", "ensemble_tools", "pack", ARCHIVES["dense"], "-o", path]
    subprocess.run([str(word) for word in command], cwd=ROOT, check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def endpoint(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """The simulator with that archive, and a container of ours."""
    log = tmp_path_factory.mktemp("simulator") / "log"
    with simulator(packed.parent, log, container=None) as started:
        yield started


@pytest.mark.thorough
@pytest.mark.parametrize("form", [[], ["--binary"]])
def test_boto3_asks_the_simulator(
    form: list[str], packed: Path, endpoint: Simulator, tmp_path: Path
) -> None:
    """The snippet is run as it is printed, for an archive that `pack` wrote."""
    asked = ("--boto3", "--endpoint-name", ENDPOINT, "--url", endpoint.url)
    snippet = printed(packed, "-o", tmp_path / "request", *asked, *form)
    done = subprocess.run(
        [sys.executable, "-c", snippet], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + endpoint.log_path.read_text()
    assert '"name":"click"' in done.stdout.replace(" ", "")
    assert done.stdout.startswith("application/vnd" if form else "application/json")


@pytest.mark.thorough
def test_boto3_is_python(tmp_path: Path) -> None:
    """The snippet names the archive, the file and the type that goes with it."""
    body = tmp_path / "request.bin"
    snippet = written(ARCHIVES["dense"], "-o", body, "--binary", "--boto3", "--model-name", "shop")
    compile(snippet, "snippet", "exec")
    head = body.read_bytes().index(b'"binary_data_output": true}}') + 28
    assert 'TargetModel="shop.tar.gz"' in snippet
    assert f'open("{body}", "rb")' in snippet
    assert f"json-header-size={head}" in snippet
