"""The images as they are, and what `docker run` does with them before anything is served."""

from __future__ import annotations

from dataclasses import dataclass

import docker
import pytest

from tests.docker.images import Built

#: AWS, "Build your own container for multi-model endpoints" and "Troubleshoot multi-container
#: endpoints": the one is for the former, the other for the latter.
LABELS = (
    "com.amazonaws.sagemaker.capabilities.multi-models",
    "com.amazonaws.sagemaker.capabilities.accept-bind-to-port",
)
RUN_TIMEOUT_S = 120


@dataclass(frozen=True)
class Ended:
    """A container that ended by itself: its exit code, and what it said."""

    code: int
    said: str


def ended(engine: docker.DockerClient, image: str, *arguments: str) -> Ended:
    """`docker run IMAGE ARGUMENTS`."""
    container = engine.containers.run(image, list(arguments) or None, detach=True)
    try:
        code = int(container.wait(timeout=RUN_TIMEOUT_S)["StatusCode"])
        return Ended(code, container.logs().decode(errors="replace"))
    finally:
        container.remove(force=True)


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_sagemaker_accepts_it(target: str, engine: docker.DockerClient, images: Built) -> None:
    """Both serving images carry the labels without which CreateModel refuses them, and the port."""
    config = engine.images.get(getattr(images, target)).attrs["Config"]
    assert {name: config["Labels"].get(name) for name in LABELS} == dict.fromkeys(LABELS, "true")
    assert list(config["ExposedPorts"]) == ["8080/tcp"]


def test_no_volume_of_its_own(engine: docker.DockerClient, images: Built) -> None:
    """An image that declares volumes leaves one behind with every container: none does."""
    for name in (images.cpu, images.gpu, images.simulator):
        assert not engine.images.get(name).attrs["Config"].get("Volumes")


def test_serve_is_the_default(engine: docker.DockerClient, images: Built) -> None:
    """`docker run IMAGE` serves; with nothing to serve it ends with 1 and says what is missing."""
    run = ended(engine, images.cpu)
    assert run.code == 1
    assert "/opt/ml/model: there is no such directory" in run.said
    assert "SAGEMAKER_MULTI_MODEL=true" in run.said


def test_another_word_than_serve(engine: docker.DockerClient, images: Built) -> None:
    """A word that it does not know ends it with 2 and the words that it knows."""
    run = ended(engine, images.cpu, "train")
    assert run.code == 2
    assert "invalid choice: 'train'" in run.said
    assert "serve" in run.said


def test_the_simulator_says_what_it_can(engine: docker.DockerClient, images: Built) -> None:
    """`docker run SIMULATOR` alone prints its commands."""
    run = ended(engine, images.simulator)
    assert run.code == 0, run.said
    assert "python -m merlin_simulator" in run.said


def test_nothing_that_only_tests_need(engine: docker.DockerClient, images: Built) -> None:
    """The packages' own tests, torch's headers and our tests are not in the image."""
    script = "find /opt/serve -type d \\( -name tests -o -path '*/torch/include' \\)"
    container = engine.containers.run(
        images.cpu, ["-c", script], entrypoint="/bin/sh", remove=True, detach=False
    )
    assert container.decode() == ""


def test_nothing_that_only_the_command_line_shows(
    engine: docker.DockerClient, images: Built
) -> None:
    """Neither Graphviz nor tqdm is beside the server; the command line does without them."""
    script = """
        python=/opt/serve/.venv/bin/python
        $python -c "import tqdm" 2> /dev/null && echo "tqdm is there"
        command -v dot && echo "Graphviz is there"
        mkdir -p /tmp/archive/model/1 && touch /tmp/archive/model/1/model.py
        $python -I -m ensemble_tools explain /tmp/archive --format mermaid || true
    """
    container = engine.containers.run(
        images.cpu, ["-c", script], entrypoint="/bin/sh", remove=True, detach=False
    )
    assert container.decode().startswith("flowchart")
