"""Route table and error table, and the shortcut past both for invocations."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from fastapi.exceptions import HTTPException
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from serve.error_responses import on_http_error, on_serve_error, on_unexpected_error
from serve.errors import ServeError
from serve.routes import InvokeRoute, ModelRoutes, PingRoute, invoked_model


def multi_model_app(ping: PingRoute, models: ModelRoutes, invoke: InvokeRoute) -> ASGIApp:
    """The multi-model contract (AWS, "Custom container contract for multi-model endpoints")."""
    app = _app(ping)
    app.add_api_route("/models", models.load_model, methods=["POST"])
    app.add_api_route("/models", models.list_models, methods=["GET"])
    app.add_api_route("/models/{model_name}", models.get_model, methods=["GET"])
    app.add_api_route("/models/{model_name}", models.unload_model, methods=["DELETE"])
    app.router.routes.append(Route("/models/{model_name}/invoke", invoke, methods=["POST"]))
    return _HotPathFirst(app, invoke, invoked_model)


def single_model_app(ping: PingRoute, invoke: InvokeRoute) -> ASGIApp:
    """The single-model contract (AWS, "Use your own inference code with hosting services")."""
    app = _app(ping)
    app.router.routes.append(Route("/invocations", invoke, methods=["POST"]))
    return _HotPathFirst(app, invoke, lambda path: "" if path == "/invocations" else None)


class _HotPathFirst:
    """FastAPI's application, with invocations taken out in front of its layers.

    The layers cost 0.02 to 0.03 ms a request, a tenth of what the shim may add (decision 3). What
    they would do for this one route, errors, is done here by the same table.
    """

    def __init__(
        self, app: FastAPI, invoke: InvokeRoute, model_of: Callable[[str], str | None]
    ) -> None:
        self._app, self._invoke, self._model_of = app, invoke, model_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        model_name = self._model_of(scope["path"]) if scope["type"] == "http" else None
        if model_name is None or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["path_params"] = {"model_name": model_name}
        try:
            await self._invoke(scope, receive, send)
        except ServeError as error:
            response = await on_serve_error(Request(scope), error)
            await response(scope, receive, send)
        except Exception as error:
            response = await on_unexpected_error(Request(scope), error)
            await response(scope, receive, send)
            raise


def _app(ping: PingRoute) -> FastAPI:
    app = FastAPI(
        title="SageMaker serving container for NVIDIA Merlin",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(ServeError, on_serve_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_exception_handler(StarletteHTTPException, on_http_error)
    app.add_exception_handler(Exception, on_unexpected_error)
    app.add_api_route("/ping", ping.ping, methods=["GET"])
    return app
