"""A real registry of images on this machine: Debian's docker-registry, which may die and come back.

What was pushed to it lies in its folder, and stays there.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.docker.engine import ASK_TIMEOUT_S
from tests.support.container import until


@dataclass
class Registry:
    """address: HOST:PORT, the same after each start. process: None while it is down."""

    address: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it answers."""
        program = shutil.which("docker-registry")
        assert program is not None, "docker-registry is not there: apt-get install docker-registry"
        config = self.folder / "config.yml"
        config.write_text(
            "version: 0.1\nlog: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.folder}/data}}}}\n"
            f"http: {{addr: '{self.address}'}}\n"
        )
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([program, "serve", config], stdout=log, stderr=log)
        until(self._answers, "the registry answers")

    def kill(self) -> None:
        """Where it stands."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(ASK_TIMEOUT_S)
        self.process = None

    def layers(self, repository: str) -> int:
        """How many layers of a repository it has, and no part of one."""
        there = self.folder / "data/docker/registry/v2/repositories" / repository / "_layers/sha256"
        return len(list(there.glob("*/link")))

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return (
                httpx.get(f"http://{self.address}/v2/", trust_env=False, timeout=60).status_code
                == 200
            )
        return False


@contextlib.contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Empty; it ends with the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        registry = Registry(f"127.0.0.1:{free.getsockname()[1]}", folder)
    try:
        registry.start()
        yield registry
    finally:
        if registry.process is not None:
            registry.kill()
