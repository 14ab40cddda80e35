"""`python -m deploy` rehearsed, as a user goes: images, archives, an endpoint, and back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from deploy.tests.support.commands import write_config
from deploy.tests.support.runs import left_of
from merlin_deploy.engine import LABEL
from simulator.tests.support.endpoint_traffic import traffic
from tests.docker.images import Built
from tests.docker.registry import Registry, running_registry
from tests.docker.rehearsing import ECR, Rehearsal, image_of, request_of
from tests.docker.running import EXPORTS
from tests.docker.small_image import make_image
from tests.support.merlins_answers import check_numbers

SCALING = """
[autoscaling]
max = 2
invocations_per_instance = 100000
"""
#: Random bytes take some seconds to be packed and sent: long enough to be cut off.
LARGE, SMALL = 64_000_000, 1000


# -- an image on its way


@dataclass(frozen=True)
class CutPushes:
    """What `push` said: at Ctrl-C, when the registry died, and each time the next one.

    elsewhere: after ECR's repository was deleted. names: that the engine has for the image then.
    """

    interrupted: str
    after_it: str
    died: str
    after_that: str
    elsewhere: str
    names: list[str]


@pytest.fixture(scope="module", autouse=True)
def cut_pushes(
    rehearsal: Rehearsal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Future[CutPushes]]:
    """Made beside the tests: the engine tries for 50 s to reach a registry that is gone."""
    with (
        running_registry(tmp_path_factory.mktemp("frail")) as frail,
        ThreadPoolExecutor(1) as thread,
    ):
        yield thread.submit(cut_off, rehearsal, frail)


def cut_off(rehearsal: Rehearsal, frail: Registry) -> CutPushes:
    """Of two images, since what the registry has is not sent again."""
    ecr = rehearsal.plane.client("ecr")
    first, second = ("cut:1", "cut:2")
    with made_image(rehearsal.engine, first), made_image(rehearsal.engine, second):
        push = ("--registry", frail.address)

        def layers(count: int) -> Callable[[str], object]:
            return lambda _: frail.layers("cut") >= count

        interrupted = rehearsal.meddle("push", first, *push, when=layers(1))
        after_it = rehearsal.deploy("push", first, *push)
        there = frail.layers("cut")
        died = rehearsal.meddle(
            "push", second, *push, when=layers(there + 1), act=lambda _: frail.kill(), code=1
        )
        frail.start()
        after_that = rehearsal.deploy("push", second, *push)
        ecr.delete_repository(repositoryName="cut", force=True)
        elsewhere = rehearsal.deploy("push", second, *push)
        names = rehearsal.engine.images.get(second).tags
    return CutPushes(interrupted, after_it, died, after_that, elsewhere, names)


@contextlib.contextmanager
def made_image(engine: docker.DockerClient, name: str) -> Iterator[None]:
    """Of two layers that no other has, a small and a large one."""
    dockerfile = f"FROM scratch\nLABEL {LABEL}=true\nCOPY small /\nCOPY large /\n"
    files = {
        "small": os.urandom(SMALL),
        "large": os.urandom(LARGE),
        "Dockerfile": dockerfile.encode(),
    }
    build(engine, name, files)
    yield
    engine.images.remove(name, force=True)


def build(engine: docker.DockerClient, name: str, files: Mapping[str, bytes]) -> None:
    """`docker build` in a folder of these files."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    context.seek(0)
    engine.images.build(fileobj=context, custom_context=True, tag=name, rm=True)


# -- an endpoint's life


def test_an_image_that_ecr_does_not_have(rehearsal: Rehearsal, host: str, tmp_path: Path) -> None:
    """The endpoint is Failed, in ECR's words; `up` with one that is there makes it anew.

    `down` finishes an `up` that was cut off in the middle of that.
    """
    make_image(host, "small:1", '["{python}", "/fake.py", "--host", "0.0.0.0", "--port", "8080"]')
    missing = write_config(tmp_path, "lost", image=f"{ECR}/small:2")
    rehearsal.put(missing, "dense", "shop-a")
    said = rehearsal.deploy("up", missing, code=1)
    assert f"the image is taken by its tag: ECR does not know {ECR}/small:2" in said
    assert f"Requested image {ECR}/small:2 not found" in said
    there = write_config(tmp_path, "lost", image=rehearsal.push("small:1", "small", "1"))
    said = rehearsal.meddle("up", there, when=lambda said: "is created" in said)
    assert "is Failed" in said
    assert "what stays" in rehearsal.deploy("down", there)
    assert rehearsal.containers("lost") == []
    rehearsal.engine.images.remove("small:1")


def test_from_an_image_to_an_endpoint_and_back(
    rehearsal: Rehearsal, images: Built, served_image: Future[str], tmp_path: Path
) -> None:
    """A new archive, a new image under a caller's eyes, back again, and nothing is left.

    Ctrl-C in an `up` is finished by the next one. A tag is what its digest is.
    """
    deploy, plane = rehearsal.deploy, rehearsal.plane
    first = served_image.result()
    config = write_config(tmp_path, "shop", SCALING, image=f"{ECR}/shop:1")
    nothing = left_of(plane, "shop", [config])
    dense = rehearsal.put(config, "dense", "shop-a")
    rehearsal.put(config, "session", "shop-b")

    rehearsal.meddle("up", config, when=lambda said: "Creating" in said)
    assert "is in service" in deploy("up", config)
    assert rehearsal.images_of("shop") == {first}
    by_digest = tmp_path / "by-digest"
    by_digest.mkdir()
    assert "created" not in deploy("up", write_config(by_digest, "shop", SCALING, image=first))
    rehearsal.ask(config, "dense", "--model", "shop-a")
    rehearsal.ask(config, "session", "--model", "shop-b")
    status = json.loads(deploy("status", config, "--json"))
    assert status["endpoint"]["status"] == "InService"
    assert status["configuration"]["is_wanted"]
    assert status["traffic"]["invocations"] == 2

    rehearsal.put(config, "ragged", "shop-a")
    rehearsal.ask(config, "ragged", "--model", "shop-a")
    assert dense in deploy("rollback", config, "--archive", "shop-a")
    rehearsal.ask(config, "dense", "--model", "shop-a")

    dockerfile = f"FROM {images.cpu}\nLABEL made=again\n".encode()
    build(rehearsal.engine, "shop:2", {"Dockerfile": dockerfile})
    # Under the tag that CONFIG.toml has.
    second = rehearsal.push("shop:2", "shop", "1")
    assert second != first
    body = request_of("dense").read_bytes()
    with traffic(plane, "shop", 1, target=dense, body=body) as sent:
        rehearsal.meddle("up", config, when=lambda said: "Updating" in said)
        assert "is in service" in deploy("up", config)
        assert rehearsal.images_of("shop") == {second}
        rehearsal.ask(config, "session", "--model", "shop-b")
        assert "is in service as before" in deploy("rollback", config)
        assert rehearsal.images_of("shop") == {first}
    assert sent.failures() == 0
    for answer in sent.answers:
        check_numbers(EXPORTS / "dense", json.loads(answer))
    status = json.loads(deploy("status", config, "--json"))
    assert status["traffic"]["invocations"] > len(sent.answers) > 0
    assert status["traffic"]["errors_5xx"] == 0
    assert status["configuration"]["image"] == first
    assert not status["configuration"]["is_wanted"]

    assert "what stays" in deploy("down", config)
    assert rehearsal.containers("shop") == []
    assert left_of(plane, "shop", [config]) == nothing
    alarms = plane.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert [it["AlarmName"] for it in alarms if "shop" in it["AlarmName"]] == []
    rehearsal.engine.images.remove("shop:2")


def test_a_registry_that_is_down(rehearsal: Rehearsal, tmp_path: Path) -> None:
    """Nothing is changed while the digest behind a tag is not known: the next `up` begins."""
    config = write_config(tmp_path, "dark", image=f"{ECR}/shop:1")
    rehearsal.registry.kill()
    try:
        said = rehearsal.deploy("up", config, code=1)
    finally:
        rehearsal.registry.start()
    assert "does not answer as it should" in said
    assert "ask again" in said
    assert not rehearsal.plane.client("sagemaker").list_models(NameContains="dark-")["Models"]


def test_pushes_that_are_cut_off(cut_pushes: Future[CutPushes]) -> None:
    """The next one finishes it. What the registry has is not sent again, no name is left."""
    said = cut_pushes.result()
    assert said.interrupted.endswith("the same command finishes it\n")
    assert "pushed: 2 of 2 layers" in said.after_it
    assert "the push stopped" in said.died.splitlines()[-1]
    assert "pushed: 2 of 2 layers" in said.after_that
    assert "repository cut created" in said.elsewhere
    assert "pushed: 2 of 2 layers, 0 bytes; 2 were there before" in said.elsewhere
    assert image_of(said.elsewhere) == image_of(said.after_that) != image_of(said.after_it)
    assert said.names == ["cut:2"]
