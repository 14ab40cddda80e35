"""Where archives come from: a folder, or S3. A download is whole or not there.

Foreign errors become ours here: what is wrong with the one archive is ArchiveUnavailable, what is
wrong with the store is PlatformFailed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from simulator.errors import ArchiveUnavailable, PlatformFailed

CONNECT_TIMEOUT_S = 5.0
#: Between two packets; a whole download may take DOWNLOAD_S.
READ_TIMEOUT_S = 30.0
#: AWS, "ProductionVariant": ModelDataDownloadTimeoutInSeconds is at most 3600.
DOWNLOAD_S = 3600.0
_ATTEMPTS = 3
#: Small, so that a slow store cannot keep a download from being given up.
_CHUNK = 64 * 1024
SUFFIX = ".tar.gz"
#: SageMaker's own words after "Failed to download model data (bucket: .., key: ..).".
NOT_THERE = (
    "Please ensure that there is an object located at the URL and that the role passed to "
    "CreateModel has permissions to download the object."
)
_THROTTLED = ("RequestTimeout", "SlowDown", "TooManyRequests", "Throttling", "ThrottlingException")


class ArchiveStore(Protocol):
    """Archives by target model. Its methods block, and may be called from several threads."""

    description: str
    #: The bucket in messages; a folder's path stands for one.
    bucket: str

    def key(self, target_model: str) -> str:
        """The archive's key in messages."""

    def download(self, target_model: str, file: Path, cancelled: Callable[[], bool]) -> int:
        """Put the archive at file, whole or not at all; its bytes.

        Raises ArchiveUnavailable, or PlatformFailed: the store, the disk, or cancelled.
        """

    def names(self, limit: int) -> list[str]:
        """At most limit target models that end in .tar.gz, sorted; others can be asked for too."""


def open_archives(location: str, s3_endpoint_url: str | None = None) -> ArchiveStore:
    """The store at s3://bucket/prefix or in a folder, seen to be there; else PlatformFailed."""
    if not location.startswith("s3://"):
        return FolderArchives(Path(location))
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    if not bucket:
        raise PlatformFailed(f"{location} names no bucket: expected s3://BUCKET/PREFIX.")
    store = S3Archives(bucket, prefix, make_s3_client(s3_endpoint_url))
    store.check()
    return store


# -- a folder


class FolderArchives:
    """Archives in a folder and its sub-folders; no account is needed."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise PlatformFailed(
                f"There is no folder {folder} to take archives from: make it, put model.tar.gz "
                "files into it, or name another one or s3://BUCKET/PREFIX."
            )
        self._folder = folder.resolve()
        self.description = self.bucket = str(self._folder)

    def key(self, target_model: str) -> str:
        """The target model itself."""
        return target_model

    def download(self, target_model: str, file: Path, cancelled: Callable[[], bool]) -> int:
        """Copy the archive; see ArchiveStore."""
        source = self._open(target_model)
        try:
            return _save(self._chunks(source, target_model), file, cancelled)
        finally:
            os.close(source)

    def names(self, limit: int) -> list[str]:
        """See ArchiveStore."""
        names = []
        for folder, _, files in os.walk(self._folder):
            below = Path(folder).relative_to(self._folder)
            names += [str(below / name) for name in files if name.endswith(SUFFIX)]
        return list(itertools.islice(filter(self._is_one, sorted(names)), limit))

    def _is_one(self, target_model: str) -> bool:
        try:
            return self._inside(target_model).is_file()
        except (ArchiveUnavailable, OSError):
            return False

    def _open(self, target_model: str) -> int:
        path = self._inside(target_model)
        try:
            # Not blocking: a named pipe in the folder must not hold the opening.
            source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError as error:
            raise self._unopened(target_model, error) from error
        if not stat.S_ISREG(os.fstat(source).st_mode):
            os.close(source)
            raise self._unavailable(target_model, "It is no file.")
        return source

    def _inside(self, target_model: str) -> Path:
        try:
            path = Path(os.path.realpath(self._folder / target_model))
        except (OSError, ValueError) as error:
            raise self._unavailable(
                target_model, f"It cannot be a file's name: {error}."
            ) from error
        if not path.is_relative_to(self._folder):
            raise self._unavailable(target_model, "It leads out of the folder of the archives.")
        return path

    def _chunks(self, source: int, target_model: str) -> Iterator[bytes]:
        before, copied = os.fstat(source), 0
        for chunk in _file_chunks(source, target_model):
            copied += len(chunk)
            yield chunk
        if _changed(before, os.fstat(source)) or copied != before.st_size:
            raise self._unavailable(
                target_model, "It was changed while it was copied: try again when it is whole."
            )

    def _unopened(self, target_model: str, error: OSError) -> ArchiveUnavailable | PlatformFailed:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            have = ", ".join(self.names(3)) or f"no {SUFFIX} files"
            return self._unavailable(target_model, f"No such file is there; there are: {have}.")
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP):
            return self._unavailable(target_model, f"It cannot be opened: {error.strerror}.")
        return PlatformFailed(f"{self._folder / target_model} cannot be opened: {error.strerror}.")

    def _unavailable(self, target_model: str, reason: str) -> ArchiveUnavailable:
        return ArchiveUnavailable(self.bucket, target_model, reason)


def _file_chunks(source: int, target_model: str) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(source, 16 * _CHUNK)
        except OSError as error:
            raise PlatformFailed(f"{target_model} cannot be read: {error.strerror}.") from error
        if not chunk:
            return
        yield chunk


def _changed(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


# -- S3


def make_s3_client(
    endpoint_url: str | None,
    read_timeout_s: float = READ_TIMEOUT_S,
    session: boto3.Session | None = None,
) -> Any:
    """A boto3 client of S3 whose every wait is bounded.

    With an endpoint url buckets are in the path (botocore's choice, as a local S3 has no name per
    bucket), and requests without credentials go unsigned. session: a new one if None. Raises
    PlatformFailed where boto3's settings are wrong.
    """
    try:
        session = session or boto3.Session()
        unsigned = endpoint_url is not None and session.get_credentials() is None
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=read_timeout_s,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            signature_version=UNSIGNED if unsigned else None,
        )
        return session.client("s3", endpoint_url=endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise PlatformFailed(f"No client for S3 can be made: {error}") from error


class S3Archives:
    """Archives below a prefix of a bucket. client is boto3's; see make_s3_client.

    download_s: seconds that one download may take.
    """

    def __init__(
        self, bucket: str, prefix: str, client: Any, download_s: float = DOWNLOAD_S
    ) -> None:
        self.bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client, self._download_s = client, download_s
        self.description = f"s3://{bucket}/{self._prefix}"

    def key(self, target_model: str) -> str:
        """The object's key: prefix and target model."""
        return self._prefix + target_model

    def check(self) -> None:
        """Raise PlatformFailed, with what to do, where the bucket cannot be listed."""
        self.names(0)

    def download(self, target_model: str, file: Path, cancelled: Callable[[], bool]) -> int:
        """Download the object; see ArchiveStore."""
        try:
            answer = self._client.get_object(Bucket=self.bucket, Key=self.key(target_model))
        except (ClientError, BotoCoreError, ValueError) as error:
            raise self._not_got(target_model, error) from error
        with contextlib.closing(answer["Body"]) as body:
            chunks = self._chunks(
                target_model, body.iter_chunks(_CHUNK), answer.get("ContentLength")
            )
            return _save(chunks, file, cancelled)

    def names(self, limit: int) -> list[str]:
        """See ArchiveStore; S3 lists keys sorted."""
        try:
            return list(itertools.islice(self._names(), limit)) if limit else self._listed_once()
        except (ClientError, BotoCoreError, ValueError, HTTPError) as error:
            raise PlatformFailed(
                f"The archives at {self.description} cannot be listed: {_one_line(error)}. Check "
                "the bucket's name, the S3 endpoint url, the credentials and their permissions."
            ) from error

    def _listed_once(self) -> list[str]:
        self._client.list_objects_v2(Bucket=self.bucket, Prefix=self._prefix, MaxKeys=1)
        return []

    def _names(self) -> Iterator[str]:
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self.bucket, Prefix=self._prefix):
            for entry in page.get("Contents", ()):
                if entry["Key"].endswith(SUFFIX):
                    yield entry["Key"].removeprefix(self._prefix)

    def _chunks(
        self, target_model: str, chunks: Iterable[bytes], size: int | None
    ) -> Iterator[bytes]:
        """The body's chunks in time, or PlatformFailed; botocore counts them against size."""
        until, came = time.monotonic() + self._download_s, 0
        try:
            for chunk in chunks:
                came += len(chunk)
                if time.monotonic() > until:
                    reason = f"it took over {self._download_s:g} s"
                    raise self._broken(target_model, came, size, reason)
                yield chunk
        except (BotoCoreError, HTTPError, OSError) as error:
            raise self._broken(target_model, came, size, _one_line(error)) from error

    def _broken(
        self, target_model: str, came: int, size: int | None, reason: str
    ) -> PlatformFailed:
        return PlatformFailed(
            f"The download of s3://{self.bucket}/{self.key(target_model)} broke off after {came} "
            f"of {'?' if size is None else size} bytes: {reason}."
        )

    def _not_got(self, target_model: str, error: Exception) -> ArchiveUnavailable | PlatformFailed:
        key = self.key(target_model)
        if isinstance(error, ClientError):
            code, status = _code(error)
            if 400 <= status < 500 and status != 429 and code not in _THROTTLED:
                answered = "" if code in ("NoSuchKey", "404") else f" S3 answered {code}."
                return ArchiveUnavailable(self.bucket, key, NOT_THERE + answered)
        return PlatformFailed(f"s3://{self.bucket}/{key} cannot be got: {_one_line(error)}.")


def _code(error: ClientError) -> tuple[str, int]:
    response = error.response
    code = str(response.get("Error", {}).get("Code", ""))
    return code, int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


# -- either


def _save(chunks: Iterable[bytes], file: Path, cancelled: Callable[[], bool]) -> int:
    """Write beside file and rename; the bytes. What chunks raises passes, nothing is left then."""
    partial, written = file.with_name(f"{file.name}.partial"), 0
    try:
        with partial.open("wb") as out:
            for chunk in chunks:
                if cancelled():
                    raise PlatformFailed("The download was given up: the endpoint is stopping.")
                written += out.write(chunk)
        partial.replace(file)
    except OSError as error:
        raise PlatformFailed(
            f"An archive cannot be written to {file.parent}: {error.strerror}. "
            "Make room there, or name another folder."
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return written
