"""examples/clients: each client that AWS or Triton gives, against real endpoints."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.tests.end_to_end.conftest import run_client
from simulator.tests.support.simulator import simulator
from simulator.tests.support.waiting import in_a_calm_moment
from tests.support.container import ROOT, free_port

CLIENTS = ROOT / "examples/clients"
DENSE = ROOT / "examples/merlin/dense"
EXPECTED = json.loads((DENSE / "expected.json").read_text())["outputs"][0]["data"]
CALL_TIMEOUT_S = 120.0

pytestmark = [pytest.mark.tritonserver, pytest.mark.timeout(240)]


def pack(repository: Path, archive: Path) -> None:
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(repository, ".")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a multi-model endpoint with one export."""
    folder = tmp_path_factory.mktemp("shop")
    pack(DENSE / "repository", folder / "models/dense.tar.gz")
    named = ("--endpoint-name", "shop")
    with simulator(folder / "models", folder / "log", *named, container=None) as running:
        yield running.url


def test_binary_tensors(shop: str, aws_environment: dict[str, str]) -> None:
    """The numbers are Merlin's, and were written as text nowhere."""
    said = run_client(
        aws_environment, ROOT / ".venv-aws/bin/python", CLIENTS / "binary_tensors.py", shop
    ).stdout
    kind, _, numbers = said.partition(" (5,) ")
    assert kind == "float32"
    assert json.loads(numbers) == pytest.approx(EXPECTED, rel=1e-5)


def test_sagemaker_sdk(shop: str, aws_environment: dict[str, str]) -> None:
    said = run_client(
        aws_environment, ROOT / ".venv-aws/bin/python", CLIENTS / "sagemaker_sdk.py", shop
    ).stdout
    name, _, numbers = said.strip().splitlines()[-1].partition(" ")
    assert name == "click"
    assert json.loads(numbers) == pytest.approx(EXPECTED, rel=1e-5)


def test_sagemaker_core(shop: str, aws_environment: dict[str, str]) -> None:
    """With a body of text; bytes are sagemaker_core's own mistake, which is not ours to hold."""
    said = run_client(
        aws_environment, ROOT / ".venv-aws/bin/python", CLIENTS / "sagemaker_core_endpoint.py", shop
    ).stdout
    (output,) = json.loads(said.strip().splitlines()[-1])["outputs"]
    assert output["data"] == pytest.approx(EXPECTED, rel=1e-5)


def test_an_answer_in_pieces(tmp_path: Path) -> None:
    """They come one by one: the last a pause for each word behind the first."""
    pack(CLIENTS / "streaming/repository", tmp_path / "models/words.tar.gz")
    options = ("--single-model", "words.tar.gz", "--endpoint-name", "words")
    settings = {"SAGEMAKER_TRITON_INFERENCE_TYPE": "generate_stream"}
    models, log = tmp_path / "models", tmp_path / "log"
    with simulator(models, log, *options, container=None, environment=settings) as running:

        def check(_: int) -> None:
            program = (ROOT / ".venv/bin/python", CLIENTS / "stream.py", running.url)
            lines = run_client({**os.environ}, *program).stdout.strip().splitlines()
            seconds, words = zip(*(line.split(" s  ") for line in lines), strict=True)
            assert words == ("ONE", "WORD", "AFTER", "THE", "OTHER")
            assert float(seconds[-1]) - float(seconds[0]) > 0.6

        in_a_calm_moment(check)


@pytest.mark.parametrize(
    ("environment", "script", "arguments", "expected"),
    [
        (".venv", "ask.py", (), "the endpoint shop"),
        (".venv", "endpoint.py", ("README.md", "README.md"), "AWS, or `python -m simulator serve`"),
        (".venv", "autoscaling_day.py", ("shop",), "the endpoint shop in service"),
        (".venv", "clients/stream.py", ("URL",), "the single-model endpoint words"),
        (".venv-aws", "clients/binary_tensors.py", ("URL",), "the endpoint shop"),
        (".venv-aws", "clients/sagemaker_sdk.py", ("URL",), "the endpoint shop"),
        (".venv-aws", "clients/sagemaker_core_endpoint.py", ("URL",), "the endpoint shop"),
    ],
)
def test_nobody_answers(
    environment: str,
    script: str,
    arguments: tuple[str, ...],
    expected: str,
    aws_environment: dict[str, str],
) -> None:
    """The last line says so, and what starts an endpoint; as it does of an address that is none."""
    address = f"127.0.0.1:{free_port()}"
    for url in (f"http://{address}", address):
        words = [url if word == "URL" else word for word in arguments]
        done = subprocess.run(
            [ROOT / environment / "bin/python", ROOT / "examples" / script, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
            env={**aws_environment, "AWS_ENDPOINT_URL": url, "AWS_MAX_ATTEMPTS": "1"},
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert f"; expected {expected}" in done.stderr.splitlines()[-1]
