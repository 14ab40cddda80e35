"""Uploads that nobody finished: S3 keeps their parts, and bills them, until they are aborted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from deploy.archives.places import Place
from deploy.aws.account import Account
from deploy.aws.whole import require_members


@dataclass(frozen=True)
class Leftover:
    """An upload in parts that has begun. key: of the object that it would make."""

    key: str
    upload_id: str
    begun: datetime


def find_leftovers(account: Account, place: Place, target_model: str = "") -> Iterator[Leftover]:
    """Of one archive, or of all. Raises DeployError."""
    key = place.archive_key(target_model)
    listed = account.ask_all(
        "s3", "ListMultipartUploads", "Uploads", Bucket=place.bucket, Prefix=key
    )
    for one in listed:
        require_members(one, "s3:ListMultipartUploads", "Key", "UploadId", "Initiated")
        if one["Key"] == key or not target_model:
            yield Leftover(one["Key"], one["UploadId"], one["Initiated"])


def remove_leftover(account: Account, place: Place, leftover: Leftover) -> None:
    """Its parts are gone then. Raises DeployError."""
    account.remove(
        "s3",
        "AbortMultipartUpload",
        Bucket=place.bucket,
        Key=leftover.key,
        UploadId=leftover.upload_id,
    )
