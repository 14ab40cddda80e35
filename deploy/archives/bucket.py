"""The archives in a bucket: list them, and delete those that no name needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from deploy.archives.aliases import (
    Aliases,
    Place,
    change_table,
    is_put,
    read_aliases,
    read_place,
    require_target,
)
from deploy.archives.upload import make_encryption
from deploy.aws.account import Account, require_members
from deploy.config.sections import Config
from deploy.errors import NotThere, Refused
from deploy.terminal import Say, show_bytes

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


class Standing(Enum):
    """What an archive is to the names that there are."""

    CURRENT = "current"
    FORMER = "former"
    SERVED = "a single-model endpoint has it"
    UNNAMED = "no name means it"
    OTHERS = "not from put"


@dataclass(frozen=True)
class Row:
    """name: the folder that it is in. stored: None where a name means what is not there."""

    name: str
    target_model: str
    standing: Standing
    stored: Stored | None


def make_rows(
    aliases: Aliases, stored: Mapping[str, Stored], served: Collection[str]
) -> tuple[Row, ...]:
    """By names; of each the current one, former ones from new to old, and then all others.

    served: archives that models of the endpoint have as their only one.
    """
    current = {target[0] for target in aliases.targets.values() if target}
    rows = [
        Row(
            name,
            target,
            Standing.CURRENT if target in current else Standing.FORMER,
            stored.get(target),
        )
        for name, targets in aliases.targets.items()
        for target in targets
    ]
    for target, one in stored.items():
        if target not in aliases.mentioned:
            rows.append(Row(target.rpartition("/")[0], target, _standing(target, served), one))
    return tuple(sorted(rows, key=lambda row: row.name))


def find_needless(rows: Collection[Row], now: datetime, least_age: timedelta) -> Iterator[Stored]:
    """What may go: `put` brought it, no name mentions it, nobody serves it, and it is no younger.

    What is younger may be that of a `put` whose table is not written yet.
    """
    for row in rows:
        found = row.stored
        if row.standing is Standing.UNNAMED and found and now - found.modified >= least_age:
            yield found


def _standing(target: str, served: Collection[str]) -> Standing:
    if target in served:
        return Standing.SERVED
    return Standing.UNNAMED if is_put(target) else Standing.OTHERS


def prune_archives(
    account: Account, place: Place, served: Collection[str], say: Say, least_age: timedelta
) -> int:
    """How many bytes went. served: as make_rows has it. Raises DeployError.

    The table is read after the listing: what a `put` brought meanwhile is not on the list.
    """
    now, gone = datetime.now(timezone.utc), 0
    stored = find_stored(account, place)
    rows = make_rows(read_aliases(account, place), stored, served)
    for one in find_needless(rows, now, least_age):
        if not _is_as_it_was(account, place, one):
            continue
        account.change(
            "s3",
            "DeleteObject",
            Bucket=place.bucket,
            Key=place.archive_key(one.target_model),
        )
        say(f"{one.target_model}: deleted, {show_bytes(one.size)}")
        gone += one.size
    for leftover in find_leftovers(account, place):
        if now - leftover.begun >= least_age:
            remove_leftover(account, place, leftover)
            say(f"{leftover.key}: an upload that was cut off was removed")
    return gone


def _is_as_it_was(account: Account, place: Place, one: Stored) -> bool:
    """A `put` sends an archive again that no name has meant for long."""
    key = place.archive_key(one.target_model)
    found = account.find("s3", "HeadObject", Bucket=place.bucket, Key=key)
    # Its answer has whole seconds.
    return found is not None and found["LastModified"] == one.modified.replace(microsecond=0)


def go_back(account: Account, config: Config, name: str) -> tuple[str, str]:
    """What it meant, and what it means now; nothing else changes. One step; a second call goes
    one more. Raises DeployError; Refused where there is nothing before it."""
    place = read_place(config.endpoint.archives)
    aliases = read_aliases(account, place)
    now, former = require_target(aliases, name, place), aliases.find_former(name)
    if former is None:
        raise Refused(
            f"{name} has meant no other archive before {now}, as far as aliases.json goes back; "
            "put the content that it is to mean"
        )
    if former not in find_stored(account, place, name):
        raise Refused(
            f"the archive {former}, which {name} meant before, is not there any more; put its "
            "content again"
        )

    def step(found: Aliases) -> Aliases:
        # Its answer may be lost: a call that is sent again goes no step further.
        return found.with_former(name) if found.find(name) == now else found

    change_table(account, place, step, make_encryption(config.encryption.archives_key))
    return now, former
