"""A local S3 for docker compose, tests and replays: moto's S3 behind a small front, no account.

moto keeps its buckets once per process, so one server at a time: what it held is gone with it.
Objects above 16 MiB lie in temporary files.
"""

from __future__ import annotations

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

from merlin_simulator.archives.folder import FolderArchives
from merlin_simulator.archives.moto_server import create_app, forget, run_moto
from merlin_simulator.errors import PlatformFailed

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

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
