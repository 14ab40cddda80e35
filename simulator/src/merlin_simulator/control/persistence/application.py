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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote
from xml.parsers.expat import ExpatError

from werkzeug.datastructures import EnvironHeaders
from werkzeug.test import EnvironBuilder, run_wsgi_app

from merlin_simulator.control.caller import operation_of, signed
from merlin_simulator.control.errors import make_error
from merlin_simulator.control.iam import callers_arn
from merlin_simulator.control.persistence.call_journal import (
    SERVICES,
    CallJournal,
    JournaledCall,
    is_journaled,
)
from merlin_simulator.control.persistence.s3_objects import PIECE, ObjectFolder, Objects
from merlin_simulator.errors import PlatformFailed

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_logger = logging.getLogger(__name__)
#: Calls that are kept have no longer body, in bytes: a bucket's configuration, a role, an image.
_LONGEST = 4 * 1024 * 1024
#: From so many bytes on a body is taken to a file first, and is one of few in moto's hands.
_LARGE, _AT_ONCE = PIECE, 3
_NOBODY = b"arn:aws:sts::123456789012:user/moto"
#: How the headers begin that a call is made again with; no credentials.
_HEADERS, _SECRET = ("content-type", "x-amz-"), "x-amz-security-token"
_CONDITIONS = {"if-match", "if-none-match"}


class Application:
    """folder: where what survives is kept; None: nothing is."""

    def __init__(
        self, moto: WSGIApplication, folder: Path | None, object_folder: ObjectFolder
    ) -> None:
        if folder is not None and (folder / "buckets").exists():
            raise PlatformFailed(
                f"{folder / 'buckets'} is of an older simulator, which kept buckets in files of "
                "their own: name another --state."
            )
        # The same few threads: each keeps for itself what its longest body took of memory.
        self._moto, self._few = moto, ThreadPoolExecutor(_AT_ONCE, "long bodies")
        self._journal = None if folder is None else CallJournal(folder / "calls.jsonl")
        self._objects, self._conditional = Objects(object_folder), threading.Lock()

    def restore(self) -> None:
        """Give moto back what it held. Raises PlatformFailed where a file is damaged."""
        if self._journal is None:
            return
        for call in self._journal.calls:
            status = self._make_again(call)
            if status >= 300 and call.service == "s3":
                raise PlatformFailed(
                    f"A call of {self._journal.path} cannot be carried out again ({call.method} "
                    f"{call.path}?{call.query}: status {status}): remove its line, or name another "
                    "--state."
                )
            if status >= 300:
                # Its answer depends on what is no more: an image of a repository, for instance.
                _logger.warning("%s is not carried out again: status %d", call.operation, status)
        self._objects.restore()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        headers = {name.lower(): value for name, value in EnvironHeaders(environ)}
        caller = signed(headers, environ.get("QUERY_STRING", ""))
        service = caller.service if caller else None
        begun: list[tuple[Any, ...]] = []

        def begin(*arguments: Any) -> Callable[[bytes], object]:
            begun.append(arguments)
            return lambda _: None

        if service in ("s3", None) and _is_malformed_policy(environ):
            message = "This policy contains invalid Json: an object is expected."
            return _refuse(start_response, headers, service, 400, "MalformedPolicy", message)
        try:
            note = self._make_note(
                environ, headers, service, caller.region if caller else "us-east-1"
            )
            # moto looks at the condition, and writes later: two at once would both hold.
            writes = environ["REQUEST_METHOD"] not in ("GET", "HEAD")
            with self._conditional if writes and _CONDITIONS & headers.keys() else nullcontext():
                answer = self._call_moto(environ, begin)
            if note is not None and begun[-1][0].startswith("2"):
                note()
        except Exception as error:
            query = parse_qs(environ.get("QUERY_STRING", ""))
            return _failed(error, headers, service, query, start_response)
        if service == "sts":
            return _replace_caller(begun[-1], answer, start_response)
        start_response(*begun[-1])
        return answer

    def _call_moto(self, environ: WSGIEnvironment, begin: StartResponse) -> Iterable[bytes]:
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

    def _make_note(
        self, environ: WSGIEnvironment, headers: Mapping[str, str], service: str | None, region: str
    ) -> Callable[[], None] | None:
        """A function that records the call once it is carried out; None if it changes nothing."""
        if self._journal is None or (service is None and "x-amz-target" in headers):
            return None
        method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
        path = str(environ.get("RAW_URI") or environ["PATH_INFO"]).partition("?")[0]
        bucket, _, key = map(unquote, path.lstrip("/").partition("/"))
        if service in ("s3", None):
            uploads = method != "DELETE" and "uploads" in query.split("&")
            is_part = method == "PUT" and "uploadId=" in query
            if method not in ("PUT", "POST", "DELETE") or not bucket or uploads or is_part:
                return None
            if key:
                return partial(self._objects.note, bucket, key)
            if method == "POST":
                return partial(self._objects.note_all, bucket)
        elif service not in SERVICES:
            return None
        named = {
            name: value
            for name, value in headers.items()
            if name.startswith(_HEADERS) and name != _SECRET
        }
        body = _body(environ).decode("latin-1")
        call = JournaledCall(service or "s3", region, named, body, method, path, query)
        return partial(self._note, call) if is_journaled(call) else None

    def _note(self, call: JournaledCall) -> None:
        assert self._journal is not None
        self._journal.add(call)
        if call.service == "s3" and not call.aspect:  # its objects are gone with a bucket
            self._objects.note_all(call.bucket)

    def _make_again(self, call: JournaledCall) -> int:
        """The answer's status. Raises PlatformFailed where moto fails."""
        credential = f"kept/20260101/{call.region}/{call.service}/aws4_request"
        # A signature's head by which moto finds the service; nobody's key.
        headers = {
            **call.headers,
            "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, Signature=0",
        }
        environ = EnvironBuilder(
            call.path,
            "http://localhost",
            call.query,
            call.method,
            data=call.body.encode("latin-1"),
            headers=list(headers.items()),
        ).get_environ()
        environ["RAW_URI"] = call.path + (f"?{call.query}" if call.query else "")
        try:
            _, status, _ = run_wsgi_app(self._moto, environ)
        except Exception as error:
            raise PlatformFailed(
                f"What was kept cannot be carried out again ({call.method} {call.path}: "
                f"{type(error).__name__}: {error}): name another --state."
            ) from error
        return int(status.split()[0])


def _replace_caller(
    begun: tuple[Any, ...], answer: Iterable[bytes], start: StartResponse
) -> Iterable[bytes]:
    """moto's caller without an identity of its own is a user; in a notebook it is a role."""
    status, headers = begun[:2]
    body = b"".join(answer).replace(_NOBODY, callers_arn().encode())
    others = [(name, value) for name, value in headers if name.lower() != "content-length"]
    start(status, [*others, ("Content-Length", str(len(body)))])
    return [body]


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


def _failed(
    error: Exception,
    headers: Mapping[str, str],
    service: str | None,
    query: Mapping[str, list[str]],
    start: StartResponse,
) -> Iterable[bytes]:
    """asked: the query."""
    match = re.search(r"The (\w+) action", str(error))
    name = operation_of(headers) or (match[1] if match else "this call")
    moto = f"moto, which plays {service or 's3'} here,"
    cause = f"{name}: {type(error).__name__}: {error}"
    unread = (ValueError, KeyError, AssertionError, ExpatError)
    if isinstance(error, NotImplementedError) or type(error).__name__ == "OperationNotFoundError":
        message = f"{name} of {service or 's3'} is not carried out by this simulator, nor by moto."
        refusal = 400, "UnknownOperationException", message
    elif isinstance(error, KeyError) and list(error.args) == query.get("uploadId"):
        # moto looks for an upload where it completes it, and nowhere before.
        refusal = 404, "NoSuchUpload", "The specified upload does not exist."
    elif isinstance(error, unread):  # of what the caller wrote
        refusal = 400, "InvalidRequest", f"{moto} cannot read {cause}"
    else:
        _logger.warning("moto failed at %s of %s: %r", name, service, error)
        code = "InternalError" if service in ("s3", None) else "InternalFailure"
        refusal = 500, code, f"{moto} failed at {cause}"
    return _refuse(start, headers, service, *refusal)


def _refuse(
    start: StartResponse,
    headers: Mapping[str, str],
    service: str | None,
    status: int,
    code: str,
    message: str,
) -> Iterable[bytes]:
    answer = make_error(headers, service, status, code, message)
    start(f"{answer.status} Error", list(answer.headers.items()))
    return [answer.body]
