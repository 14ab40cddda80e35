"""moto's application, with what it holds kept on disk and its failures told in a sentence.

It runs in the server's threads: a call is kept before its answer leaves.
"""

from __future__ import annotations

import gc
import io
import json
import logging
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote
from xml.parsers.expat import ExpatError

from merlin_simulator.control.caller import operation_of, signed
from merlin_simulator.control.errors import make_error
from merlin_simulator.control.iam import callers_arn
from merlin_simulator.control.kept.calls import CallJournal, KeptCall, is_kept
from merlin_simulator.control.kept.s3 import PIECE, BucketCall, Buckets, Shelf
from merlin_simulator.errors import PlatformFailed

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_logger = logging.getLogger(__name__)
#: Calls that are kept have no longer body, in bytes: a bucket's configuration, a role, an image.
_LONGEST = 4 * 1024 * 1024
#: From so many bytes on a body is taken to a file first, and is one of few in moto's hands.
_LARGE, _AT_ONCE = PIECE, 3
_NOBODY = b"arn:aws:sts::123456789012:user/moto"
_KEPT_SERVICES = ("iam", "ecr", "logs")
_CONDITIONS = {"if-match", "if-none-match"}


class Application:
    """folder: where what survives is kept; None: nothing is."""

    def __init__(self, moto: WSGIApplication, folder: Path | None, shelf: Shelf) -> None:
        # The same few threads: each keeps for itself what its longest body took of memory.
        self._moto, self._few = moto, ThreadPoolExecutor(_AT_ONCE, "long bodies")
        self._journal = self._buckets = None
        self._conditional = threading.Lock()
        if folder is not None:
            self._journal = CallJournal(folder / "calls.jsonl")
            self._buckets = Buckets(folder / "buckets", shelf)

    def restore(self) -> None:
        """Give moto back what it held. Raises PlatformFailed where a file is damaged."""
        if self._journal is None or self._buckets is None:
            return
        for call in self._journal.calls:
            headers = {"content-type": call.content_type, "x-amz-target": call.target}
            headers["authorization"] = _authorization(call.service, call.region)
            headers = {name: value for name, value in headers.items() if value}
            status = self._again("POST", "/", "", headers, call.body.encode())
            if status >= 300:
                # Its answer depends on what is no more: an image of a repository, for instance.
                _logger.warning("%s is not carried out again: status %d", call.operation, status)
        self._buckets.restore(self._again)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        headers = _headers(environ)
        caller = signed(headers, environ.get("QUERY_STRING", ""))
        service = caller.service if caller else None
        begun: list[tuple[Any, ...]] = []

        def begin(*arguments: Any) -> Callable[[bytes], object]:
            begun.append(arguments)
            return lambda _: None

        if service in ("s3", None) and _is_malformed_policy(environ):
            message = "This policy contains invalid Json: an object is expected."
            answer_of_it = make_error(headers, service, 400, "MalformedPolicy", message)
            start_response("400 Error", list(answer_of_it.headers.items()))
            return [answer_of_it.body]
        try:
            note = self._noting(environ, headers, service, caller.region if caller else "us-east-1")
            # moto looks at the condition, and writes later: two at once would both hold.
            writes = environ["REQUEST_METHOD"] not in ("GET", "HEAD")
            with self._conditional if writes and _CONDITIONS & headers.keys() else nullcontext():
                answer = self._asked(environ, begin)
            if note is not None and begun[-1][0].startswith("2"):
                note()
        except Exception as error:
            asked = parse_qs(environ.get("QUERY_STRING", ""))
            return _failed(error, headers, service, asked, start_response)
        if service == "sts":
            return _with_role(begun[-1], answer, start_response)
        start_response(*begun[-1])
        return answer

    def _asked(self, environ: WSGIEnvironment, begin: StartResponse) -> Iterable[bytes]:
        """moto has a long body in memory more than once: all of it is here before, few at once."""
        length = int(environ.get("CONTENT_LENGTH") or _LARGE)
        if environ["REQUEST_METHOD"] not in ("PUT", "POST") or length < _LARGE:
            return self._moto(environ, begin)
        with tempfile.TemporaryFile() as body:
            # moto's requests are in cycles, each with its body: they would be there for long.
            gc.collect()
            read = environ["wsgi.input"].read
            while piece := read(min(PIECE, length)):
                length -= 0 if environ.get("wsgi.input_terminated") else len(piece)
                body.write(piece)
            body.seek(0)
            environ["wsgi.input"] = body
            return self._few.submit(self._moto, environ, begin).result()

    def _noting(
        self, environ: WSGIEnvironment, headers: Mapping[str, str], service: str | None, region: str
    ) -> Callable[[], None] | None:
        """What keeps this call once it is carried out; None where it changes nothing."""
        if self._journal is None or self._buckets is None:
            return None
        if service in _KEPT_SERVICES:
            call = KeptCall(
                service or "",
                region,
                headers.get("x-amz-target", ""),
                headers.get("content-type", ""),
                _body(environ).decode(errors="replace"),
            )
            journal = self._journal
            return (lambda: journal.add(call)) if is_kept(call) else None
        if service in ("s3", None) and "x-amz-target" not in headers:
            return self._noting_bucket(environ, headers, region)
        return None

    def _noting_bucket(
        self, environ: WSGIEnvironment, headers: Mapping[str, str], region: str
    ) -> Callable[[], None] | None:
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        path = environ.get("RAW_URI") or environ["PATH_INFO"]
        path = str(path).partition("?")[0]
        bucket, _, key = path.lstrip("/").partition("/")
        uploads = method != "DELETE" and "uploads" in query.split("&")
        is_part = method == "PUT" and "uploadId=" in query
        if method not in ("PUT", "POST", "DELETE") or not bucket or uploads or is_part:
            return None
        body = _body(environ) if method == "PUT" and not key else b""
        signature = {"authorization": _authorization("s3", region)}
        call = BucketCall(
            method, unquote(bucket), unquote(key), path, query, {**headers, **signature}, body
        )
        buckets = self._buckets
        assert buckets is not None
        return lambda: buckets.note(call)

    def _again(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> int:
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        environ = EnvironBuilder(
            path, "http://localhost", query, method, data=body, headers=list(headers.items())
        ).get_environ()
        environ["RAW_URI"] = path + (f"?{query}" if query else "")
        try:
            _, status, _ = run_wsgi_app(self._moto, environ)
        except Exception as error:
            raise PlatformFailed(
                f"What was kept cannot be carried out again ({method} {path}: "
                f"{type(error).__name__}: {error}): name another --state."
            ) from error
        return int(status.split()[0])


def _with_role(
    begun: tuple[Any, ...], answer: Iterable[bytes], start: StartResponse
) -> Iterable[bytes]:
    """moto's caller without an identity of its own is a user; in a notebook it is a role."""
    status, headers = begun[:2]
    body = b"".join(answer).replace(_NOBODY, callers_arn().encode())
    kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
    start(status, [*kept, ("Content-Length", str(len(body)))])
    return [body]


def _headers(environ: WSGIEnvironment) -> dict[str, str]:
    """By lower-case name."""
    results = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            results[name.replace("_", "-").lower()] = str(environ[name])
    return results


def _body(environ: WSGIEnvironment) -> bytes:
    """All of it, which moto can read again."""
    length = environ.get("CONTENT_LENGTH")
    limit = _LONGEST if environ.get("wsgi.input_terminated") else int(length or 0)
    body: bytes = environ["wsgi.input"].read(min(limit, _LONGEST))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _is_malformed_policy(environ: WSGIEnvironment) -> bool:
    """moto keeps it, and fails at each call of the bucket from then on."""
    query = environ.get("QUERY_STRING", "").split("&")
    if environ["REQUEST_METHOD"] != "PUT" or not {"policy", "policy="} & set(query):
        return False
    try:
        return not isinstance(json.loads(_body(environ)), dict)
    except (ValueError, RecursionError):
        return True


def _authorization(service: str, region: str) -> str:
    """A signature's head by which moto finds the service; nobody's key."""
    return f"AWS4-HMAC-SHA256 Credential=kept/20260101/{region}/{service}/aws4_request, Signature=0"


def _failed(
    error: Exception,
    headers: Mapping[str, str],
    service: str | None,
    asked: Mapping[str, list[str]],
    start: StartResponse,
) -> Iterable[bytes]:
    """asked: the query."""
    match = re.search(r"The (\w+) action", str(error))
    name = operation_of(headers) or (match[1] if match else "this call")
    unread = (ValueError, KeyError, AssertionError, ExpatError)
    if isinstance(error, NotImplementedError) or type(error).__name__ == "OperationNotFoundError":
        message = f"{name} of {service or 's3'} is not carried out by this simulator, nor by moto."
        answer = make_error(headers, service, 400, "UnknownOperationException", message)
    elif isinstance(error, KeyError) and list(error.args) == asked.get("uploadId"):
        # moto looks for an upload where it completes it, and nowhere before.
        message = "The specified upload does not exist."
        answer = make_error(headers, service, 404, "NoSuchUpload", message)
    elif isinstance(error, unread):  # of what the caller wrote
        message = (
            f"moto, which plays {service or 's3'} here, cannot read {name}: "
            f"{type(error).__name__}: {error}"
        )
        answer = make_error(headers, service, 400, "InvalidRequest", message)
    else:
        _logger.warning("moto failed at %s of %s: %r", name, service, error)
        message = (
            f"moto, which plays {service or 's3'} here, failed at {name}: "
            f"{type(error).__name__}: {error}"
        )
        code = "InternalError" if service in ("s3", None) else "InternalFailure"
        answer = make_error(headers, service, 500, code, message)
    start(f"{answer.status} Error", list(answer.headers.items()))
    return [answer.body]
