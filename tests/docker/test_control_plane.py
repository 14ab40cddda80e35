"""`python -m simulator serve --instances-on docker`: instances are containers of an engine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import httpx
import pytest
from botocore.exceptions import ClientError
from docker.models.containers import Container

from merlin_simulator.errors import ImageUnavailable
from merlin_simulator.runners.containers import DockerContainer
from merlin_simulator.runners.images import ImageRequest, Images, connect
from simulator.tests.support.control_plane import IMAGE, ROLE, ControlPlane, control_plane
from tests.docker.engine import ASK_TIMEOUT_S
from tests.docker.registry import running_registry
from tests.docker.small_image import make_image
from tests.support.container import until

MIB = 1024 * 1024
MEMORY = 200 * MIB
NAMES = ("a.tar.gz", "b.tar.gz")
LABEL = "sagemaker-simulator.endpoint"


@dataclass(frozen=True)
class Docked:
    """A control plane with an engine, and a registry that has IMAGE's name and tag."""

    plane: ControlPlane
    engine: docker.DockerClient

    def containers(self, endpoint: str) -> list[Container]:
        """Of an endpoint, running or not."""
        return containers(self.engine, f"{LABEL}={endpoint}")

    def delete(self, endpoint: str) -> None:
        """Delete it, and wait until it is gone."""
        self.plane.client("sagemaker").delete_endpoint(EndpointName=endpoint)
        until(lambda: endpoint not in self.plane.endpoint_names(), "the endpoint is gone")


def containers(engine: docker.DockerClient, label: str = LABEL) -> list[Container]:
    """Those with a label."""
    found: list[Container] = engine.containers.list(
        all=True, filters={"label": label}, ignore_removed=True
    )
    return found


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of one that is empty."""
    with running_registry(tmp_path_factory.mktemp("registry")) as started:
        yield started.address


@pytest.fixture(scope="module")
def pushed(host: str, engine: docker.DockerClient, registry: str) -> str:
    """The image of the fake container as the registry has it; the engine has it no more."""
    name = f"{registry}/{IMAGE.partition('/')[2]}"
    make_image(host, name, '["{python}", "/fake.py", "--host", "0.0.0.0", "--port", "8080"]')
    engine.images.push(name)
    engine.images.remove(name, force=True)
    return name


@pytest.fixture(scope="module")
def docked(
    host: str,
    engine: docker.DockerClient,
    registry: str,
    pushed: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Docked]:
    """A control plane whose instances have 200 MiB; nothing of it is left at its end."""
    folder = tmp_path_factory.mktemp("plane")
    with running(host, registry, folder / "log") as plane:
        plane.put_models(folder, *NAMES)
        plane.put_models(folder, "large.tar.gz", bucket="large", mebibytes=400)
        plane.put_models(folder, "a.tar.gz", bucket="large")
        yield Docked(plane, engine)
        assert plane.stop() == 0, plane.log_path.read_text()
    assert containers(engine) == []


def running(
    host: str, registry: str, log_path: Path, *options: str
) -> contextlib.AbstractContextManager[ControlPlane]:
    """A control plane with that engine and registry."""
    return control_plane(
        log_path,
        *("--instances-on", "docker", "--registry", registry),
        *("--memory-of", "ml.c5.xlarge=200MB", *options),
        container=None,
        environment={"DOCKER_HOST": host},
    )


def test_from_a_pull_to_nothing_left(docked: Docked, pushed: str) -> None:
    """The registry's image is pulled, asked, and goes with its endpoint."""
    docked.plane.create_endpoint("life", "s3://models/shop/", Environment={"COLOUR": "blue"})
    said = docked.plane.log_path.read_text()
    assert "image pull started" in said
    assert "image pulled" in said
    for name in NAMES:
        assert name.encode() in docked.plane.invoke("life", name)["Body"].read()
    (container,) = docked.containers("life")
    assert container.image.tags == [pushed]
    made = container.attrs
    assert {"COLOUR=blue", "SAGEMAKER_MULTI_MODEL=true"} <= set(made["Config"]["Env"])
    assert made["Config"]["Cmd"] == ["serve"]
    limits = {key: made["HostConfig"][key] for key in ("Memory", "MemorySwap", "ShmSize")}
    assert limits == {"Memory": MEMORY, "MemorySwap": MEMORY, "ShmSize": MEMORY // 2}
    (mount,) = made["Mounts"]
    assert (mount["Destination"], mount["RW"]) == ("/opt/ml/models", False)
    docked.delete("life")
    assert docked.containers("life") == []


def test_a_single_model_lies_in_its_folder(docked: Docked) -> None:
    url = "s3://models/shop/b.tar.gz"
    docked.plane.create_endpoint("single", url, Mode="SingleModel")
    assert b'"b.tar.gz"' in docked.plane.invoke("single", None)["Body"].read()
    (container,) = docked.containers("single")
    assert [mount["Destination"] for mount in container.attrs["Mounts"]] == ["/opt/ml/model"]
    assert not any(it.startswith("SAGEMAKER_MULTI") for it in container.attrs["Config"]["Env"])
    docked.delete("single")


def test_a_container_that_is_killed_comes_again(docked: Docked) -> None:
    """A new one in its place, which answers; of the old one nothing is left."""
    docked.plane.create_endpoint("killed", "s3://models/shop/")
    (before,) = docked.containers("killed")
    before.kill()
    until(lambda: _answers_again(docked.plane, "killed"), "it answers again")
    (after,) = docked.containers("killed")
    assert after.id != before.id
    assert "ended with signal 9" in docked.plane.log_path.read_text()
    docked.delete("killed")


def _answers_again(plane: ControlPlane, endpoint: str) -> bool:
    try:
        return b"a.tar.gz" in plane.invoke(endpoint, "a.tar.gz")["Body"].read()
    except (
        plane.client("sagemaker-runtime").exceptions.ServiceUnavailable,
        plane.client("sagemaker-runtime").exceptions.ModelError,
    ):
        return False  # no instance in service, or one whose end was not seen yet


def test_a_model_above_the_instances_memory(docked: Docked) -> None:
    """The kernel kills the container, as it does there: its caller is told, and it comes again."""
    docked.plane.create_endpoint("memory", "s3://large/shop/")
    (before,) = docked.containers("memory")
    with pytest.raises(ClientError) as refused:
        docked.plane.invoke("memory", "large.tar.gz")
    assert refused.value.response["Error"]["Code"] == "ModelError"
    until(lambda: _answers_again(docked.plane, "memory"), "it answers again")
    assert docked.containers("memory") != [before]
    assert "took more than its memory (0.195 GiB)" in docked.plane.log_path.read_text()
    docked.delete("memory")


def test_an_image_that_is_not_there(docked: Docked) -> None:
    """SageMaker's words, and the name."""
    other = IMAGE.replace(":1", ":2")
    docked.plane.create_endpoint("absent", "s3://models/shop/", wait=False, Image=other)
    assert docked.plane.settled("absent") == "Failed"
    reason = docked.plane.describe("absent")["FailureReason"]
    assert reason.startswith("Please make sure all images included in the model for the production")
    assert f"Requested image {other} not found." in reason
    docked.delete("absent")


def test_a_registry_that_is_down(docked: Docked) -> None:
    """What to do is said, in bounded time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        image = f"127.0.0.1:{free.getsockname()[1]}/shop:1"
    docked.plane.create_endpoint("down", "s3://models/shop/", wait=False, Image=image)
    assert docked.plane.settled("down") == "Failed"
    reason = docked.plane.describe("down")["FailureReason"]
    assert f"Image {image} of production variant AllTraffic could not be pulled" in reason
    assert "connection refused" in reason
    docked.delete("down")


async def test_a_registry_that_never_answers(host: str) -> None:
    """The pull is given up in its time, and both are told."""
    told: list[str] = []
    with (
        contextlib.closing(connect(host)) as engine,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        asked = ImageRequest(f"127.0.0.1:{silent.getsockname()[1]}/shop:1", "AllTraffic", ROLE)
        with pytest.raises(ImageUnavailable, match=r"it was not pulled within 0\.5 s"):
            await Images(engine, None, 0.5).provide(asked, lambda kind, **_: told.append(kind))
    assert told == ["image_pull_started", "image_pull_failed"]


def test_what_the_engine_has_is_taken_as_it_is(docked: Docked, pushed: str) -> None:
    """Under the long name of ECR, whatever a registry has under it; its last words are told."""
    name = IMAGE.replace(":1", ":here")
    docked.engine.images.pull(pushed).tag(name)
    docked.plane.create_endpoint(
        "here", "s3://models/shop/", wait=False, Image=name, Environment={"FAKE_START": "dies"}
    )
    assert docked.plane.settled("here") == "Failed"
    reason = docked.plane.describe("here")["FailureReason"]
    assert "exit code 1" in reason
    assert "no CUDA-capable device is detected" in reason
    assert docked.containers("here") == []
    docked.delete("here")


def test_deleted_while_it_is_created(docked: Docked) -> None:
    docked.plane.create_endpoint(
        "early", "s3://models/shop/", wait=False, Environment={"FAKE_START": "silent"}
    )
    # From then on it heeds SIGTERM: the first process of a container ignores it by itself.
    until(lambda: _listens(docked, "early"), "its container listens")
    assert docked.plane.describe("early")["EndpointStatus"] == "Creating"
    docked.delete("early")
    assert docked.containers("early") == []


def _listens(docked: Docked, endpoint: str) -> bool:
    for container in docked.containers(endpoint):
        published = container.ports.get("8080/tcp")
        with contextlib.suppress(httpx.TransportError):
            if published:
                url = f"http://127.0.0.1:{published[0]['HostPort']}/fake"
                return httpx.get(url, trust_env=False, timeout=60).status_code == 200
    return False


async def test_its_memory_is_read(docked: Docked, tmp_path: Path) -> None:
    """From the engine, with what the fake's Python takes at the least."""
    docked.plane.create_endpoint("read", "s3://models/shop/")
    (container,) = docked.containers("read")
    used = (await DockerContainer(container, tmp_path / "log", MEMORY).gauge.read(())).used
    assert used is not None
    assert 10 * MIB < used < MEMORY
    docked.delete("read")


def test_a_killed_simulators_containers_go_at_the_next_start(
    host: str, engine: docker.DockerClient, registry: str, docked: Docked, tmp_path: Path
) -> None:
    """With its state: the endpoint is back, with a container of its own. The others' stay."""
    docked.plane.create_endpoint("beside", "s3://models/shop/")
    state = ("--state", str(tmp_path / "state"))
    log = tmp_path / "log"
    with running(host, registry, log, *state) as it:
        it.put_models(tmp_path, *NAMES)
        it.create_endpoint("kept", "s3://models/shop/")
        os.kill(it.process.pid, signal.SIGKILL)
        it.process.wait(ASK_TIMEOUT_S)
    (left,) = docked.containers("kept")
    assert left.status == "running"
    with running(host, registry, log, *state) as it:
        assert it.settled("kept") == "InService"
        (back,) = docked.containers("kept")
        assert back.id != left.id
        assert it.stop() == 0
    assert docked.containers("kept") == []
    assert len(docked.containers("beside")) == 1
    docked.delete("beside")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--container", "true"], "--container is the command of processes"),
        ([], "no Docker engine answers at unix:///nowhere.sock"),
    ],
    ids=["container", "engine"],
)
def test_what_cannot_start_says_so(options: list[str], said: str) -> None:
    """One sentence, and 1."""
    command = [sys.executable, "-m", "simulator", "serve", "--port", "0", *options]
    done = subprocess.run(
        [*command, "--instances-on", "docker"],
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere.sock"},
        check=False,
        capture_output=True,
        text=True,
        timeout=ASK_TIMEOUT_S,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"simulator: {said}")
