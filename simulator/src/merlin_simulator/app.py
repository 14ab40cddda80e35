"""The application: the runtime API, the page and the metrics over one endpoint that runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from fastapi import FastAPI
from starlette.routing import Mount

from merlin_simulator.api.runtime_api import UnknownOperation, make_runtime_routes
from merlin_simulator.errors import EndpointNotFound
from merlin_simulator.hosting import Endpoint
from merlin_simulator.watch.cloudwatch import CloudWatchMetrics, make_metrics_routes
from merlin_simulator.watch.page_routes import make_page_routes

#: Between two looks at the memory of each instance: what the page draws.
_GAUGE_EVERY_S = 1.0


class Runner(Protocol):
    """Keeps one or more instances going."""

    async def run(self) -> None:
        """Until cancelled, or until nothing is left to keep going."""

    async def stop(self) -> None:
        """End what it started, in the time the platform gives it."""


class OnlyEndpoint:
    """The one endpoint that there is, by its name."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self.log = endpoint, endpoint.log

    def find(self, endpoint_name: str) -> Endpoint:
        """Raises EndpointNotFound for any other name."""
        if endpoint_name != self._endpoint.endpoint_name:
            raise EndpointNotFound(endpoint_name, self._endpoint.endpoint_name)
        return self._endpoint


def build_app(
    endpoint: Endpoint,
    runners: Sequence[Runner],
    ending: asyncio.Event,
    failed: Callable[[BaseException], None],
) -> FastAPI:
    """The simulator's ASGI application; its instances run from its start to its end.

    ending is set by whoever serves it when that begins to stop: event streams end then. failed
    hears of what a runner fails with: nothing keeps its instances going any more.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [_started(runner.run(), failed) for runner in runners]
        tasks.append(_started(_gauge(endpoint), failed))
        try:
            yield
        finally:
            await asyncio.gather(*(runner.stop() for runner in runners))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(instance.close() for instance in endpoint.instances))

    metrics = CloudWatchMetrics(endpoint.log, endpoint)
    return FastAPI(
        title=f"A local SageMaker: {endpoint.endpoint_name}",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        routes=[
            *make_page_routes(endpoint, endpoint.log, ending, endpoint.rules.memory_threshold),
            *make_metrics_routes(metrics),
            *make_runtime_routes(OnlyEndpoint(endpoint)),
            Mount("/", UnknownOperation()),
        ],
    )


def _started(
    work: Coroutine[None, None, None], failed: Callable[[BaseException], None]
) -> asyncio.Task[None]:
    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            failed(error)

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    return task


async def _gauge(endpoint: Endpoint) -> None:
    while True:
        await asyncio.gather(*(i.holdings.memory.read() for i in endpoint.instances))
        await asyncio.sleep(_GAUGE_EVERY_S)
