"""Archives in S3, each of whose answers is awaited for a bounded time."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from merlin_simulator.archives.stores import CHUNK, SUFFIX, save
from merlin_simulator.errors import ArchiveUnavailable, PlatformFailed

CONNECT_TIMEOUT_S = 5.0
#: Between two packets; a whole download may take DOWNLOAD_S.
READ_TIMEOUT_S = 30.0
#: AWS, "ProductionVariant": ModelDataDownloadTimeoutInSeconds is at most 3600.
DOWNLOAD_S = 3600.0
_ATTEMPTS = 3
#: SageMaker's own words after "Failed to download model data (bucket: .., key: ..).".
NOT_THERE = (
    "Please ensure that there is an object located at the URL and that the role passed to "
    "CreateModel has permissions to download the object."
)
_THROTTLED = ("RequestTimeout", "SlowDown", "TooManyRequests", "Throttling", "ThrottlingException")


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
                target_model, body.iter_chunks(CHUNK), answer.get("ContentLength")
            )
            return save(chunks, file, cancelled)

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
