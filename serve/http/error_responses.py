"""error -> status and body: one table, from AWS's container contract and contract tests."""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import Response

from serve.context import bind
from serve.errors import (
    BodyTooLarge,
    CallerError,
    HeaderTooLarge,
    HeadTooLarge,
    InvocationFailed,
    KilledForMemory,
    ModelAlreadyLoaded,
    ModelNotLoaded,
    ModelUnusable,
    Overloaded,
    RequestLate,
    RequestRefused,
    ResourceExhausted,
    ServeError,
    SourceUnreadable,
    TritonError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.http.messages import error_body, target_model

_log = logging.getLogger(__name__)

#: The first class that an error is an instance of decides.
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (ModelNotLoaded, 404),
    (ModelAlreadyLoaded, 409),
    (BodyTooLarge, 413),
    (HeaderTooLarge, 431),
    (HeadTooLarge, 431),
    (RequestLate, 408),
    (RequestRefused, 400),
    (CallerError, 400),
    (ModelUnusable, 400),
    (KilledForMemory, 507),
    (ResourceExhausted, 507),
    (SourceUnreadable, 500),
    (Overloaded, 503),
    (TritonUnavailable, 503),
    (TritonTimeout, 504),
    (TritonError, 500),
    (InvocationFailed, 500),
    (ServeError, 500),
)

#: When one who was refused for the number of others may try again, in seconds.
RETRY_AFTER_S = 1


def status_of(error: ServeError) -> int:
    """The status that an error is answered with."""
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def refusal_headers(error: ServeError) -> dict[str, str] | None:
    """What an answer to that error carries beside its body."""
    return {"retry-after": str(RETRY_AFTER_S)} if isinstance(error, Overloaded) else None


async def on_serve_error(request: Request, error: Exception) -> Response:
    """For errors of the tree in errors.py: logged once, here."""
    assert isinstance(error, ServeError)
    status = status_of(error)
    level = logging.ERROR if status >= 500 else logging.INFO
    name = request.path_params.get("model_name", "")
    if not isinstance(error, Overloaded):  # there are many of them: the waiting rooms log those
        with bind(model_name=name, target_model=target_model(request)):
            _log.log(level, "request refused: %s", error, extra={"status": status})
    headers = refusal_headers(error)
    return Response(error_body(str(error)), status, headers, media_type="application/json")


async def on_http_error(_: Request, error: Exception) -> Response:
    """For paths and methods that the contract does not have."""
    status = getattr(error, "status_code", 500)
    headers = getattr(error, "headers", None)
    message = {404: "no such path", 405: "this path does not take that method"}.get(
        status, str(getattr(error, "detail", "the request was refused"))
    )
    body = error_body(f"{message}; expected a call of the SageMaker container contract")
    return Response(body, status, headers, media_type="application/json")


async def on_unexpected_error(_: Request, error: Exception) -> Response:
    """For bugs of ours; starlette raises the error again after the answer, so it is logged once."""
    body = error_body(f"internal error ({type(error).__name__}); see the log of the container")
    return Response(body, 500, media_type="application/json")
