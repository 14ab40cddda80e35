"""error -> status and body: one table, from AWS's container contract and contract tests."""

from __future__ import annotations

import logging

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from serve import errors
from serve.http.contract_bodies import write_error_body
from serve.log_context import bind
from serve.telemetry.invocation_record import target_model

_log = logging.getLogger(__name__)

#: The first class that an error is an instance of decides.
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (errors.ModelNotLoaded, 404),
    (errors.ModelAlreadyLoaded, 409),
    (errors.BodyTooLarge, 413),
    (errors.HeaderTooLarge, 431),
    (errors.HeadTooLarge, 431),
    (errors.RequestLate, 408),
    (errors.RequestRefused, 400),
    (errors.FailedAtRequest, 400),
    (errors.CallerError, 400),
    (errors.ModelUnusable, 400),
    (errors.KilledForMemory, 507),
    (errors.ResourceExhausted, 507),
    (errors.DiskFailed, 500),
    (errors.AskedTooOften, 429),
    (errors.Overloaded, 503),
    (errors.StoreUnavailable, 503),
    (errors.TritonUnavailable, 503),
    (errors.TritonTimeout, 504),
    (errors.TritonError, 500),
    (errors.InvocationFailed, 500),
    (errors.ServeError, 500),
)


#: What a request to load a model asked for stands under this name in its state.
WANTED = "wanted"
_REFUSED = "request refused: %s"
#: Of a load that the platform makes room for, and asks for again.
_NO_ROOM = 507
#: Characters of what a caller wrote that a line of the log has.
_LONGEST = 256
#: Status, headers (names in lower case, without the length) and body.
ErrorAnswer = tuple[int, list[tuple[bytes, bytes]], bytes]

_JSON = (b"content-type", b"application/json")


def make_error_answer(error: Exception) -> ErrorAnswer:
    """The answer to an error. One that is not of the tree is a bug of ours."""
    if not isinstance(error, errors.ServeError):
        name = type(error).__name__
        return (
            500,
            [_JSON],
            write_error_body(f"internal error ({name}); see the log of the container"),
        )
    status = find_status(error)
    headers = [_JSON]
    if isinstance(error, errors.Overloaded):
        headers = [(b"retry-after", b"%d" % error.retry_after_s), _JSON]
    return status, headers, write_error_body(str(error))


def find_status(error: BaseException) -> int:
    """The status that it is answered with."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def _level(status: int, *, is_load: bool) -> int:
    """A load that is refused is somebody's work to mend, or room that the platform has to make."""
    if is_load and (status < 500 or status == _NO_ROOM):
        return logging.WARNING
    return logging.ERROR if status >= 500 else logging.INFO


def _call(request: Request) -> dict[str, object]:
    return {"method": request.method[:_LONGEST], "path": request.url.path[:_LONGEST]}


async def on_error(request: Request, error: Exception) -> Response:
    """For whatever a route raises. Starlette raises a bug again after the answer, which logs it."""
    status, headers, body = make_error_answer(error)
    if isinstance(error, errors.ServeError):
        load = getattr(request.state, WANTED, None)
        name = request.path_params.get("model_name") or (load.model_name if load else "")
        facts = {"status": status, **_call(request), **({"url": load.url} if load else {})}
        with bind(model_name=name, target_model=target_model(request.headers.raw)):
            _log.log(_level(status, is_load=load is not None), _REFUSED, error, extra=facts)
    return Response(body, status, {name.decode(): value.decode() for name, value in headers})


def make_no_such_path() -> HTTPException:
    """The error that the router raises where it has no route."""
    return HTTPException(404)


class OnHttpError:
    """For paths and methods that the contract does not have; calls: those that it has, in words."""

    def __init__(self, calls: str) -> None:
        self._calls = calls

    async def __call__(self, request: Request, error: Exception) -> Response:
        """Answer with the error's status, and with what could be called."""
        status = getattr(error, "status_code", 500)
        headers = getattr(error, "headers", None)
        message = {404: "no such path", 405: "this path does not take that method"}.get(
            status, str(getattr(error, "detail", "the request was refused"))
        )
        body = write_error_body(f"{message}; expected {self._calls}")
        _log.info(_REFUSED, message, extra={"status": status, **_call(request)})
        return Response(body, status, headers, media_type="application/json")
