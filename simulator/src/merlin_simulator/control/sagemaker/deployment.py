"""How an endpoint is brought to a configuration, and back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record
from merlin_simulator.control.sagemaker.resources import in_progress
from merlin_simulator.errors import ArchiveUnavailable, ImageUnavailable, SimulatorError
from merlin_simulator.hosting import Endpoint, Fleet, Share
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import FleetPart

#: Service model: FailureReason has at most 1024 characters.
_REASON_CHARACTERS = 1024


class DeploymentFailed(Exception):
    """Fleets did not come into service; the message is a FailureReason."""


@dataclass
class DeployedVariant:
    """A variant that is deployed: its instances, its weight and how its configuration has it."""

    fleet: Fleet
    weight: float
    config: Mapping[str, Any]
    image: str


#: Makes what a variant of a configuration is deployed as, without an instance yet: of an endpoint's
#: name, the variant, its model as it was created, the endpoint's log and the numbers of instances.
#: Raises SimulatorError.
MakeVariant = Callable[
    [str, Mapping[str, Any], Mapping[str, Any], EventLog, Iterator[int]],
    Awaitable[DeployedVariant],
]


class Deployment:
    """The fleets of one endpoint."""

    def __init__(self, endpoint_name: str, log: EventLog, make: MakeVariant) -> None:
        self.endpoint_name, self.log = endpoint_name, log
        self._make, self._numbers = make, itertools.count(1)
        self.deployed_variants: dict[str, DeployedVariant] = {}
        self.endpoint: Endpoint | None = None
        #: Of an update, by variant: those that come up, and those that have been taken over from.
        self._coming: dict[str, DeployedVariant] = {}
        self._leaving: dict[str, DeployedVariant] = {}

    def list_fleets(self) -> Iterator[tuple[FleetPart, DeployedVariant]]:
        """Everything that has instances, and what it is to the endpoint's requests."""
        yield from ((FleetPart.SERVING, deployed) for deployed in self.deployed_variants.values())
        yield from ((FleetPart.COMING, deployed) for deployed in self._coming.values())
        yield from ((FleetPart.LEAVING, deployed) for deployed in self._leaving.values())

    async def deploy(
        self,
        variants: Sequence[Mapping[str, Any]],
        models: Mapping[str, Mapping[str, Any]],
        retained: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Bring these variants up, and let them take over.

        models: as they were created, by name. retained: count and weight by variant.

        Raises DeploymentFailed, or asyncio.CancelledError; what came is gone then.
        """
        self._coming = coming = dict[str, DeployedVariant]()
        try:
            for variant in variants:
                name = variant["VariantName"]
                coming[name] = await self._make_variant(variant, models)
                coming[name].weight = retained.get(name, {}).get("weight", coming[name].weight)
            await _all(
                self._scale(deployed, count_of(deployed.config, retained))
                for deployed in coming.values()
            )
        except BaseException:
            await _uninterrupted(_stop_all(coming.values()))
            raise
        finally:
            self._coming = {}
        self._leaving = leaving = self.deployed_variants
        self.deployed_variants = coming
        self._switch()
        try:
            await _uninterrupted(_stop_all(leaving.values()))
        finally:
            self._leaving = {}

    async def scale(self, counts: Mapping[str, int], weights: Mapping[str, float]) -> None:
        """Other counts and weights. Raises DeploymentFailed; then the counts are as before."""
        for name, weight in weights.items():
            self.deployed_variants[name].weight = weight
        self._switch()
        await _all(
            self._scale(self.deployed_variants[name], count) for name, count in counts.items()
        )

    async def stop(self) -> None:
        """Nothing is left: instances answer what they have, then their containers end."""
        await _stop_all(deployed for _, deployed in self.list_fleets())
        self.deployed_variants, self.endpoint = {}, None

    def _switch(self) -> None:
        shares = [
            Share(deployed.fleet.variant, deployed.weight)
            for deployed in self.deployed_variants.values()
        ]
        if self.endpoint is None:
            self.endpoint = Endpoint(self.endpoint_name, shares, self.log)
        else:
            self.endpoint.switch(shares)

    async def _make_variant(
        self, variant: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]
    ) -> DeployedVariant:
        model = models[variant["ModelName"]]
        try:
            return await self._make(self.endpoint_name, variant, model, self.log, self._numbers)
        except SimulatorError as error:
            raise DeploymentFailed(str(error)[:_REASON_CHARACTERS]) from error

    async def _scale(self, deployed: DeployedVariant, count: int) -> None:
        try:
            await deployed.fleet.scale(count)
        except (ArchiveUnavailable, ImageUnavailable) as error:
            raise DeploymentFailed(str(error)[:_REASON_CHARACTERS]) from error
        except SimulatorError as error:
            name = deployed.fleet.variant.name
            # It begins and ends as SageMaker's.
            begin = (
                f"The primary container for production variant {name} did not pass the ping health "
                "check. "
            )
            end = " Please check CloudWatch logs for this endpoint."
            room = _REASON_CHARACTERS - len(begin) - len(end)
            raise DeploymentFailed(begin + str(error)[:room] + end) from error


def count_of(variant: Mapping[str, Any], retained: Mapping[str, Mapping[str, Any]]) -> int:
    """How many instances a variant of a configuration comes up with, where some are kept."""
    count: int = retained.get(variant["VariantName"], {}).get(
        "count", variant["InitialInstanceCount"]
    )
    return count


async def _stop_all(deployed_variants: Iterable[DeployedVariant]) -> None:
    await asyncio.gather(*(deployed.fleet.stop() for deployed in deployed_variants))


async def _all(work: Any) -> None:
    """All of these side by side; the first failure ends the others, and is raised."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _uninterrupted(work: Awaitable[Any]) -> None:
    """To its end, also while this task is cancelled: nothing is left behind half ended."""
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


#: What of its record an endpoint is described by.
DESCRIBED = (
    "EndpointName",
    "EndpointArn",
    "EndpointConfigName",
    "EndpointStatus",
    "FailureReason",
    "CreationTime",
    "LastModifiedTime",
    "LastDeploymentConfig",
    "MetricsConfig",
    "DataCaptureConfig",
)
_CHANGING = ("Creating", "Updating", "RollingBack", "Deleting")


@dataclass
class ManagedEndpoint:
    """An endpoint: what is kept of it, what is deployed of it, and the change it is in."""

    record: Record
    deployment: Deployment
    work: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """The endpoint's."""
        return str(self.record["EndpointName"])

    @property
    def status(self) -> str:
        """EndpointStatus."""
        return str(self.record["EndpointStatus"])


def metrics_config(config: Record) -> Record:
    """MetricsConfig of an endpoint's configuration."""
    return {key: config[key] for key in ("MetricsConfig",) if key in config}


def check_idle(managed: ManagedEndpoint, region: str) -> None:
    """Raises ServiceError where it is in a change."""
    if managed.status in _CHANGING:
        raise ServiceError(in_progress(managed.name, region))


def describe_variants(managed: ManagedEndpoint) -> list[dict[str, Any]]:
    """ProductionVariants of DescribeEndpoint."""
    described = []
    for name, deployed in managed.deployment.deployed_variants.items():
        described.append(
            {
                "VariantName": name,
                "DeployedImages": [
                    {
                        "SpecifiedImage": deployed.image,
                        "ResolvedImage": deployed.image,
                        "ResolutionTime": managed.record["LastModifiedTime"],
                    }
                ],
                "CurrentWeight": deployed.weight,
                "DesiredWeight": deployed.weight,
                "CurrentInstanceCount": deployed.fleet.in_service,
                "DesiredInstanceCount": deployed.fleet.desired,
            }
        )
    return described


def find_retained(
    managed: ManagedEndpoint, members: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """AWS, "UpdateEndpoint": counts and weights that stay as they are, by variant."""
    if not members.get("RetainAllVariantProperties"):
        return {}
    left_out = {
        excluded["VariantPropertyType"]
        for excluded in members.get("ExcludeRetainedVariantProperties", ())
    }
    retained = dict[str, dict[str, Any]]()
    for name, deployed in managed.deployment.deployed_variants.items():
        retained[name] = {
            "count": deployed.fleet.desired,
            "weight": deployed.weight,
        }
        if "DesiredInstanceCount" in left_out:
            del retained[name]["count"]
        if "DesiredWeight" in left_out:
            del retained[name]["weight"]
    return retained
