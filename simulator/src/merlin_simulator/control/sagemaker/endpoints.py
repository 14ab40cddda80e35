"""SageMaker's calls about endpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from merlin_simulator.api.wire import REGION
from merlin_simulator.control.apis import Operation
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record, Records, filter_records
from merlin_simulator.control.sagemaker.deployment import (
    DESCRIBED,
    Deployment,
    DeploymentFailed,
    MakeVariant,
    ManagedEndpoint,
    check_idle,
    count_of,
    describe_variants,
    find_retained,
    metrics_config,
)
from merlin_simulator.control.sagemaker.resources import (
    EndpointConfigs,
    Models,
    Tags,
    already_there,
    check_quotas,
    is_taken,
    list_page,
    make_arn,
    not_found,
)
from merlin_simulator.errors import EndpointNotFound, PlatformFailed
from merlin_simulator.hosting import Endpoint
from merlin_simulator.watch.events import Event, EventLog

_logger = logging.getLogger(__name__)

_SORTS = {"Name": "EndpointName", "CreationTime": "CreationTime", "Status": "EndpointStatus"}
_LISTED = ("EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus")


@dataclass
class Listeners:
    """Who hears of endpoints: of each event of one, and that one is gone."""

    event: list[Callable[[str, Event], None]] = field(default_factory=list)
    deleted: list[Callable[[str], None]] = field(default_factory=list)


class Endpoints:
    """All endpoints of the control plane. log: hears of their changes."""

    def __init__(
        self,
        records: Records,
        tags: Tags,
        clock: Clock,
        configs: EndpointConfigs,
        models: Models,
        make: MakeVariant,
        quotas: Mapping[str, int],
        log: EventLog,
    ) -> None:
        self._records, self._tags, self._clock, self._configs = records, tags, clock, configs
        self._models, self._make, self._quotas, self.log = models, make, quotas, log
        self._by_name: dict[str, ManagedEndpoint] = {}
        self.listeners = Listeners()
        #: Whether a variant of an endpoint is a scalable target: autoscaling says so.
        self.is_scaled: Callable[[str, str], bool] = lambda *_: False

    # -- for the runtime API, for scaling and for the page

    def find(self, endpoint_name: str) -> Endpoint:
        """The endpoint to invoke. Raises EndpointNotFound where none is in service yet."""
        managed = self._by_name.get(endpoint_name)
        if managed is None or managed.deployment.endpoint is None or managed.status == "Deleting":
            raise EndpointNotFound(endpoint_name)
        return managed.deployment.endpoint

    def all(self) -> tuple[ManagedEndpoint, ...]:
        """Every endpoint, in the order of their creation."""
        return tuple(self._by_name.values())

    def lookup(self, endpoint_name: str) -> ManagedEndpoint | None:
        """An endpoint, whatever its status; None: there is none."""
        return self._by_name.get(endpoint_name)

    async def scale(self, endpoint_name: str, variant_name: str, count: int) -> None:
        """Change a variant's number of instances, and wait until it is so.

        Raises ServiceError where the endpoint is in another change, or may not have as many, and
        DeploymentFailed.
        """
        managed = self._require(endpoint_name, REGION)
        check_idle(managed, managed.record["Region"])
        self._check_counts(managed, {variant_name: count})
        self._begin(managed, "Updating", self._change_counts(managed, {variant_name: count}, {}))
        assert managed.work is not None
        await asyncio.shield(managed.work)
        if managed.record.get("FailureReason"):
            raise DeploymentFailed(managed.record["FailureReason"])

    def restore(self) -> None:
        """Bring back every endpoint that was kept, as it was; those that were going are gone."""
        for record in self._records.values():
            if record["EndpointStatus"] == "Deleting":
                self._forget(record)
                continue
            managed = self._add(record)
            if record["EndpointStatus"] == "Failed":
                continue
            self._begin(managed, "Creating", self._bring_up(managed, record["Variants"]))

    async def stop(self) -> None:
        """The simulator ends: every instance with it; what is kept stays."""
        await asyncio.gather(*(self._stop(managed) for managed in self._by_name.values()))

    # -- the calls

    async def create(self, call: Call) -> Mapping[str, Any]:
        """CreateEndpoint: answered at once, while the endpoint is Creating."""
        members, name = call.members, call.members["EndpointName"]
        if is_taken(name, self._records):
            raise ServiceError(already_there("endpoint", name, call.region))
        config = self._configs.get(members["EndpointConfigName"], call.region)
        self._tags.check(members.get("Tags", ()))
        self._check_quotas(config["ProductionVariants"])
        arn, now = make_arn("endpoint", name, call.region), self._clock.now()
        record = {
            "EndpointName": name,
            "EndpointArn": arn,
            "EndpointConfigName": config["EndpointConfigName"],
            "EndpointStatus": "Creating",
            "CreationTime": now,
            "LastModifiedTime": now,
            "Region": call.region,
            "ProductionVariants": config["ProductionVariants"],
            "Models": self._models_of(config, call.region),
            "Variants": {},
            **metrics_config(config),
        }
        self._tags.put(arn, members.get("Tags", ()))
        self._records.put(name, record)
        managed = self._add(record)
        self._begin(managed, "Creating", self._bring_up(managed, {}))
        return {"EndpointArn": arn}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeEndpoint."""
        managed = self._require(call.members["EndpointName"], call.region)
        record = managed.record
        described = {key: record[key] for key in DESCRIBED if key in record}
        if variants := describe_variants(managed):
            described["ProductionVariants"] = variants
        if "Pending" in record:
            described["PendingDeploymentSummary"] = record["Pending"]
        return described

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListEndpoints."""
        records = [managed.record for managed in self._by_name.values()]
        if (status := call.members.get("StatusEquals")) is not None:
            records = [record for record in records if record["EndpointStatus"] == status]
        matching = filter_records(records, call.members, "EndpointName", _SORTS)
        return list_page("Endpoints", matching, call, _LISTED)

    async def update(self, call: Call) -> Mapping[str, Any]:
        """UpdateEndpoint: answered at once, while the endpoint is Updating."""
        members = call.members
        managed = self._require(members["EndpointName"], call.region)
        check_idle(managed, call.region)
        if managed.deployment.endpoint is None:
            raise ServiceError(
                f'Cannot update endpoint "{managed.record["EndpointArn"]}": it is '
                f"{managed.status}. Delete it and create it anew."
            )
        config = self._configs.get(members["EndpointConfigName"], call.region)
        self._check_scaled(managed, config)
        models, retained = self._models_of(config, call.region), find_retained(managed, members)
        variants = [
            {**variant, "InitialInstanceCount": count_of(variant, retained)}
            for variant in config["ProductionVariants"]
        ]
        self._check_quotas(variants)
        if not members.get("RetainDeploymentConfig"):
            managed.record.pop("LastDeploymentConfig", None)
            if "DeploymentConfig" in members:
                managed.record["LastDeploymentConfig"] = members["DeploymentConfig"]
        self._begin(managed, "Updating", self._replace(managed, config, models, retained))
        return {"EndpointArn": managed.record["EndpointArn"]}

    async def update_weights_and_capacities(self, call: Call) -> Mapping[str, Any]:
        """UpdateEndpointWeightsAndCapacities: answered at once."""
        managed = self._require(call.members["EndpointName"], call.region)
        check_idle(managed, call.region)
        arn = managed.record["EndpointArn"]
        counts, weights = dict[str, int](), dict[str, float]()
        for desired in call.members["DesiredWeightsAndCapacities"]:
            name = desired["VariantName"]
            if name not in managed.deployment.deployed_variants:
                raise ServiceError(f'Could not find variant "{name}" of endpoint "{arn}".')
            if (count := desired.get("DesiredInstanceCount")) is not None:
                counts[name] = count
            if (weight := desired.get("DesiredWeight")) is not None:
                weights[name] = weight
        self._check_counts(managed, counts)
        self._begin(managed, "Updating", self._change_counts(managed, counts, weights))
        return {"EndpointArn": arn}

    async def delete(self, call: Call) -> None:
        """DeleteEndpoint: answered at once; whatever it was doing ends."""
        managed = self._require(call.members["EndpointName"], call.region)
        if managed.status == "Deleting":
            return
        self._begin(managed, "Deleting", self._take_down(managed, managed.work))

    # -- what is done meanwhile

    async def _bring_up(
        self, managed: ManagedEndpoint, retained: Mapping[str, Mapping[str, Any]]
    ) -> None:
        try:
            record = managed.record
            await managed.deployment.deploy(
                record["ProductionVariants"], record["Models"], retained
            )
        except DeploymentFailed as error:
            self._end_work(managed, "Failed", str(error))
        else:
            self._end_work(managed, "InService")

    async def _replace(
        self,
        managed: ManagedEndpoint,
        config: Record,
        models: Mapping[str, Record],
        retained: Mapping[str, Mapping[str, Any]],
    ) -> None:
        managed.record["Pending"] = {
            "EndpointConfigName": config["EndpointConfigName"],
            "StartTime": self._clock.now(),
            "ProductionVariants": [
                {"VariantName": variant["VariantName"]} for variant in config["ProductionVariants"]
            ],
        }
        try:
            await managed.deployment.deploy(config["ProductionVariants"], models, retained)
        except DeploymentFailed as error:
            self._end_work(managed, "InService", str(error))
            return
        managed.record["EndpointConfigName"] = config["EndpointConfigName"]
        managed.record["ProductionVariants"] = config["ProductionVariants"]
        managed.record["Models"] = models
        managed.record.pop("MetricsConfig", None)
        managed.record |= metrics_config(config)
        self._end_work(managed, "InService")

    async def _change_counts(
        self, managed: ManagedEndpoint, counts: Mapping[str, int], weights: Mapping[str, float]
    ) -> None:
        try:
            await managed.deployment.scale(counts, weights)
        except DeploymentFailed as error:
            self._end_work(managed, "InService", str(error))
        else:
            self._end_work(managed, "InService")

    async def _take_down(self, managed: ManagedEndpoint, before: asyncio.Task[None] | None) -> None:
        if before is not None and not before.done():
            before.cancel()
            await asyncio.wait({before})
        await managed.deployment.stop()
        self._forget(managed.record)
        self._by_name.pop(managed.name, None)
        self.log.tell("endpoint_deleted", endpoint=managed.name)
        for gone in self.listeners.deleted:
            gone(managed.name)

    async def _stop(self, managed: ManagedEndpoint) -> None:
        """Stop all fleets. A change that this cuts off is not recorded: a restart undoes it."""
        if managed.work is not None and not managed.work.done():
            managed.work.cancel()
            await asyncio.wait({managed.work})
        await managed.deployment.stop()

    # -- records

    def _add(self, record: Record) -> ManagedEndpoint:
        name = record["EndpointName"]
        log = EventLog()
        for heard in self.listeners.event:
            log.listen(partial(heard, name))
        managed = ManagedEndpoint(record, Deployment(name, log, self._make))
        self._by_name[name] = managed
        return managed

    def _begin(
        self, managed: ManagedEndpoint, status: str, work: Coroutine[Any, Any, None]
    ) -> None:
        """Its work goes on in the background; what it fails with is told."""
        managed.record.pop("FailureReason", None)
        self._set_status(managed, status)
        managed.work = asyncio.create_task(work)
        managed.work.add_done_callback(lambda task: self._report_failure(managed, task))

    def _end_work(self, managed: ManagedEndpoint, status: str, reason: str | None = None) -> None:
        record = managed.record
        record.pop("Pending", None)
        if reason is not None:
            record["FailureReason"] = reason
        record["Variants"] = {
            name: {"count": deployed.fleet.desired, "weight": deployed.weight}
            for name, deployed in managed.deployment.deployed_variants.items()
        }
        self._set_status(managed, status)

    def _set_status(self, managed: ManagedEndpoint, status: str) -> None:
        managed.record["EndpointStatus"] = status
        managed.record["LastModifiedTime"] = self._clock.now()
        with self._reporting(managed.name):
            self._records.put(managed.name, managed.record)
        reason = managed.record.get("FailureReason")
        self.log.tell("endpoint_status", endpoint=managed.name, status=status, message=reason)

    def _report_failure(self, managed: ManagedEndpoint, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("endpoint %s: a change failed", managed.name, exc_info=error)
            status = "InService" if managed.deployment.endpoint is not None else "Failed"
            message = f"The simulator failed ({type(error).__name__}: {error}); its log says where."
            self._end_work(managed, status, message)

    def _forget(self, record: Record) -> None:
        with self._reporting(record["EndpointName"]):
            self._records.remove(record["EndpointName"])
            self._tags.forget(record["EndpointArn"])

    @contextmanager
    def _reporting(self, endpoint_name: str) -> Iterator[None]:
        """Log that a record cannot be written, and go on: a restart has the older record."""
        try:
            yield
        except PlatformFailed as error:
            self.log.tell("state_not_kept", endpoint=endpoint_name, message=str(error))

    def _require(self, name: str, region: str) -> ManagedEndpoint:
        managed = self._by_name.get(name)
        if managed is None:
            raise ServiceError(not_found("endpoint", name, region))
        return managed

    def _models_of(self, config: Record, region: str) -> dict[str, Record]:
        """By name. An endpoint has them for itself: they may be deleted while it runs."""
        names = [variant["ModelName"] for variant in config["ProductionVariants"]]
        return {name: self._models.get(name, region) for name in names}

    def _check_counts(self, managed: ManagedEndpoint, counts: Mapping[str, int]) -> None:
        """Raises ServiceError for numbers of instances that variants cannot have."""
        more = list[Mapping[str, Any]]()
        for name, count in counts.items():
            if count < 1:
                raise ServiceError(
                    f"DesiredInstanceCount of variant {name} is {count}: expected at least 1."
                )
            deployed = managed.deployment.deployed_variants[name]
            more.append(
                {
                    **deployed.config,
                    "InitialInstanceCount": count - deployed.fleet.desired,
                }
            )
        self._check_quotas(more)

    def _check_scaled(self, managed: ManagedEndpoint, config: Record) -> None:
        """AWS, "Update endpoints that use auto scaling": such a variant keeps its instance type."""
        types = {new["VariantName"]: new["InstanceType"] for new in config["ProductionVariants"]}
        for variant in managed.record["ProductionVariants"]:
            name, before = variant["VariantName"], variant["InstanceType"]
            if types.get(name) != before and self.is_scaled(managed.name, name):
                raise ServiceError(
                    f'The variant "{name}" is a scalable target of Application Auto Scaling: '
                    f"deregister it before it is removed, or gets another instance type than "
                    f"{before}."
                )

    def _check_quotas(self, variants: Iterable[Mapping[str, Any]]) -> None:
        in_use = [
            (deployed.config["InstanceType"], deployed.fleet.desired)
            for managed in self._by_name.values()
            for _, deployed in managed.deployment.list_fleets()
        ]
        check_quotas(self._quotas, variants, in_use)


def make_operations(
    models: Models, configs: EndpointConfigs, endpoints: Endpoints, tags: Tags
) -> Mapping[str, Operation]:
    """By their names in the service model."""
    return {
        "CreateModel": models.create,
        "DescribeModel": models.describe,
        "ListModels": models.list,
        "DeleteModel": models.delete,
        "CreateEndpointConfig": configs.create,
        "DescribeEndpointConfig": configs.describe,
        "ListEndpointConfigs": configs.list,
        "DeleteEndpointConfig": configs.delete,
        "CreateEndpoint": endpoints.create,
        "DescribeEndpoint": endpoints.describe,
        "ListEndpoints": endpoints.list,
        "UpdateEndpoint": endpoints.update,
        "UpdateEndpointWeightsAndCapacities": endpoints.update_weights_and_capacities,
        "DeleteEndpoint": endpoints.delete,
        "AddTags": tags.add_tags,
        "ListTags": tags.list_tags,
        "DeleteTags": tags.delete_tags,
    }
