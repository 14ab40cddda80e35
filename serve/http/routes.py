"""The calls of the contract: each reads its request, makes one call and shapes the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ensemble_tools.serving.features import (
    ModelFeatures,
    explain_no_counts,
    find_began,
    read_features,
    write_features,
)
from serve.errors import ResourceExhausted
from serve.http.contract_bodies import (
    list_body,
    model_body,
    parse_load_request,
    parse_page,
)
from serve.http.error_responses import WANTED
from serve.log_context import bind
from serve.models.lifecycle import Lifecycle
from serve.models.registry import Registry
from serve.telemetry.invocation_record import target_model
from serve.threads import NoThread, run_in_daemon_thread


@dataclass(frozen=True)
class PingRoute:
    """GET /ping: 200 with an empty body while `healthy` says so, else 503."""

    healthy: Callable[[], Awaitable[bool]]

    async def ping(self) -> Response:
        """Answer the platform's health check."""
        return Response(status_code=200 if await self.healthy() else 503)


@dataclass(frozen=True)
class ModelRoutes:
    """Load, list, describe, unload."""

    registry: Registry
    lifecycle: Lifecycle

    async def load_model(self, request: Request) -> Response:
        """POST /models."""
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        load_request = parse_load_request(body)
        setattr(request.state, WANTED, load_request)
        target = target_model(request.headers.raw)
        with bind(model_name=load_request.model_name, target_model=target):
            await self.lifecycle.load(load_request.model_name, load_request.url, target=target)
        return Response(status_code=200)

    async def list_models(self, request: Request) -> Response:
        """GET /models."""
        after, limit = parse_page(request.query_params)
        models, more = self.registry.page(after, limit)
        return Response(list_body(models, more=more), media_type="application/json")

    async def get_model(self, model_name: str) -> Response:
        """GET /models/{model_name}."""
        return JSONResponse(model_body(self.registry.loaded(model_name)))

    async def unload_model(self, model_name: str) -> Response:
        """DELETE /models/{model_name}."""
        with bind(model_name=model_name):
            await self.lifecycle.unload(model_name)
        return Response(status_code=200)


@dataclass(frozen=True)
class FeatureRoute:
    """What a model's compiled workflows have counted."""

    registry: Registry
    serving_repository: Path
    target_of: Callable[[str], str]  # the archive's name of a model
    setting: str  # what switches the counting off, as a message names it

    async def get_features(self, model_name: str) -> Response:
        """GET /models/{model_name}/features."""
        plan, target = self.registry.loaded(model_name).plan, self.target_of(model_name)

        def read() -> bytes:
            workflows = read_features(plan, self.serving_repository)
            why_none = (
                "" if workflows else explain_no_counts(plan, self.serving_repository, self.setting)
            )
            began = find_began(plan, self.serving_repository)
            return write_features(ModelFeatures(model_name, target, workflows, why_none, began))

        try:
            body = await run_in_daemon_thread(read, "features")
        except NoThread as error:
            raise ResourceExhausted(f"the counts cannot be read: {error}") from error
        return Response(body, media_type="application/json")
