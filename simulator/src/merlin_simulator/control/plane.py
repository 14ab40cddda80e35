"""The control plane: all services behind one port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from merlin_simulator.api.runtime_api import UnknownOperation, make_runtime_routes
from merlin_simulator.control.apis import Api
from merlin_simulator.control.autoscaling.service import Autoscaling
from merlin_simulator.control.caller import signed
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.service import CloudWatch
from merlin_simulator.control.container_logs import ContainerLogs
from merlin_simulator.control.ecr import Registry, RegistryImages
from merlin_simulator.control.errors import make_error
from merlin_simulator.control.moto import Moto
from merlin_simulator.control.overview import (
    EndpointPages,
    Overview,
    RequestRates,
    make_overview_routes,
)
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.endpoints import Endpoints, make_operations
from merlin_simulator.control.sagemaker.resources import EndpointConfigs, Models, Tags
from merlin_simulator.control.variant_deployer import MakeRunner, VariantDeployer
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog

#: What X-Amz-Target begins with, for the services that are carried out here.
_TARGETS = {
    "SageMaker": "sagemaker",
    "AnyScaleFrontendService": "application-autoscaling",
    "GraniteServiceVersion20100801": "monitoring",
    "AmazonEC2ContainerRegistry_V20150921": "ecr",
}
#: Services whose older clients send no target: they are known by the signature.
_BY_SIGNATURE = frozenset({"monitoring"})
#: How the names of calls begin that change nothing.
_READS = ("Get", "List", "Describe")
_PAGES = ("/simulator", "/metrics")


class Front:
    """apis: the services carried out here, by signing name; own: runtime API and page."""

    def __init__(self, own: ASGIApp, apis: Mapping[str, Api], moto: ASGIApp, region: str) -> None:
        self._own, self._apis, self._moto, self._region = own, apis, moto, region

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._own(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if _changes_by_a_link(scope):
            await _refuse_link(headers)(scope, receive, send)
            return
        caller = signed(headers, scope["query_string"].decode("latin-1"))
        service = _TARGETS.get(headers.get("x-amz-target", "").rpartition(".")[0], "")
        if not service and caller is not None and caller.service in _BY_SIGNATURE:
            service = caller.service
        if service in self._apis:
            region = caller.region if caller else self._region
            await self._apis[service].answer(scope, receive, send, region)
        elif _is_own(scope, caller.service if caller else None):
            await self._own(scope, receive, send)
        else:
            await self._moto(scope, receive, send)


def _changes_by_a_link(scope: Scope) -> bool:
    """Whether a GET would change something: clients of AWS post, an image of any page does not."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    actions = parse_qs(scope["query_string"].decode("latin-1")).get("Action", ())
    return not all(action.startswith(_READS) for action in actions)


def _refuse_link(headers: Headers) -> Response:
    message = "A GET changes nothing here: send the call as a POST, as AWS's clients do."
    answer = make_error(headers, None, 400, "InvalidAction", message)
    return Response(answer.body, answer.status, answer.headers)


def _is_own(scope: Scope, service: str | None) -> bool:
    path: str = scope["path"]
    if path.startswith("/endpoints/"):
        return service in (None, "sagemaker")
    if service is not None:
        return False
    return path.startswith(_PAGES) or (path == "/" and scope["method"] == "GET")


#: Between two looks at the memory of each instance: what the page draws.
_GAUGE_EVERY_S = 1.0

#: Kinds of records, and what one of them has in any case.
_NEEDED = {
    "models": ("ModelName", "ModelArn", "CreationTime", "ExecutionRoleArn"),
    "endpoint-configs": ("EndpointConfigName", "EndpointConfigArn", "ProductionVariants"),
    "endpoints": ("EndpointName", "EndpointArn", "EndpointStatus", "Models", "Variants", "Region"),
}


@dataclass(frozen=True)
class Setup:
    """The settings and parts of a control plane."""

    state: Path  # of what survives a restart
    work_dir: Path  # of instances
    region: str
    rules: Rules
    memory: Mapping[str, int]  # bytes, by instance type
    quotas: Mapping[str, int]  # by instance type
    clock: Clock
    make_runner: MakeRunner
    s3: Any  # boto3's client of moto's buckets
    moto_url: str  # where moto answers
    registry: str | None = None  # HOST:PORT that stands for ECR's hosts


class Plane:
    """The control plane as an application; its endpoints run from its start to its end."""

    def __init__(self, setup: Setup, log: EventLog) -> None:
        self._setup, self.log = setup, log
        folder, clock = setup.state / "sagemaker", setup.clock
        records = {kind: Records(folder / kind, *needed) for kind, needed in _NEEDED.items()}
        self.tags = Tags(Records(folder / "tags", "Tags"), self._exists)
        self.logs = ContainerLogs()
        self.deployed_variants = VariantDeployer(
            setup.s3, setup.make_runner, setup.work_dir, setup.rules, setup.memory, self.logs
        )
        self.models = Models(records["models"], self.tags, clock, self.deployed_variants.check)
        self.configs = EndpointConfigs(records["endpoint-configs"], self.tags, clock, self.models)
        self.endpoints = Endpoints(
            records["endpoints"],
            self.tags,
            clock,
            self.configs,
            self.models,
            self.deployed_variants.make,
            setup.quotas,
            log,
        )
        self.pages, self._traffic = EndpointPages(self.endpoints, setup.rules), RequestRates(clock)
        self.endpoints.listeners.event.append(self._traffic.hear)
        self.endpoints.listeners.deleted += [
            self._traffic.forget,
            self.pages.forget,
            self.deployed_variants.forget,
        ]
        self.cloudwatch = CloudWatch(setup.state / "cloudwatch", clock, log, self.endpoints)
        self.autoscaling = Autoscaling(
            setup.state / "autoscaling", self.endpoints, self.cloudwatch, clock, log
        )
        self._records = records
        self._moto = Moto(setup.moto_url)

    def app(self) -> ASGIApp:
        """Everything on one port."""
        overview = Overview(
            self.endpoints,
            self._setup.clock,
            self._traffic,
            self.autoscaling,
            self.cloudwatch.alarms,
            self._setup.region,
        )
        own = Starlette(
            routes=[
                *make_runtime_routes(self.endpoints),
                *make_overview_routes(overview, self.pages),
                *self.cloudwatch.routes(),
                Route("/simulator/clock", self._tell_time),
                Mount("/", UnknownOperation()),
            ],
            lifespan=partial(self._lifespan, overview),
        )
        operations = make_operations(self.models, self.configs, self.endpoints, self.tags)
        apis = {
            "sagemaker": Api("sagemaker", operations, self._moto),
            "application-autoscaling": Api(
                "application-autoscaling", self.autoscaling.operations(), self._moto
            ),
            "monitoring": self.cloudwatch.api(self._moto),
        }
        if self._setup.registry is not None:
            images = RegistryImages(Registry(self._setup.registry))
            apis["ecr"] = Api("ecr", images.operations(), self._moto)
        return Front(own, apis, self._moto, self._setup.region)

    async def refuse(self) -> None:
        """The end begins: instances get no more requests; who waits for a model is told."""
        self.pages.end()
        for managed in self.endpoints.all():
            if managed.deployment.endpoint is not None:
                await managed.deployment.endpoint.stop()

    @asynccontextmanager
    async def _lifespan(self, overview: Overview, _: Starlette) -> AsyncIterator[None]:
        self.endpoints.restore()
        loops = (
            self._gauge(),
            self.cloudwatch.run(),
            overview.run_sampling(),
            self.logs.run(),
        )
        tasks = {asyncio.create_task(loop) for loop in loops}
        try:
            async with self.autoscaling.running():
                yield
        finally:
            await self.endpoints.stop()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._moto.close()

    async def _tell_time(self, _: Request) -> Response:
        """The platform's time, for who wants to know what its metrics and schedules go by."""
        clock = self._setup.clock
        return JSONResponse({"now": clock.now(), "scale": clock.scale})

    async def _gauge(self) -> None:
        while True:
            instances = [
                instance
                for managed in self.endpoints.all()
                for _, deployed_variant in managed.deployment.list_fleets()
                for instance in deployed_variant.fleet.variant.instances
            ]
            await asyncio.gather(*(i.holdings.memory.read() for i in instances))
            await asyncio.sleep(_GAUGE_EVERY_S)

    def _exists(self, arn: str) -> bool:
        members = ("ModelArn", "EndpointConfigArn", "EndpointArn")
        return any(
            record.get(member) == arn
            for records, member in zip(self._records.values(), members, strict=True)
            for record in records.values()
        )
