"""The memory of containers beside the simulator, asked from the Docker engine.

Needs the engine's socket. Without it an instance's memory is not known, and only the container's
own 507 makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import docker
from docker.errors import DockerException
from docker.models.containers import Container

from merlin_simulator.instance.memory import CpuMeter, MemoryReading, share_out
from merlin_simulator.threads import run_in_thread

_KIB = 1024
_NANOSECONDS = 1_000_000_000
#: An engine that does not answer (requests' errors are OSErrors), or with something else than it
#: should: while a container starts or ends, its figures are empty or missing.
_TROUBLE = (DockerException, OSError, LookupError, TypeError, ValueError, AttributeError)


class DockerGauge:
    """A container. find: the SDK's object of it, or None. It may block, and raise."""

    def __init__(self, find: Callable[[], Container | None]) -> None:
        self._find = find
        self._container: Container | None = None
        self._cpu = CpuMeter()

    async def read(self, model_names: Collection[str]) -> MemoryReading:
        """Asked in a thread: the engine answers in some 10 ms."""
        return await run_in_thread(lambda: self._read(frozenset(model_names)))

    def _read(self, model_names: frozenset[str]) -> MemoryReading:
        try:
            container = self._container = self._container or self._find()
            return MemoryReading() if container is None else self._seen(container, model_names)
        except _TROUBLE:
            self._container = None  # it may have been made anew
            return MemoryReading()

    def _seen(self, container: Container, model_names: frozenset[str]) -> MemoryReading:
        stats = container.stats(stream=False, one_shot=True)
        cpu = stats["cpu_stats"]["cpu_usage"]["total_usage"] / _NANOSECONDS
        # docker's own ps: resident size in KiB, shared pages included.
        top = container.top(ps_args="-eo pid,rss,args")["Processes"]
        seen = [(args, int(rss) * _KIB) for _, rss, args in top]
        by_model = share_out(seen, model_names).by_model
        return MemoryReading(_used(stats), by_model, self._cpu.percent(cpu))


class ByAddress:
    """Finds the container that has an address in one of the engine's networks.

    connect makes the engine's client of a base_url, once, when the engine is first asked.
    """

    def __init__(
        self,
        socket: str,
        address: str,
        connect: Callable[..., docker.DockerClient] = docker.DockerClient,
    ) -> None:
        self._socket, self._address, self._connect = socket, address, connect
        self._client: docker.DockerClient | None = None

    def __call__(self) -> Container | None:
        """None where no container has the address now. Blocks."""
        if self._client is None:
            self._client = self._connect(base_url=self._socket)
        for container in self._client.containers.list():
            networks = container.attrs["NetworkSettings"]["Networks"].values()
            if self._address in {network["IPAddress"] for network in networks}:
                return container
        return None


def _used(stats: Mapping[str, Any]) -> int:
    """As `docker stats` has it: without the page cache that can be given back."""
    memory = stats["memory_stats"]
    given_back = memory["stats"].get("inactive_file", memory["stats"].get("total_inactive_file", 0))
    return int(memory["usage"]) - int(given_back)
