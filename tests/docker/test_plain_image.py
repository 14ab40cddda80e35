"""The gpu target on a stand-in for Triton's plain image: Python 3.12, and neither Merlin nor torch.

stand_in/triton.Dockerfile says what that has and lacks. NVIDIA's own are not built here.
"""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.docker.base_image import ROOT
from tests.docker.images import Built, build_on
from tests.docker.running import EXPORTS, Served, deliver, serving

WORKFLOWS = ROOT / "tests/golden/workflows"
COMPILED = ("dense", "ragged", "session")
RELEASES = ROOT / "tests/golden/merlin_releases"
#: Of 23.06, whose workflows are not compiled.
NOT_COMPILED = "23.06_workflow_executor"
#: What is asked for, and what the refusal says to install or to do.
LACKING = {
    "two_workflows": ("No module named 'torch'; install it into the Python that runs models",),
    "tensorflow_ragged": ("needs tensorflow, which the models' Python does not have",),
    "forest_xgboost": ("needs xgboost, which the models' Python does not have",),
    NOT_COMPILED: (
        "install merlin-systems and nvtabular into the Python that runs models",
        "or take an image with Merlin, or an export whose workflows are all compiled",
    ),
}


@pytest.fixture(scope="module")
def plain(
    engine: docker.DockerClient, images: Built, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A container of the image, with the compiled exports in it and others beside them."""
    models = deliver(tmp_path_factory.mktemp("models"), *COMPILED, exports=WORKFLOWS)
    deliver(models, *(LACKING.keys() - {NOT_COMPILED}), exports=EXPORTS)
    deliver(models, NOT_COMPILED, exports=RELEASES)
    with serving(engine, images.plain, models, shm_size="256m") as served:
        for name in COMPILED:
            answer = served.load(name)
            assert answer.status_code == 200, answer.text
        yield served


@pytest.mark.parametrize("name", COMPILED)
def test_merlins_numbers(name: str, plain: Served) -> None:
    """An export without frameworks answers as Merlin does: its workflow needs numpy alone."""
    plain.check_numbers(name, WORKFLOWS)


def test_what_the_image_has(plain: Served) -> None:
    """Its own tritonserver, and a Python of its own without Merlin and torch."""
    assert "tritonserver found path=/opt/tritonserver/bin/tritonserver" in plain.log
    said = plain.run("python3", "-c", "import sys, numpy; print(sys.version, numpy.__version__)")
    assert said.startswith("3.12.")
    assert said.split()[-1].startswith("1.")
    for module in ("torch", "nvtabular", "ensurepip"):
        assert plain.container.exec_run(["python3", "-c", f"import {module}"])[0] == 1


def test_the_backend_for_tensorflow_is_said(plain: Served) -> None:
    """This tritonserver has none, as NVIDIA's have none from 25.03 on: the container's plays it."""
    (line,) = (line for line in plain.log.splitlines() if " configured " in line)
    assert "tensorflow (stand-in)" in line


@pytest.mark.parametrize("name", LACKING)
def test_what_needs_a_framework_is_refused(name: str, plain: Served) -> None:
    """The load is the archive's fault here: a 400 that says what to install, and where."""
    answer = plain.load(name)
    assert answer.status_code == 400, answer.text
    for words in LACKING[name]:
        assert words in answer.json()["error"]


def test_the_others_go_on(plain: Served) -> None:
    """Refused loads leave them as they are, and it ends in order."""
    for name in COMPILED:
        plain.check_numbers(name, WORKFLOWS)
    assert plain.stop() == 0


def test_a_base_without_tritonserver(host: str, images: Built) -> None:
    """The build ends with one sentence, which says what was found and what to take."""
    done = build_on(host, images.base)
    assert done.returncode != 0
    assert "BASE_IMAGE does not fit: found no /opt/tritonserver/bin/tritonserver, expected a " in (
        done.stdout
    )
