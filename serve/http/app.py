"""Route table and error table, nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.exceptions import HTTPException
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from serve.errors import ServeError
from serve.http.error_responses import on_error, on_http_error
from serve.http.metrics_route import MetricsRoute
from serve.http.routes import InvokeRoute, ModelRoutes, PingRoute


@dataclass(frozen=True)
class MetricsPath:
    """Where the metrics page is."""

    path: str
    route: MetricsRoute


def multi_model_app(
    ping: PingRoute, models: ModelRoutes, invoke: InvokeRoute, metrics: MetricsPath | None = None
) -> ASGIApp:
    """The multi-model contract (AWS, "Custom container contract for multi-model endpoints")."""
    app = _app(ping, metrics)
    app.add_api_route("/models", models.load_model, methods=["POST"])
    app.add_api_route("/models", models.list_models, methods=["GET"])
    app.add_api_route("/models/{model_name}", models.get_model, methods=["GET"])
    app.add_api_route("/models/{model_name}", models.unload_model, methods=["DELETE"])
    app.router.routes.append(Route("/models/{model_name}/invoke", invoke, methods=["POST"]))
    return app


def single_model_app(
    ping: PingRoute, invoke: InvokeRoute, metrics: MetricsPath | None = None
) -> ASGIApp:
    """The single-model contract (AWS, "Use your own inference code with hosting services")."""
    app = _app(ping, metrics)
    app.router.routes.append(Route("/invocations", invoke, methods=["POST"]))
    return app


def _app(ping: PingRoute, metrics: MetricsPath | None) -> FastAPI:
    app = FastAPI(
        title="SageMaker serving container for NVIDIA Merlin",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(ServeError, on_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(StarletteHTTPException, on_http_error)
    app.add_exception_handler(Exception, on_error)
    app.add_api_route("/ping", ping.ping, methods=["GET"])
    if metrics is not None:
        app.router.routes.append(Route(metrics.path, metrics.route, methods=["GET"]))
    return app
