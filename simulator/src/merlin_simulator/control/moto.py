"""The services that moto plays, and calls of ours that it plays: passed on as they came.

moto runs in this process, behind a server of threads at a port of its own.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aiohttp
from multidict import CIMultiDict
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send
from yarl import URL

from merlin_simulator.archives.local_s3 import create_app, run_moto
from merlin_simulator.control.caller import operation_of, signed
from merlin_simulator.control.errors import make_error
from merlin_simulator.control.iam import read_late
from merlin_simulator.control.s3_names import find_odd_name

_logger = logging.getLogger(__name__)

#: What belongs to one connection alone (RFC 9110, 7.6.1), and what is moto's server's own.
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
)
#: A page of this simulator's asks us; moto is asked by us alone.
_NOT_PASSED_ON = _HOP_BY_HOP | {"host", "origin", "sec-fetch-site"}
_NOT_PASSED_BACK = _HOP_BY_HOP | {"date", "server"}
#: A bucket before the host's name, as in bucket.localhost:8090 and bucket.s3.amazonaws.com.
_VIRTUAL = re.compile(
    r"(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}?[a-z0-9])\.(?:s3[a-z0-9.-]*\.)?(?:localhost|amazonaws\.com)"
    r"(?::\d+)?"
)
#: moto's page and its calls that forget everything.
_MOTOS_OWN = ("/moto-api", "/favicon.ico")
#: moto reads a service's code at the first call to it, up to 3 s; these are asked at the start.
_WARMED = ("s3", "sts", "iam", "sagemaker", "ecr", "logs")
_FORM = "application/x-www-form-urlencoded"
#: Without a byte for so long moto is taken to hang.
_SILENCE_S = 60.0


@contextmanager
def running(scratch: Path, state: Path | None = None) -> Iterator[str]:
    """moto's url while all its services are served; once per process, which keeps what it has.

    scratch: for what need not survive. state: where S3, IAM, ECR and log groups are kept, and
    found again; None: nowhere. Raises PlatformFailed where a file there is damaged.
    """
    from moto.core.config import default_user_config
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    from merlin_simulator.control.persistence.application import Application
    from merlin_simulator.control.persistence.s3_objects import ObjectFolder, stored_on

    # What scripts attach to their roles, AmazonSageMakerFullAccess first of all.
    default_user_config["iam"]["load_aws_managed_policies"] = True
    object_folder = ObjectFolder(
        (scratch if state is None else state) / "s3", keeps=state is not None
    )
    application = Application(DomainDispatcherApplication(_make_app), state, object_folder)
    with stored_on(object_folder), read_late():
        ending = threading.Event()
        warming = threading.Thread(target=_warm, args=(application, ending), daemon=True)
        try:
            application.restore()
            with run_moto(application) as url:
                warming.start()
                yield url
        finally:
            ending.set()
            if warming.ident is not None:
                warming.join()
            object_folder.close()


def _make_app(service: str) -> object:
    """A service of moto whose failures come out of it, instead of as a page of HTML."""
    app = create_app(service)
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app


def _warm(application: object, ending: threading.Event) -> None:
    from werkzeug.test import EnvironBuilder, run_wsgi_app

    for service in _WARMED:
        if ending.is_set():
            return
        head = f"Credential=warm/20260101/us-east-1/{service}/aws4_request, Signature=0"
        headers = {"Authorization": f"AWS4-HMAC-SHA256 {head}"}
        environ = EnvironBuilder(
            "/", "http://localhost", method="GET", headers=list(headers.items())
        )
        run_wsgi_app(application, environ.get_environ())  # type: ignore[arg-type]
    # All that was imported stays: later collections need not look at it, which took 130 ms.
    gc.collect()
    gc.freeze()


class Moto:
    """Passes requests on to moto, bodies as they come and answers as they go."""

    def __init__(self, url: str, silence_s: float = _SILENCE_S) -> None:
        self._url, self._silence_s = url.rstrip("/"), silence_s
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """No more requests are passed on."""
        if self._session is not None:
            await self._session.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, started = Request(scope, receive), _Started(send)
        try:
            if (refusal := _refusal(request)) is not None:
                await _refuse(request, send, *refusal)
            else:
                await self._pass_on(request, started)
        except ClientDisconnect:
            return
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            if isinstance(error.__cause__, ClientDisconnect):
                return
            _logger.warning("moto did not answer: %r", error)
            if started.began:
                raise  # the connection breaks: what was sent is no whole answer
            message = (
                "moto, which plays this service here, did not answer in time "
                f"({type(error).__name__}: {error}): try again, or start the simulator anew."
            )
            await _refuse(request, send, 503, "ServiceUnavailable", message)

    async def _pass_on(self, request: Request, send: Send) -> None:
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name not in _NOT_PASSED_ON
        )
        if request.method == "PUT" and headers.get("content-type") == _FORM:
            # What urllib and curl say of any bytes; moto would read them as a form.
            headers["content-type"] = "binary/octet-stream"
        has_body = "content-length" in headers or "transfer-encoding" in request.headers
        async with self._open_session().request(
            request.method,
            URL(self._url + _target(request.scope, request.headers), encoded=True),
            headers=headers,
            data=_body(request) if has_body else None,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as answer:
            await _pass_back(answer, send)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_read=self._silence_s),
                # moto closes each connection after its answer.
                connector=aiohttp.TCPConnector(limit=0, force_close=True),
                max_line_size=64 * 1024,
                max_field_size=64 * 1024,
            )
        return self._session


def _refusal(request: Request) -> tuple[int, str, str] | None:
    """Status, code and message for what moto is not asked."""
    headers, path = request.headers, request.scope["path"]
    if path.startswith(_MOTOS_OWN):
        return 403, "AccessDenied", "This path is not served here."
    if not path.startswith("/"):  # OPTIONS *
        return 400, "InvalidRequest", "The request names no path."
    authorization = headers.get("authorization")
    if authorization is not None and len(authorization.split()) < 2:
        return 400, "InvalidArgument", "Unsupported Authorization Type"
    caller = signed(headers, request.scope["query_string"].decode("latin-1"))
    if caller is None and request.method == "POST" and path == "/":
        message = "The request is not signed, so that it names no service: sign it with any key."
        return 403, "MissingAuthenticationToken", message
    if "x-amz-target" not in headers and (caller is None or caller.service == "s3"):
        return find_odd_name(_target(request.scope, headers))
    return None


class _Started:
    """Passes on what is sent; began: whether an answer has."""

    def __init__(self, send: Send) -> None:
        self._send, self.began = send, False

    async def __call__(self, message: object) -> None:
        self.began = True
        await self._send(message)  # type: ignore[arg-type]


def _target(scope: Scope, headers: Mapping[str, str]) -> str:
    """Path and query, with the bucket in the path, wherever the client has it."""
    raw: str = scope["raw_path"].decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    match = _VIRTUAL.fullmatch(headers.get("host", ""))
    if match is not None and "x-amz-target" not in headers and match["bucket"] != "s3":
        caller = signed(headers, query)
        if caller is None or caller.service == "s3":
            raw = f"/{match['bucket']}{raw}"
    return raw + (f"?{query}" if query else "")


async def _refuse(request: Request, send: Send, status: int, code: str, message: str) -> None:
    caller = signed(request.headers, request.scope["query_string"].decode("latin-1"))
    service = caller.service if caller else None
    operation = operation_of(request.headers)
    text = f"{operation}: {message}" if operation else message
    answer = make_error(request.headers, service, status, code, text)
    raw = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    body = b"" if request.method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk


async def _pass_back(answer: aiohttp.ClientResponse, send: Send) -> None:
    raw = [
        (name.lower(), value)
        for name, value in answer.raw_headers
        if name.lower().decode("latin-1") not in _NOT_PASSED_BACK
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    async for chunk in answer.content.iter_any():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
