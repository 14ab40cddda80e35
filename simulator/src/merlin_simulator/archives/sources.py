"""Where archives come from: a folder, or S3, whose library is imported only for it."""

from __future__ import annotations

from pathlib import Path

from merlin_simulator.archives.folder import FolderArchives
from merlin_simulator.archives.store import ArchiveStore
from merlin_simulator.errors import PlatformFailed


def open_archives(location: str, s3_endpoint_url: str | None = None) -> ArchiveStore:
    """The store at s3://bucket/prefix or in a folder, seen to be there; else PlatformFailed."""
    if not location.startswith("s3://"):
        return FolderArchives(Path(location))
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    if not bucket:
        raise PlatformFailed(f"{location} names no bucket: expected s3://BUCKET/PREFIX.")
    from merlin_simulator.archives.s3 import (  # boto3: a fifth of a second
        S3Archives,
        make_s3_client,
    )

    store = S3Archives(bucket, prefix, make_s3_client(s3_endpoint_url))
    store.check()
    return store
