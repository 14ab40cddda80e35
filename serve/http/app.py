"""Route table and error table, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from serve.errors import ServeError
from serve.http.error_responses import OnHttpError, on_error
from serve.http.metrics_route import MetricsRoute
from serve.http.routes import InvokeRoute, ModelRoutes, PingRoute

#: What a caller of another path or method is told.
_MULTI_MODEL_CALLS = (
    "a call of a multi-model endpoint: GET /ping, GET or POST /models, GET or DELETE "
    "/models/{model_name}, POST /models/{model_name}/invoke"
)
_SINGLE_MODEL_CALLS = "a call of a single-model endpoint: GET /ping, POST /invocations"


@dataclass(frozen=True)
class MetricsPath:
    """Where the metrics page is."""

    path: str
    route: MetricsRoute


def multi_model_app(
    ping: PingRoute, models: ModelRoutes, invoke: InvokeRoute, metrics: MetricsPath | None = None
) -> ASGIApp:
    """The multi-model contract (AWS, "Custom container contract for multi-model endpoints")."""
    routes = [
        _route("POST", "/models", models.load_model),
        _route("GET", "/models", models.list_models),
        _route("GET", "/models/{model_name}", models.get_model),
        _route("DELETE", "/models/{model_name}", models.unload_model),
        _route("POST", "/models/{model_name}/invoke", invoke),
    ]
    return _app(ping, metrics, routes, _MULTI_MODEL_CALLS)


def single_model_app(
    ping: PingRoute, invoke: InvokeRoute, metrics: MetricsPath | None = None
) -> ASGIApp:
    """The single-model contract (AWS, "Use your own inference code with hosting services")."""
    return _app(ping, metrics, [_route("POST", "/invocations", invoke)], _SINGLE_MODEL_CALLS)


def _app(
    ping: PingRoute, metrics: MetricsPath | None, routes: list[Route], calls: str
) -> Starlette:
    every = [_route("GET", "/ping", ping.ping)]
    if metrics is not None:
        every.append(Route(metrics.path, metrics.route, methods=["GET"]))
    app = Starlette(
        routes=[*every, *routes],
        exception_handlers={
            ServeError: on_error,
            HTTPException: OnHttpError(calls),
            Exception: on_error,
        },
    )
    app.router.redirect_slashes = False
    return app


def _route(method: str, path: str, endpoint: Callable[..., Any]) -> Route:
    """For this method alone: Starlette lets HEAD through wherever GET is let through."""
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}
    return route
