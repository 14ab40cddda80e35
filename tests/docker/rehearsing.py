"""What stands for AWS in a rehearsal of `python -m deploy`, and what a user does with it.

A real registry, real containers, the local control plane. Every command is a program of its own.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.models.containers import Container

from deploy.tests.support.commands import RUN_TIMEOUT_S, deploy, interrupt, meddle
from simulator.tests.support.control_plane import ControlPlane, control_plane
from tests.docker.registry import Registry, running_registry
from tests.docker.running import EXPORTS
from tests.support.merlins_answers import check_numbers

ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
#: The image is packed by one core, layer by layer: a minute where nothing else runs.
PUSH_TIMEOUT_S = 900


@dataclass(frozen=True)
class Rehearsal:
    """What stands for AWS, and an engine. folder: of files that a user writes."""

    plane: ControlPlane
    registry: Registry
    engine: docker.DockerClient
    host: str
    folder: Path

    def deploy(self, *arguments: str | Path, code: int = 0) -> str:
        """A command, to its end."""
        limit = PUSH_TIMEOUT_S if arguments[0] == "push" else RUN_TIMEOUT_S
        return deploy(self.plane, *arguments, code=code, host=self.host, timeout_s=limit)

    def meddle(
        self,
        *arguments: str | Path,
        when: Callable[[str], object],
        act: Callable[..., object] = interrupt,
        code: int = 130,
    ) -> str:
        """Ctrl-C, or something worse, when it is time by what a command says; all that it said."""
        log = Path(tempfile.mkdtemp(dir=self.folder)) / "log"
        ended = meddle(
            self.plane,
            *arguments,
            log=log,
            when=lambda: bool(when(log.read_text())),
            act=act,
            host=self.host,
        )
        said = log.read_text()
        assert ended == code, said
        assert "Traceback" not in said
        return said

    def push(self, image: str, repository: str, tag: str) -> str:
        """The image's name, as `push` prints it for CONFIG.toml."""
        options = ("--repository", repository, "--tag", tag, "--registry", self.registry.address)
        return image_of(self.deploy("push", image, *options))

    def put(self, config: Path, export: str, name: str) -> str:
        """An archive of an export, which the name means from then on; its target model."""
        said = self.deploy("put", config, EXPORTS / export, "--as", name)
        found = re.search(rf"^{name}  ({name}/\S+)  ", said, re.MULTILINE)
        assert found is not None, said
        return found[1]

    def ask(self, config: Path, export: str, *target: str) -> None:
        """A request by `invoke`: the answer is Merlin's own."""
        said = self.deploy("invoke", config, "--request", request_of(export), *target)
        (answer,) = [line for line in said.splitlines() if line.startswith("{")]
        check_numbers(EXPORTS / export, json.loads(answer))

    def containers(self, endpoint: str) -> list[Container]:
        """Of an endpoint, running or not."""
        label = f"sagemaker-simulator.endpoint={endpoint}"
        found: list[Container] = self.engine.containers.list(
            all=True, filters={"label": label}, ignore_removed=True
        )
        return found

    def images_of(self, endpoint: str) -> set[str]:
        """Of an endpoint's containers, as ECR names them."""
        return {
            f"{ECR}/{name.partition('/')[2]}"
            for container in self.containers(endpoint)
            for name in container.image.attrs["RepoDigests"]
        }


def image_of(said: str) -> str:
    """The name that `push` printed for CONFIG.toml."""
    found = re.search(r'^image = "(\S+@sha256:[0-9a-f]{64})"$', said, re.MULTILINE)
    assert found is not None, said
    return found[1]


def request_of(export: str) -> Path:
    """The request whose answer by Merlin is known."""
    return EXPORTS / export / "request.json"


@contextlib.contextmanager
def rehearsing(host: str, engine: docker.DockerClient, folder: Path) -> Iterator[Rehearsal]:
    """As docs/control-plane.md has it, with a bucket."""
    images, files = folder / "registry", folder / "files"
    images.mkdir()
    files.mkdir()
    with running_registry(images) as registry:
        try:
            with control_plane(
                folder / "log",
                *("--instances-on", "docker", "--registry", registry.address),
                container=None,
                environment={"DOCKER_HOST": host},
            ) as plane:
                plane.client("s3").create_bucket(Bucket="models")
                yield Rehearsal(plane, registry, engine, host, files)
        finally:
            forget(engine, registry.address)


def forget(engine: docker.DockerClient, registry: str) -> None:
    """Take the names away that the engine has of a registry's images."""
    for image in engine.images.list():
        for name in image.tags + (image.attrs["RepoDigests"] or []):
            if name.startswith(f"{registry}/"):
                engine.images.remove(name)
