"""The endpoint's parts, joined: the only place where they are built."""

from __future__ import annotations

import asyncio
import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from merlin_simulator.addresses import find_free_port
from merlin_simulator.app import Runner
from merlin_simulator.archives.model_disk import ModelDisk
from merlin_simulator.archives.stores import ArchiveStore
from merlin_simulator.hosting import Endpoint, Fleet, Share, Variant
from merlin_simulator.instance.container_client import ContainerClient
from merlin_simulator.instance.holdings import Budget, Holdings
from merlin_simulator.instance.instance import Instance
from merlin_simulator.rules import Rules
from merlin_simulator.runners.attached import AttachedInstances, Attachment
from merlin_simulator.runners.processes import CHECKOUT, OUR_CONTAINER, ProcessLauncher
from merlin_simulator.runners.supervision import SupervisedInstance
from merlin_simulator.watch.events import EventLog

if TYPE_CHECKING:
    from merlin_simulator.control.variant_deployer import VariantSpec
    from merlin_simulator.runners.images import ImageRequest, Images

#: Where a container finds its models, and its only one: AWS, "Use your own inference code".
MULTI_MODEL_ROOT, SINGLE_MODEL_ROOT = Path("/opt/ml/models"), Path("/opt/ml/model")
_SINGLE = "single-model"
_MULTI_MODEL: Mapping[str, str] = {"SAGEMAKER_MULTI_MODEL": "true"}


@dataclass(frozen=True)
class EndpointSpec:
    """An endpoint to be run: of processes, or of attachments where there are any."""

    endpoint_name: str
    rules: Rules
    budget: Budget
    work_dir: Path
    instances: int = 1
    container: str | None = None
    single_model: str | None = None
    attachments: tuple[Attachment, ...] = ()
    docker_socket: str | None = None
    #: Of the containers, beside this program's own.
    environment: Mapping[str, str] = field(default_factory=dict)


def assemble(
    spec: EndpointSpec, store: ArchiveStore, log: EventLog
) -> tuple[Endpoint, Sequence[Runner]]:
    """The endpoint, and what keeps its instances going."""
    multi_model = spec.single_model is None
    name = spec.endpoint_name
    variant = Variant(name, multi_model, store.description, spec.rules, log)
    endpoint = Endpoint(name, [Share(variant)], log)
    factory = InstanceFactory(spec, store, log, spec.container, spec.docker_socket)
    if spec.attachments:
        return endpoint, [
            AttachedInstances(attachment, factory.attached, variant, spec.rules)
            for attachment in spec.attachments
        ]
    fleet = Fleet(variant, factory.process, _names(), _leave_there)
    return endpoint, [FixedFleet(fleet, spec.instances)]


def _leave_there(_: str) -> None:
    """The folder is the user's, or goes as a whole."""


def _names() -> Iterator[str]:
    return (f"instance-{number}" for number in itertools.count(1))


@dataclass(frozen=True)
class FixedFleet:
    """A fleet that has one number of instances from its start to its end."""

    fleet: Fleet
    count: int

    async def run(self) -> None:
        """Until cancelled. Raises PlatformFailed where an instance never was in service."""
        await self.fleet.scale(self.count)
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """No instance is left."""
        await self.fleet.stop()


@dataclass(frozen=True)
class InstanceFactory:
    """Makes the instances of one variant."""

    spec: EndpointSpec | VariantSpec
    store: ArchiveStore
    log: EventLog
    container: str | None = None
    docker_socket: str | None = None

    def attached(self, name: str, url: str, attachment: Attachment) -> Instance:
        """A container that runs already."""
        instance = self._instance(name, url, ModelDisk(attachment.root, attachment.seen_as))
        if self.docker_socket is not None:
            # docker: most endpoints have no engine to ask.
            from merlin_simulator.instance.docker_memory import ByAddress, DockerGauge

            find = ByAddress(self.docker_socket, urlsplit(url).hostname or "")
            instance.holdings.memory.gauge = DockerGauge(find)
        return instance

    def process(self, name: str, given_up: Callable[[], bool]) -> SupervisedInstance:
        """A container that is a process of this machine. given_up: whether nobody wants it."""
        spec, port = self.spec, find_free_port()
        root = spec.work_dir / name / "models"
        disk = ModelDisk(root)
        instance = self._instance(name, f"http://127.0.0.1:{port}", disk)
        launcher = ProcessLauncher(
            _command(self.container, port, root),
            {
                "SAGEMAKER_BIND_TO_PORT": str(port),
                "SERVE_BIND_ADDRESS": "127.0.0.1",
                "SERVE_MODEL_ROOT": str(root),
                **self._mode(disk, given_up),
                **spec.environment,
            },
            CHECKOUT if self.container is None else None,
            spec.work_dir / f"{name}.log",
        )
        return SupervisedInstance(instance, launcher, spec.rules, spec.single_model is None)

    def contained(
        self,
        name: str,
        images: Images,
        request: ImageRequest,
        instance_type: str,
        given_up: Callable[[], bool],
    ) -> SupervisedInstance:
        """A container of a Docker engine; it listens where SageMaker's do."""
        from merlin_simulator.runners.containers import ContainerSetup, DockerLauncher

        spec, root = self.spec, (self.spec.work_dir / name / "models").absolute()
        multi_model = spec.single_model is None
        disk = ModelDisk(root, MULTI_MODEL_ROOT)
        # Its address is known once it has started.
        instance = self._instance(name, "http://127.0.0.1:0", disk)
        if multi_model:
            folders, mode = {str(MULTI_MODEL_ROOT): root}, _MULTI_MODEL
        else:
            folders, mode = {str(SINGLE_MODEL_ROOT): self._single_model(disk, given_up)}, {}
        setup = ContainerSetup(
            spec.endpoint_name,
            instance_type,
            spec.budget.memory,
            {**mode, **spec.environment},
            folders,
        )
        launcher = DockerLauncher(
            images, request, setup, (spec.work_dir / f"{name}.log").absolute()
        )
        return SupervisedInstance(instance, launcher, spec.rules, multi_model)

    def _mode(self, disk: ModelDisk, given_up: Callable[[], bool]) -> Mapping[str, str]:
        """The environment of multi-model mode, or of a model that lies there from the start."""
        if self.spec.single_model is None:
            return _MULTI_MODEL
        return {"SERVE_SINGLE_MODEL_DIR": str(self._single_model(disk, given_up))}

    def _single_model(self, disk: ModelDisk, given_up: Callable[[], bool]) -> Path:
        """The folder of the endpoint's only model, which is fetched. Raises what that raises."""
        assert self.spec.single_model is not None
        limits, unheard = self.spec.rules.extraction, lambda kind, fields: None
        disk.remove(_SINGLE)  # of an earlier run in the same --work-dir
        disk.fetch(self.spec.single_model, _SINGLE, self.store, limits, given_up, unheard)
        return disk.directory(_SINGLE)

    def _instance(self, name: str, url: str, disk: ModelDisk) -> Instance:
        rules, multi_model = self.spec.rules, self.spec.single_model is None
        client = ContainerClient(url, rules)
        holdings = Holdings(name, client, disk, self.store, rules, self.spec.budget, self.log)
        return Instance(name, client, holdings, rules, self.log, multi_model)


def _command(template: str | None, port: int, root: Path) -> Sequence[str]:
    """The container's command with what it cannot know filled in."""
    if template is None:
        return OUR_CONTAINER
    command = shlex.split(template)
    return [word.replace("{port}", str(port)).replace("{models}", str(root)) for word in command]
