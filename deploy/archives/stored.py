"""What lies in S3 of archives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deploy.archives.places import Place
from deploy.aws.account import Account
from deploy.errors import NotThere, Refused


@dataclass(frozen=True)
class Stored:
    """An archive in S3. size: in bytes. modified: when it was put there."""

    target_model: str
    size: int
    modified: datetime


def find_stored(account: Account, place: Place, name: str | None = None) -> dict[str, Stored]:
    """By TargetModel; name: of this name alone. Newest versions: what a bucket keeps besides is
    not seen. Raises DeployError; Refused where there is no bucket."""
    prefix = place.archives_prefix
    try:
        listed = account.ask_all(
            "s3",
            "ListObjectsV2",
            "Contents",
            Bucket=place.bucket,
            Prefix=prefix if name is None else f"{prefix}{name}/",
        )
        found = [
            Stored(one["Key"].removeprefix(prefix), int(one["Size"]), one["LastModified"])
            for one in listed
        ]
    except NotThere as error:
        raise Refused(
            f"there is no bucket {place.bucket}; `aws s3 mb s3://{place.bucket} --region "
            f"{account.region}` makes it, or correct endpoint.archives"
        ) from error
    return {one.target_model: one for one in found}
