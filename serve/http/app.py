"""Route table and error table, nothing else."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import HTTPException
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from serve.errors import ServeError
from serve.http.error_responses import OnHttpError, make_no_such_path, on_error
from serve.http.metrics_route import MetricsRoute
from serve.http.routes import FeatureRoute, ModelRoutes, PingRoute

#: What a caller of another path or method is told.
_MULTI_MODEL_CALLS = (
    "a call of a multi-model endpoint: GET /ping, GET or POST /models, GET or DELETE "
    "/models/{model_name}, POST /models/{model_name}/invoke"
)
_SINGLE_MODEL_CALLS = "a call of a single-model endpoint: GET /ping, POST /invocations"


def make_multi_model_app(
    ping: PingRoute,
    models: ModelRoutes,
    metrics: MetricsRoute | None = None,
    features: FeatureRoute | None = None,
) -> ASGIApp:
    """The multi-model contract (AWS, "Custom container contract for multi-model endpoints")."""
    app = _make_app(ping, metrics, features, _MULTI_MODEL_CALLS)
    app.add_api_route("/models", models.load_model, methods=["POST"])
    app.add_api_route("/models", models.list_models, methods=["GET"])
    app.add_api_route("/models/{model_name}", models.get_model, methods=["GET"])
    app.add_api_route("/models/{model_name}", models.unload_model, methods=["DELETE"])
    app.router.routes.append(Route("/models/{model_name}/invoke", _invoke, methods=["POST"]))
    return app


def make_single_model_app(
    ping: PingRoute, metrics: MetricsRoute | None = None, features: FeatureRoute | None = None
) -> ASGIApp:
    """The single-model contract (AWS, "Use your own inference code with hosting services")."""
    app = _make_app(ping, metrics, features, _SINGLE_MODEL_CALLS)
    app.router.routes.append(Route("/invocations", _invoke, methods=["POST"]))
    return app


async def _invoke(_: Request) -> Response:
    """Only here so that other methods get their 405: the protocol answers POST before ASGI.

    What comes here all the same has a line's end behind its path, which the router passes over.
    """
    raise make_no_such_path()


def _make_app(
    ping: PingRoute, metrics: MetricsRoute | None, features: FeatureRoute | None, calls: str
) -> FastAPI:
    on_http_error = OnHttpError(calls)
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
        app.router.routes.append(Route("/metrics", metrics, methods=["GET"]))
    if features is not None:
        path = "/models/{model_name}/features"
        app.add_api_route(path, features.get_features, methods=["GET"])
    return app
