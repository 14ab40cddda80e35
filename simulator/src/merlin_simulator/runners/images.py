"""Docker's engine, and the images that it has or pulls."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.utils import parse_repository_tag
from urllib3.exceptions import HTTPError

from merlin_simulator.errors import ImageUnavailable, PlatformFailed
from merlin_simulator.proc import read_command_line, read_tree
from merlin_simulator.threads import run_in_thread

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
    """An engine that answers."""

    client: docker.DockerClient
    memory: int  # of its machine, in bytes
    gpus: bool  # whether it can hand them in

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
                f"containers of an earlier simulator cannot be removed: {read_message(error)}"
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
    """The engine at that address; None: at DOCKER_HOST, or Docker's own socket.

    Raises PlatformFailed where none answers.
    """
    try:
        options: dict[str, Any] = {"timeout": _ANSWER_S, "max_pool_size": _CONNECTIONS}
        client = (
            docker.DockerClient(base_url=address, **options)
            if address
            else docker.from_env(**options)
        )
        info = client.info()
    except TROUBLE as error:
        engine = address or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        raise PlatformFailed(
            f"no Docker engine answers at {engine} ({read_message(error)}): start Docker, set "
            "DOCKER_HOST to its address, or take --instances-on this-machine"
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


def read_message(error: BaseException) -> str:
    """The engine's message, without HTTP's own words."""
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


#: ECR's hosts: AWS, "Amazon ECR private registries".
_ECR = re.compile(
    r"\d{12}\.dkr[.-]ecr(-fips)?\.[a-z0-9-]+\.(amazonaws\.com(\.cn)?|on\.aws|on\.amazonwebservices"
    r"\.com\.cn)/(?P<rest>\S+)"
)
#: Between two events of one pull.
_TOLD_EVERY_S = 2.0
#: What registries and engines say, in any case of letters.
_NOT_THERE = (
    "manifest unknown", "name unknown", "not found", "no such image", "invalid reference format",
)  # fmt: skip
_NO_RIGHT = (
    "denied", "unauthorized", "no basic auth credentials", "authentication required", "forbidden",
    "authorization",
)  # fmt: skip
#: Of a host, not of an image: "lookup HOST: no such host", "404 page not found" of another server.
_NO_REGISTRY = ("no such host", "dial tcp", "page not found", "server misbehaving")


class Fault(Enum):
    """Why an image cannot be had."""

    NOT_THERE = "not there"
    NO_RIGHT = "no right"
    NO_REGISTRY = "no registry"


@dataclass(frozen=True)
class ImageRequest:
    """An image as a model names it, for messages where it cannot be had."""

    image: str
    variant_name: str
    role: str  # an ARN


def classify_fault(message: str) -> Fault:
    """Why a pull failed, by what the engine says.

    Docker's own registry denies what does not exist, too: "does not exist or may require 'docker
    login'". That is no right.
    """
    message = message.lower()
    if any(word in message for word in _NO_REGISTRY):
        return Fault.NO_REGISTRY
    if any(word in message for word in _NOT_THERE):
        return Fault.NOT_THERE
    if any(word in message for word in _NO_RIGHT):
        return Fault.NO_RIGHT
    return Fault.NO_REGISTRY


def explain_failure(request: ImageRequest, message: str) -> str:
    """A FailureReason that begins with SageMaker's words, where it has some for the fault.

    Found in its users' reports: aws/amazon-sagemaker-examples#275, aws/deep-learning-containers#759
    and, of CreateModel, aws-samples/easy-amazon-sagemaker-deployments#4.
    """
    fault = classify_fault(message)
    if fault is Fault.NO_RIGHT:
        return (
            f"The role '{request.role}' does not have BatchGetImage permission for the image: "
            f"'{request.image}'. The engine says: {message}. Log in with docker login, or give the "
            "engine an image of that name."
        )
    if fault is Fault.NOT_THERE:
        return (
            "Please make sure all images included in the model for the production variant "
            f"{request.variant_name} exist, and that the execution role used to create the model "
            f"has permissions to access them. Requested image {request.image} not found. The "
            f"engine says: {message}."
        )
    return (
        f"Image {request.image} of production variant {request.variant_name} could not be pulled: "
        f"{message}. See that the engine and its registry run, name another one with --registry, "
        "or give the engine an image of that name."
    )


def find_source(image: str, registry: str | None) -> str:
    """Where an image is pulled from: registry, HOST:PORT, stands for the hosts of ECR."""
    match = _ECR.fullmatch(image)
    return f"{registry}/{match['rest']}" if registry and match else image


@dataclass
class Images:
    """Images of containers."""

    engine: Engine
    registry: str | None  # HOST:PORT that stands for ECR's hosts
    pull_s: float
    _pulling: dict[str, asyncio.Lock] = field(default_factory=dict)

    async def provide(self, request: ImageRequest, tell: Callable[..., None]) -> str:
        """The engine's name of the image, after a pull if it had none.

        From a registry that stands for ECR it is pulled each time, which takes nothing where it is
        the same: an image that was pushed again is seen. Without the registry, what is there is
        taken. tell: hears of it, as Instance.tell. Raises ImageUnavailable, or PlatformFailed
        without an engine.
        """
        source = find_source(request.image, self.registry)
        async with self._pulling.setdefault(source, asyncio.Lock()):
            if await self._is_present(request, request.image):
                return request.image
            try:
                await self._pull_in_time(request, source, tell)
            except PullRefused as error:
                answer = str(error)
                gone = classify_fault(answer) is Fault.NO_REGISTRY
                if (
                    source == request.image
                    or not gone
                    or not await self._is_present(request, source)
                ):
                    message = explain_failure(request, answer)
                    tell("image_pull_failed", image=request.image, message=answer)
                    raise ImageUnavailable(message) from error
            return source

    async def _is_present(self, request: ImageRequest, name: str) -> bool:
        try:
            await run_in_thread(lambda: self.engine.client.images.get(name))
        except ImageNotFound:
            return False
        except APIError as error:
            raise ImageUnavailable(explain_failure(request, read_message(error))) from error
        except TROUBLE as error:
            raise PlatformFailed(
                f"The Docker engine does not answer: {read_message(error)}."
            ) from error
        return True

    async def _pull_in_time(
        self, request: ImageRequest, source: str, tell: Callable[..., None]
    ) -> None:
        start, ended = time.monotonic(), threading.Event()
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int) -> None:
            loop.call_soon_threadsafe(
                lambda: tell("image_pulling", image=request.image, bytes=done, total=total)
            )

        tell("image_pull_started", image=request.image)
        try:
            await asyncio.wait_for(
                run_in_thread(lambda: self._pull(source, progress, ended)), self.pull_s
            )
        except asyncio.TimeoutError as error:
            raise PullRefused(f"it was not pulled within {self.pull_s:g} s") from error
        except TROUBLE as error:
            raise PullRefused(read_message(error)) from error
        finally:
            ended.set()
        tell("image_pulled", image=request.image, seconds=time.monotonic() - start)

    def _pull(self, source: str, tell: Callable[[int, int], None], ended: threading.Event) -> None:
        """Blocks; the engine gives up a pull that nobody listens to."""
        repository, tag = parse_repository_tag(source)
        lines = self.engine.client.api.pull(
            repository, tag=tag or "latest", stream=True, decode=True
        )
        follow_pull(lines, tell, ended.is_set)


def follow_pull(
    lines: Iterable[Mapping[str, Any]],
    tell: Callable[[int, int], None],
    ended: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Follow a pull by the engine's messages. tell: bytes of all layers, there and in all.

    Raises PullRefused.
    """
    layers = dict[str, tuple[int, int]]()
    last_told = clock()
    for line in lines:
        if ended():
            return
        if "error" in line:
            raise PullRefused(str(line["error"]).strip().rstrip("."))
        detail = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and "total" in detail:
            layers[line.get("id", "")] = (detail.get("current", 0), detail["total"])
        if layers and clock() - last_told >= _TOLD_EVERY_S:
            last_told = clock()
            tell(sum(done for done, _ in layers.values()), sum(all_ for _, all_ in layers.values()))


class PullRefused(Exception):
    """A pull failed; the message has the engine's words, without a full stop."""
