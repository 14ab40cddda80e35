"""What a hostile request is tried on: the container, or Triton's own SageMaker frontend.

Both speak SageMaker's multi-model contract, so both get the same bytes. Both run within the same
bounds of memory, and are started again when they have died.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx

from container.tritonserver.process import remove_shared_memory
from tests.reliability.attacked import MOST_ADDRESS_SPACE, MOST_MEMORY, Attacked, attacked
from tests.reliability.bounded import Bounds
from tests.reliability.cgroups import Group, group
from tests.support.container import until
from tests.support.sagemaker_triton import frontend_command


class Server(Protocol):
    """One that runs. deaths: what has ended of it, in words; None while all of it lives."""

    @property
    def port(self) -> int: ...

    @property
    def archives(self) -> Path: ...

    @property
    def group(self) -> Group: ...

    def death(self) -> str | None: ...


@dataclass
class Shielded:
    """The container; its tritonserver's death counts, though the container heals it."""

    server: Attacked
    triton: int | None

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def archives(self) -> Path:
        return self.server.container.model_root

    @property
    def group(self) -> Group:
        return self.server.group

    def death(self) -> str | None:
        """A restarted tritonserver is another process."""
        self.server.trim_log()
        if self.server.has_ended:
            return "the container ends"
        return "tritonserver dies" if self.server.triton() != self.triton else None


@dataclass
class Frontend:
    """tritonserver with NVIDIA's own frontend."""

    process: subprocess.Popen[bytes]
    port: int
    archives: Path
    group: Group
    log: Path

    def death(self) -> str | None:
        with contextlib.suppress(OSError):
            if self.log.stat().st_blocks * 512 > 64 << 20:
                os.truncate(self.log, 0)
        return "tritonserver dies" if self.process.poll() is not None else None


@contextlib.contextmanager
def shielded(directory: Path, **environment: str) -> Iterator[Shielded]:
    """A fresh container."""
    with attacked(directory, environment=environment) as server:
        yield Shielded(server, server.triton())


@contextlib.contextmanager
def frontend(directory: Path) -> Iterator[Frontend]:
    """A fresh tritonserver with its own frontend; killed at the end, as it may hang."""
    command = frontend_command(directory)
    log = directory / "log"
    with group() as own, log.open("wb") as sink:
        bounds = Bounds(own.directories)
        if own.memory is None:
            bounds = Bounds(own.directories, {}, None, MOST_ADDRESS_SPACE)
        else:
            own.limit_memory(MOST_MEMORY)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.bounded", *command.argv],
            env={**command.environment, **bounds.environment()},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: _is_live(command.port), "Triton's frontend is live")
            yield Frontend(process, int(command.port), directory / "archives", own, log)
        finally:
            process.kill()
            process.wait()
            own.end_all()
            remove_shared_memory(command.shm_prefix)


def _is_live(port: str) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ping", timeout=60, trust_env=False).is_success
    except httpx.TransportError:
        return False
