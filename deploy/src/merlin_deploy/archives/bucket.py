"""The archives in a bucket: list them, and delete those that no name needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from merlin_deploy.account import Account, require_members
from merlin_deploy.archives.aliases import (
    SUFFIX,
    Aliases,
    ArchiveStore,
    change_table,
    is_put,
    make_encryption,
    read_aliases,
    read_store,
    require_target,
)
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import NotThere, Refused
from merlin_deploy.terminal import Say, show_bytes

#: `put` does not rely on an archive that no name mentions and that is older: it may be pruned.
YOUNG = timedelta(hours=1)


@dataclass(frozen=True)
class Stored:
    """An archive in S3."""

    target_model: str
    size: int  # in bytes
    modified: datetime  # S3's LastModified: when its upload began


def find_stored(
    account: Account, store: ArchiveStore, name: str | None = None, prefix: str | None = None
) -> dict[str, Stored]:
    """Archives by TargetModel. name: of this name alone. A bucket's older versions are not seen.

    prefix: of other objects than archives. Raises DeployError; Refused if there is no bucket.
    """
    prefix = prefix or store.archives_prefix
    try:
        folder = prefix if name is None else f"{prefix}{name}/"
        objects = account.ask_all(
            "s3", "ListObjectsV2", "Contents", Bucket=store.bucket, Prefix=folder
        )
        stored = {}
        for item in objects:
            require_members(item, "s3:ListObjectsV2", "Key", "LastModified")
            target = item["Key"].removeprefix(prefix)
            stored[target] = Stored(target, int(item.get("Size", 0)), item["LastModified"])
    except NotThere as error:
        raise Refused(
            f"there is no bucket {store.bucket}; `aws s3 mb s3://{store.bucket} --region "
            f"{account.region}` makes it, or correct endpoint.archives"
        ) from error
    return stored


def has_archive(
    stored: Mapping[str, Stored], aliases: Aliases, target_model: str, size: int, now: datetime
) -> bool:
    """Whether `put` need not send an archive. One that may be pruned meanwhile is sent again."""
    archive = stored.get(target_model)
    if archive is None or archive.size != size:
        return False
    return target_model in aliases.mentioned or now - archive.modified < YOUNG


@dataclass(frozen=True)
class Leftover:
    """An unfinished upload, whose parts S3 bills until it is aborted."""

    key: str  # of its object
    upload_id: str
    begun: datetime


def find_leftovers(
    account: Account, store: ArchiveStore, target_model: str = ""
) -> Iterator[Leftover]:
    """Unfinished uploads of one archive, or of all. Raises DeployError."""
    key = store.archive_key(target_model)
    uploads = account.ask_all(
        "s3", "ListMultipartUploads", "Uploads", Bucket=store.bucket, Prefix=key
    )
    for item in uploads:
        require_members(item, "s3:ListMultipartUploads", "Key", "UploadId", "Initiated")
        if item["Key"] == key or not target_model:
            yield Leftover(item["Key"], item["UploadId"], item["Initiated"])


def remove_leftover(account: Account, store: ArchiveStore, leftover: Leftover) -> None:
    """Abort the upload: S3 deletes its parts. Raises DeployError."""
    account.remove(
        "s3",
        "AbortMultipartUpload",
        Bucket=store.bucket,
        Key=leftover.key,
        UploadId=leftover.upload_id,
    )


class Standing(Enum):
    """Whether a name means an archive, and who else may need it."""

    CURRENT = "current"
    FORMER = "former"
    SERVED = "a single-model endpoint has it"
    UNNAMED = "no name means it"
    OTHERS = "not from put"


@dataclass(frozen=True)
class Row:
    """An archive, and what its name says of it."""

    name: str  # the archive's folder
    target_model: str
    standing: Standing
    stored: Stored | None  # None if a name means an archive that is gone


def make_rows(
    aliases: Aliases, stored: Mapping[str, Stored], served: Collection[str]
) -> tuple[Row, ...]:
    """Sorted by name; for each the current archive, former ones from new to old, then all others.

    served: archives that single-model endpoints have.
    """
    current = {target[0] for target in aliases.targets.values() if target}
    rows = []
    for name, targets in aliases.targets.items():
        for target in targets:
            standing = Standing.CURRENT if target in current else Standing.FORMER
            rows.append(Row(name, target, standing, stored.get(target)))
    for target, archive in stored.items():
        if target not in aliases.mentioned:
            standing = Standing.UNNAMED if is_put(target) else Standing.OTHERS
            if target in served:
                standing = Standing.SERVED
            rows.append(Row(target.rpartition("/")[0], target, standing, archive))
    return tuple(sorted(rows, key=lambda row: row.name))


def find_prunable(rows: Collection[Row], now: datetime, least_age: timedelta) -> Iterator[Stored]:
    """Archives of `put` that no name mentions and no endpoint serves, and that are old enough.

    A younger one may be that of a `put` that has not written its table yet.
    """
    for row in rows:
        archive = row.stored
        if row.standing is Standing.UNNAMED and archive and now - archive.modified >= least_age:
            yield archive


def prune_archives(
    account: Account, store: ArchiveStore, served: Collection[str], say: Say, least_age: timedelta
) -> int:
    """Delete what find_prunable finds, reports whose archive is not there, and unfinished uploads.

    The number of bytes that were deleted. served: as make_rows has it. Raises DeployError.
    """
    now, deleted = datetime.now(timezone.utc), 0
    # The list first: an archive that a `put` uploads between the two is not on it.
    stored = find_stored(account, store)
    rows = make_rows(read_aliases(account, store), stored, served)
    for archive in find_prunable(rows, now, least_age):
        if _is_unchanged(account, store, archive):
            key = store.archive_key(archive.target_model)
            account.change("s3", "DeleteObject", Bucket=store.bucket, Key=key)
            say(f"{archive.target_model}: deleted, {show_bytes(archive.size)}")
            deleted += archive.size
            del stored[archive.target_model]
    reports = find_stored(account, store, prefix=store.comparisons_prefix)
    for report in reports.values():
        target = f"{report.target_model.rpartition('.')[0]}{SUFFIX}"
        if is_put(target) and target not in stored and now - report.modified >= least_age:
            key = f"{store.comparisons_prefix}{report.target_model}"
            account.change("s3", "DeleteObject", Bucket=store.bucket, Key=key)
            say(f"{key}: deleted, as its archive is not there")
            deleted += report.size
    for leftover in find_leftovers(account, store):
        if now - leftover.begun >= least_age:
            remove_leftover(account, store, leftover)
            say(f"{leftover.key}: an upload that was cut off was removed")
    return deleted


def _is_unchanged(account: Account, store: ArchiveStore, archive: Stored) -> bool:
    """False if a `put` has sent the archive again since it was listed."""
    key = store.archive_key(archive.target_model)
    answer = account.find("s3", "HeadObject", Bucket=store.bucket, Key=key)
    # HeadObject tells whole seconds.
    modified = archive.modified.replace(microsecond=0)
    return answer is not None and answer["LastModified"] == modified


def go_back(account: Account, config: Config, name: str) -> tuple[str, str]:
    """Let a name mean its former archive; the archives that it meant, and means now.

    A second call goes one step more. Raises DeployError; Refused if there is no former one.
    """
    store = read_store(config.endpoint.archives)
    aliases = read_aliases(account, store)
    now, former = require_target(aliases, name, store), aliases.find_former(name)
    if former is None:
        raise Refused(
            f"{name} has meant no other archive before {now}, as far as aliases.json goes back; "
            "put the content that it is to mean"
        )
    if former not in find_stored(account, store, name):
        raise Refused(
            f"the archive {former}, which {name} meant before, is not there any more; put its "
            "content again"
        )

    def step(table: Aliases) -> Aliases:
        # A write that is sent again because its answer was lost goes no step further.
        return table.with_former(name) if table.find(name) == now else table

    change_table(account, store, step, make_encryption(config.encryption.archives_key))
    return now, former
