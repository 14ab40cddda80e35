"""A stack of docker-compose.yml: brought up, asked by boto3, looked at, taken down."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import docker
import httpx
from botocore.config import Config
from docker.models.containers import Container

from tests.docker.base_image import ROOT
from tests.docker.engine import REMEDY
from tests.docker.running import LOOK_S

#: Images are there: packing, the local S3 and two starts.
UP_TIMEOUT_S = 300.0
#: A load takes 4 s, on a machine with ten times its work 70; the platform's own limit is 360 s.
WAIT_TIMEOUT_S = 300.0
ENDPOINT = "shop"
PLUGIN = ("docker", "compose")


def compose_commands() -> list[tuple[str, ...]]:
    """Which composes are there: the program of its own (version 1, mostly), docker's plugin (2)."""
    found: list[tuple[str, ...]] = []
    if shutil.which("docker-compose"):
        found.append(("docker-compose",))
    if subprocess.run([*PLUGIN, "version"], check=False, capture_output=True).returncode == 0:
        found.append(PLUGIN)
    return found


@dataclass(frozen=True)
class Stack:
    """One project: names and ports of its own, so that it stands beside any other."""

    engine: docker.DockerClient
    command: tuple[str, ...]
    project: str
    port: int
    settings: Mapping[str, str]

    def compose(self, *arguments: str) -> str:
        """A compose command that must succeed; what it said."""
        assert self.command, f"neither docker-compose nor docker compose is there; {REMEDY}"
        done = subprocess.run(
            [*self.command, "--project-name", self.project, *arguments],
            cwd=ROOT,
            env={**os.environ, **self.settings},
            check=False,
            timeout=UP_TIMEOUT_S,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{self.log()}"
        return done.stdout

    def log(self) -> str:
        """The last of what each container said."""
        return "".join(
            f"--- {container.name} ({container.status})\n"
            f"{container.logs(tail=40).decode(errors='replace')}"
            for container in self.containers()
        )

    def containers(self, service: str | None = None) -> list[Container]:
        """Its containers, those that ended among them."""
        labels = [f"com.docker.compose.project={self.project}"]
        if service is not None:
            labels.append(f"com.docker.compose.service={service}")
        return list(self.engine.containers.list(all=True, filters={"label": labels}))

    def leftovers(self) -> list[object]:
        """Containers, volumes and networks of the project."""
        label = {"label": f"com.docker.compose.project={self.project}"}
        engine = self.engine
        volumes, networks = engine.volumes.list(filters=label), engine.networks.list(filters=label)
        return [*self.containers(), *volumes, *networks]

    def client(self) -> Any:
        """boto3's unmodified client, but that it tries once: a test wants to see each failure."""
        return boto3.client(
            "sagemaker-runtime",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
            config=Config(
                retries={"total_max_attempts": 1}, read_timeout=WAIT_TIMEOUT_S, proxies={}
            ),
        )

    def state(self) -> dict[str, Any]:
        """What the simulator's page draws."""
        url = f"http://127.0.0.1:{self.port}/simulator/state"
        answer = httpx.get(url, timeout=30.0, trust_env=False)
        return dict(answer.json())

    def in_service(self) -> list[str]:
        """The instances that get requests."""
        instances = self.state()["instances"]
        return [one["name"] for one in instances if one["state"] == "in service"]

    def wait_for(self, what: Callable[[], bool], why: str) -> None:
        """Look until it is so, in WAIT_TIMEOUT_S."""
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while not what():
            assert time.monotonic() < deadline, f"{why}\n{self.state()}\n{self.log()}"
            time.sleep(LOOK_S)


def stack_settings(host: str, images: Mapping[str, str], exports: Path) -> dict[str, str]:
    """The variables of .env.example for a stack on free ports with these images."""
    socket_path = host.removeprefix("unix://") if host.startswith("unix://") else "/dev/null"
    return {
        **images,
        "DOCKER_HOST": host,
        "DOCKER_SOCKET": socket_path,
        "ENDPOINT_NAME": ENDPOINT,
        "EXPORTS": str(exports),
        "INSTANCE_MEMORY": "3gb",
        "PORT": str(free_port()),
        "S3_PORT": str(free_port()),
    }


def free_port() -> int:
    """One that nobody has now; compose needs to be told a number."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
