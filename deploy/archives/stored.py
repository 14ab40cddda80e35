"""What lies in S3 of archives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from deploy.archives.aliases import Aliases
from deploy.archives.places import Place
from deploy.aws.account import Account
from deploy.aws.whole import require_members
from deploy.errors import NotThere, Refused

#: What no alias mentions, and lies there for longer, may be on its way out (pruning.py).
YOUNG = timedelta(hours=1)


@dataclass(frozen=True)
class Stored:
    """An archive in S3. size: in bytes. modified: when it was put there; of one that came in parts,
    when the first of them did (S3's LastModified)."""

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
        found = []
        for one in listed:
            require_members(one, "s3:ListObjectsV2", "Key", "LastModified")
            size = int(one.get("Size", 0))
            found.append(Stored(one["Key"].removeprefix(prefix), size, one["LastModified"]))
    except NotThere as error:
        raise Refused(
            f"there is no bucket {place.bucket}; `aws s3 mb s3://{place.bucket} --region "
            f"{account.region}` makes it, or correct endpoint.archives"
        ) from error
    return {one.target_model: one for one in found}


def has_archive(
    stored: Mapping[str, Stored], aliases: Aliases, target_model: str, size: int, now: datetime
) -> bool:
    """Whether an archive need not be sent: an old one that no name means is sent again."""
    found = stored.get(target_model)
    if found is None or found.size != size:
        return False
    return target_model in aliases.mentioned or now - found.modified < YOUNG
