"""Archives that nobody can ask for by a name go, and uploads that were cut off."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta, timezone

from deploy.archives.leftovers import find_leftovers, remove_leftover
from deploy.archives.overview import find_needless, make_rows
from deploy.archives.places import Place
from deploy.archives.stored import Stored, find_stored
from deploy.archives.table import read_aliases
from deploy.aws.account import Account, Say
from deploy.quantities import show_bytes


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
