"""The gpu image, on a stand-in for NVIDIA's: see stand_in/merlin.Dockerfile for what that has.

NVIDIA's own image is not built here: 15 GB, from a registry that not every machine reaches.
"""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.docker.base_image import ROOT
from tests.docker.images import Built
from tests.docker.running import EXPORTS, Served, deliver, serving

RELEASES = ROOT / "tests/golden/merlin_releases"
#: Of 23.06, whose workflow is not compiled.
NOT_COMPILED = "23.06_workflow_executor"
#: What is asked for, and what the refusal says.
LACKING = {
    "tensorflow_ragged": (
        "needs tensorflow, which the models' Python does not have",
        "or build the image on nvcr.io/nvidia/merlin/merlin-tensorflow:23.12, which has it",
    ),
    "forest_xgboost": ("needs xgboost, which the models' Python does not have",),
}


@pytest.fixture(scope="module")
def gpu(
    engine: docker.DockerClient, images: Built, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A container of the gpu image with two exports in it, and others beside them."""
    models = deliver(tmp_path_factory.mktemp("models"), "dense", *LACKING, exports=EXPORTS)
    deliver(models, NOT_COMPILED, exports=RELEASES)
    with serving(engine, images.gpu, models, shm_size="256m") as served:
        for name in ("dense", NOT_COMPILED):
            answer = served.load(name)
            assert answer.status_code == 200, answer.text
        yield served


def test_merlins_numbers(gpu: Served) -> None:
    """A Merlin export answers with Merlin's numbers: its workflow runs in the image's own Python,
    with numpy 1.22, its PyTorch model in the image's own backend.
    """
    gpu.check_numbers("dense")


def test_merlins_own_code(gpu: Served) -> None:
    """What is not compiled is run by the image's Merlin, for which it sets the slow protobuf."""
    gpu.check_numbers(NOT_COMPILED, RELEASES)


def test_the_images_own_tritonserver(gpu: Served) -> None:
    """The server is the image's, which tells its version, and its libraries come from there."""
    found = "tritonserver found path=/opt/tritonserver/bin/tritonserver version=2.51.0"
    assert found in gpu.log
    assert "can load, unload and ask other models" not in gpu.log  # 2.51 can be shut


def test_backends(gpu: Served) -> None:
    """Its own, and stand-ins for what it lacks; a LICENSE and a link to nowhere are no backends."""
    (line,) = (line for line in gpu.log.splitlines() if " configured " in line)
    assert 'backends="fil (stand-in), python, pytorch, tensorflow (stand-in)"' in line


@pytest.mark.parametrize("name", LACKING)
def test_what_needs_another_base(name: str, gpu: Served) -> None:
    """Merlin's images have one framework each: the refusal names the base that has this one."""
    answer = gpu.load(name)
    assert answer.status_code == 400, answer.text
    for words in LACKING[name]:
        assert words in answer.json()["error"]


def test_the_server_does_not_see_the_images_packages(gpu: Served) -> None:
    """PYTHONPATH names protobuf 3 and numpy 1; the server has its own, of its lock."""
    script = "import google.protobuf as p, numpy as n; print(p.__version__, n.__version__)"
    old = gpu.run("python3", "-c", script).split()
    own = gpu.run("/opt/serve/.venv/bin/python", "-I", "-c", script).split()
    assert [version.split(".")[0] for version in old] == ["3", "1"]
    assert [version.split(".")[0] for version in own] != ["3", "1"]
    locked = (ROOT / "requirements/server.txt").read_text()
    for package, version in zip(("protobuf", "numpy"), own, strict=True):
        assert f"\n{package}=={version} " in locked


def test_commands_that_become_another_program(gpu: Served) -> None:
    """`request` and `verify` see the image's packages no more than what they were started by."""
    python = ("/opt/serve/.venv/bin/python", "-I", "-m", "ensemble_tools")
    gpu.run(*python, "request", "/opt/ml/models/dense/model", "--output", "/tmp/request.json")
    assert gpu.run("head", "--bytes", "1", "/tmp/request.json") == "{"


def test_it_stops(gpu: Served) -> None:
    """SIGTERM ends it with 0."""
    assert gpu.stop() == 0
