"""The Docker engine of this machine: who owns which of its containers, and what is left behind.

Each container has labels: of what it is a part, and which simulator started it. A simulator that
was killed leaves its containers running; the next one removes them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from urllib3.exceptions import HTTPError

from merlin_simulator.errors import PlatformFailed
from merlin_simulator.proc import read_command_line, read_tree

_PREFIX = "sagemaker-simulator"
#: Of a container: the simulator that started it, as _owner writes it.
_OWNER = f"{_PREFIX}.owner"
#: An answer of the engine; what takes longer by its nature is asked without.
_ANSWER_S = 60
#: Each container that runs has a connection that its output comes by.
_CONNECTIONS = 256
#: What the SDK raises; requests' errors are OSErrors, those of what is streamed are urllib3's.
TROUBLE = (DockerException, OSError, HTTPError)


@dataclass(frozen=True)
class Engine:
    """An engine that answers. memory: of its machine, in bytes; gpus: it can hand them in."""

    client: docker.DockerClient
    memory: int
    gpus: bool

    def labels(self, endpoint_name: str, instance_name: str) -> Mapping[str, str]:
        """Of a container of this simulator."""
        return {
            _OWNER: _owner(os.getpid()),
            f"{_PREFIX}.endpoint": endpoint_name,
            f"{_PREFIX}.instance": instance_name,
        }

    def remove_left_behind(self) -> int:
        """Of simulators of this machine that do not run any more; how many there were.

        Raises PlatformFailed.
        """
        try:
            return self._remove(lambda owner: _is_here(owner) and not _runs(owner))
        except TROUBLE as error:
            raise PlatformFailed(
                f"containers of an earlier simulator cannot be removed: {said(error)}"
            ) from error

    def remove_own(self) -> int:
        """Whatever this simulator started and did not remove."""
        own = _owner(os.getpid())
        return self._remove(lambda owner: owner == own)

    def close(self) -> None:
        """Close every connection."""
        self.client.close()

    def _remove(self, chosen: Callable[[str], bool]) -> int:
        removed = 0
        listed = self.client.containers.list(
            all=True, filters={"label": _OWNER}, ignore_removed=True
        )
        for container in listed:
            if chosen(container.labels.get(_OWNER, "")):
                remove(container)
                removed += 1
        return removed


def connect(address: str | None) -> Engine:
    """The engine at that address; None: at DOCKER_HOST, or Docker's own place.

    Raises PlatformFailed where none answers.
    """
    try:
        made: dict[str, Any] = {"timeout": _ANSWER_S, "max_pool_size": _CONNECTIONS}
        client = (
            docker.DockerClient(base_url=address, **made) if address else docker.from_env(**made)
        )
        info = client.info()
    except TROUBLE as error:
        place = address or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        raise PlatformFailed(
            f"no Docker engine answers at {place} ({said(error)}): start Docker, set DOCKER_HOST "
            "to its address, or take --instances-on this-machine"
        ) from error
    return Engine(client, int(info["MemTotal"]), "nvidia" in info.get("Runtimes", {}))


def remove(container: Container) -> None:
    """Ended at once where it runs; it is gone afterwards, or goes already. Blocks."""
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if error.status_code != 409:  # its removal is in progress
            raise


def said(error: BaseException) -> str:
    """The engine's own words, without what HTTP adds to them."""
    if isinstance(error, HTTPError):
        return "the Docker engine went away in the middle of an answer"
    explanation = getattr(error, "explanation", None)
    return str(explanation or error).strip().rstrip(".")


def _owner(pid: int) -> str:
    """Pid, its start, so that another process with the pid is told apart, and the machine."""
    process = next(iter(read_tree(pid)), None)
    return f"{pid} {process.start if process else 0} {socket.gethostname()}"


def _is_here(owner: str) -> bool:
    """Of this machine: another's processes are not seen from here."""
    pid, _, rest = owner.partition(" ")
    return pid.isdigit() and rest.partition(" ")[2] == socket.gethostname()


def _runs(owner: str) -> bool:
    """One that was killed may still be listed, without a command line: its parent does not wait."""
    pid = int(owner.partition(" ")[0])
    return _owner(pid) == owner and bool(read_command_line(pid))
