"""The gpu image, on a stand-in for NVIDIA's: see stand_in/merlin.Dockerfile for what that has.

NVIDIA's own image is not built here: 15 GB, from a registry that not every machine reaches.
"""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.docker.base_image import ROOT
from tests.docker.images import Built
from tests.docker.running import Served, deliver, serving


@pytest.fixture(scope="module")
def gpu(
    engine: docker.DockerClient, images: Built, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A container of the gpu image with one export in it."""
    models = deliver(tmp_path_factory.mktemp("models"), "dense")
    with serving(engine, images.gpu, models) as served:
        answer = served.load("dense")
        assert answer.status_code == 200, answer.text
        yield served


def test_merlins_numbers(gpu: Served) -> None:
    """A Merlin export answers with Merlin's numbers: its models run in the image's own Python."""
    gpu.check_numbers("dense")


def test_the_images_own_tritonserver(gpu: Served) -> None:
    """The server is the image's, and its libraries come from there."""
    assert "tritonserver found path=/opt/tritonserver/bin/tritonserver" in gpu.log


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


def test_it_stops(gpu: Served) -> None:
    """SIGTERM ends it with 0."""
    assert gpu.stop() == 0
