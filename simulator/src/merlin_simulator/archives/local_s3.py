"""A local S3: moto's server, its buckets, and what fills them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from boto3.exceptions import S3UploadFailedError
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from merlin_simulator.addresses import make_url
from merlin_simulator.archives.stores import FolderArchives
from merlin_simulator.errors import PlatformFailed
from merlin_simulator.incoming import Hosts, make_same_origin

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from werkzeug.serving import BaseWSGIServer

_BACKLOG = 128
#: How often the server looks whether it shall stop, seconds.
_POLL_S = 0.05


@contextmanager
def run_moto(
    app: WSGIApplication, host: str = "127.0.0.1", port: int = 0, public_url: str | None = None
) -> Iterator[str]:
    """The application's url while it is served; port 0 takes a free one.

    Pages of other origins are not served, though they may find the port. Raises PlatformFailed when
    the address cannot be had.
    """
    with _listening(host, port) as listening:
        server = _server(make_same_origin(app, Hosts(host, public_url)), listening)
    # A daemon: a signal before the next line must not leave a thread that never ends.
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
    thread.start()
    try:
        yield make_url(host, server.port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def create_app(service: str) -> Any:
    """A service of moto, for Flask; without moto's leave for pages of every origin (CORS)."""
    from moto.moto_server import werkzeug_app

    werkzeug_app.DISABLE_GLOBAL_CORS = True
    return werkzeug_app.create_backend_app(service)


def forget(service: str) -> None:
    """All that moto has of a service."""
    from moto.backends import get_backend

    # To reset one may make another: of its region, or for a request that is still answered.
    for account in tuple(get_backend(service).values()):
        for backend in tuple(account.values()):
            backend.reset()


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise PlatformFailed(
            f"The local S3 cannot listen on {host}:{port} ({error}): name another port or host."
        ) from error
    with contextlib.closing(listening):
        yield listening


def _server(app: WSGIApplication, listening: socket.socket) -> BaseWSGIServer:
    """A server on its own copy of the socket; werkzeug would end the process on a taken port."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    # No line per request on stderr.
    quiet = type("Quiet", (MotoRequestHandler,), {"log_request": lambda *_: None})
    host, port = listening.getsockname()[:2]
    return make_server(host, port, app, True, request_handler=quiet, fd=listening.fileno())


#: 200 once the server is filled, 503 before. No bucket has this path: names have 3 characters.
READY_PATH = "/-/ready"
_ALL = 1_000_000


@contextmanager
def run_local_s3(
    host: str = "127.0.0.1",
    port: int = 0,
    filled: threading.Event | None = None,
    public_url: str | None = None,
) -> Iterator[str]:
    """A running S3 and its url; port 0 takes a free one. Every access key is let in, and none.

    READY_PATH answers 200 once filled is set, without one from the start. public_url: what callers
    ask, where it is another address. Raises PlatformFailed
    when the address cannot be had.
    """
    try:
        app = _front(create_app("s3"), filled)
        with run_moto(app, host, port, public_url) as url:
            yield url
    finally:
        forget("s3")


def fill(url: str, bucket: str, folder: Path, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Make the bucket and put the folder's *.tar.gz below prefix: each key and its bytes, once put.

    Raises PlatformFailed when there is no such folder, or the bucket cannot have that name.
    """
    archives, client = FolderArchives(folder), make_local_client(url)
    make_bucket(url, bucket)
    below = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    # In this thread, so that a signal ends it at once.
    config = TransferConfig(use_threads=False)
    for name in archives.names(_ALL):
        file = folder / name
        try:
            client.upload_file(str(file), bucket, below + name, Config=config)
        except (OSError, S3UploadFailedError, BotoCoreError) as error:
            raise PlatformFailed(f"{file} cannot be put into the local S3: {error}") from error
        yield below + name, file.stat().st_size


def make_bucket(url: str, bucket: str) -> None:
    """Make an empty bucket in the local S3, or raise PlatformFailed."""
    try:
        make_local_client(url).create_bucket(Bucket=bucket)
    except (ClientError, BotoCoreError) as error:
        raise PlatformFailed(
            f"No bucket {bucket!r} can be made in the local S3: {error}"
        ) from error


def make_local_client(url: str) -> Any:
    """boto3's client of the local S3; none of the user's AWS settings or proxies matter."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )


def _front(s3: WSGIApplication, filled: threading.Event | None) -> WSGIApplication:
    """moto's S3 with the ready path before it; buckets are always in the path."""

    def front(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == READY_PATH:
            return _readiness(filled is None or filled.is_set(), start_response)
        # moto takes a.b:9000 for bucket a of host b.
        environ["HTTP_HOST"] = f"localhost:{environ['SERVER_PORT']}"
        # moto looks whether a request is signed, not how: unsigned ones are let in here, too.
        environ.setdefault("HTTP_AUTHORIZATION", "unsigned")
        return s3(environ, start_response)

    return front


def _readiness(ready: bool, start_response: StartResponse) -> Iterable[bytes]:
    status = "200 OK" if ready else "503 Service Unavailable"
    start_response(status, [("Content-Type", "text/plain")])
    return [b"ready\n" if ready else b"being filled\n"]
