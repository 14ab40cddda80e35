"""Containers of a Docker engine, as SageMaker starts them: `docker run IMAGE serve`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from docker.models.containers import Container
from docker.types import DeviceRequest, LogConfig

from merlin_simulator.instance.docker_memory import DockerGauge
from merlin_simulator.instance.instance import Instance
from merlin_simulator.rules import GIB
from merlin_simulator.runners.images import (
    TROUBLE,
    Engine,
    ImageRequest,
    Images,
    read_message,
    remove,
)
from merlin_simulator.runners.supervision import DoesNotStart
from merlin_simulator.threads import run_in_thread

#: AWS, "Custom inference code with hosting services": where a container listens.
_PORT = "8080/tcp"
_GPU_TYPE = re.compile(r"ml\.[gp]\d")
#: The engine keeps two files of a container's output of this size; all of it is in our own log.
_LOG_SIZE = "10m"
_KILLED = 128


@dataclass(frozen=True)
class ContainerSetup:
    """The surroundings of a container."""

    endpoint_name: str
    instance_type: str
    memory: int | None  # bytes; None where the type's is not known
    environment: Mapping[str, str]
    #: By where it sees them; it may only read them, as AWS says of /opt/ml/model.
    folders: Mapping[str, Path]


@dataclass
class DockerLauncher:
    """The containers of one instance, one after the other; each is made anew."""

    images: Images
    request: ImageRequest
    setup: ContainerSetup
    log: Path
    _image: str = ""

    async def prepare(self, instance: Instance) -> None:
        """The engine has the image. Raises ImageUnavailable."""
        self._image = await self.images.provide(self.request, instance.tell)

    async def launch(self, instance: Instance) -> DockerContainer:
        """A container that was started; from now on instance asks at its port."""
        engine, options = self.images.engine, self._options(instance.name)
        try:
            running = await run_in_thread(lambda: _start(engine, self._image, options, self.log))
        except TROUBLE as error:
            raise DoesNotStart(
                f"{self.request.image} does not start: {read_message(error)}"
            ) from error
        instance.client.url = running.url
        return running

    def _options(self, instance_name: str) -> dict[str, Any]:
        engine, setup = self.images.engine, self.setup
        return {
            "command": ["serve"],
            "environment": dict(setup.environment),
            "labels": dict(engine.labels(setup.endpoint_name, instance_name)),
            "ports": {_PORT: ("127.0.0.1", None)},
            "volumes": {
                str(folder): {"bind": seen, "mode": "ro"} for seen, folder in setup.folders.items()
            },
            "log_config": LogConfig(
                type=LogConfig.types.JSON, config={"max-size": _LOG_SIZE, "max-file": "2"}
            ),
            **make_limits(setup.memory, engine.memory),
            **make_devices(setup.instance_type, engine.gpus),
        }


def make_limits(memory: int | None, machine: int) -> dict[str, int]:
    """A container's memory, without swap beside it, and its /dev/shm: half, as on SageMaker."""
    limits = {"shm_size": (memory or machine) // 2}
    return {**limits, "mem_limit": memory, "memswap_limit": memory} if memory else limits


def make_devices(instance_type: str, gpus: bool) -> dict[str, Any]:
    """Every GPU of the machine for a type with GPUs, where the engine can hand them in."""
    if not gpus or not _GPU_TYPE.match(instance_type):
        return {}
    return {"device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])]}


def _start(engine: Engine, image: str, options: dict[str, Any], log: Path) -> DockerContainer:
    """Blocks. Nothing is left of one that does not start."""
    log.touch()
    container = engine.client.containers.create(image, **options)
    try:
        container.start()
        container.reload()
        return DockerContainer(container, log, options.get("mem_limit"))
    except BaseException:
        with suppress(*TROUBLE):
            remove(container)
        raise


class DockerContainer:
    """A container that was started. log: gets what it writes; memory: its limit in bytes."""

    def __init__(self, container: Container, log: Path, memory: int | None) -> None:
        self._container, self._log, self._memory = container, log, memory
        self._removal: asyncio.Task[None] | None = None
        state, ports = container.attrs["State"], container.ports
        published = (ports.get(_PORT) or [{}])[0].get("HostPort", "0")
        self.url = f"http://127.0.0.1:{published}"
        self.pid: int | None = state["Pid"] or None
        self.gauge = DockerGauge(lambda: container)

    async def wait_for_end(self) -> str:
        """Until it has ended, and all that it wrote is in the log."""
        return await run_in_thread(self._follow)

    async def stop(self, seconds: float) -> None:
        """As `docker stop`; it is gone then."""
        with suppress(*TROUBLE):
            await run_in_thread(lambda: self._container.stop(timeout=round(seconds)))
        await self.kill()

    async def kill(self) -> None:
        """It is gone, whoever asks for it first; what the engine leaves goes with the simulator."""
        if self._removal is None:
            self._removal = asyncio.create_task(self._remove())
        await asyncio.shield(self._removal)

    async def _remove(self) -> None:
        with suppress(*TROUBLE):
            await run_in_thread(lambda: remove(self._container))

    def _follow(self) -> str:
        try:
            with self._log.open("ab", buffering=0) as log:
                for part in self._container.logs(stream=True, follow=True):
                    log.write(part)
            code = int(self._container.wait(timeout=None)["StatusCode"])
            self._container.reload()
            killed = bool(self._container.attrs["State"].get("OOMKilled"))
        except NotFound:
            return "its removal"
        except TROUBLE as error:
            return f"trouble of the engine ({read_message(error)})"
        return describe_end(code, killed, self._memory)


def describe_end(code: int, out_of_memory: bool, memory: int | None) -> str:
    """How a container ended, in words."""
    if out_of_memory and memory:
        return f"signal 9, as it took more than its memory ({memory / GIB:.3g} GiB),"
    return f"signal {code - _KILLED}" if code > _KILLED else f"exit code {code}"
