"""The table of aliases in S3: read, and changed by one writer after the other.

A write says which table it changes (If-Match, If-None-Match of PutObject); S3 refuses it where
somebody else was first, and it is tried again on what they wrote. So no change is lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deploy.archives.aliases import Aliases, parse_aliases, write_aliases
from deploy.archives.places import Place
from deploy.aws.account import Account
from deploy.aws.whole import require_members
from deploy.errors import CallRefused, Refused
from deploy.quantities import show_bytes

#: Of S3's refusals: the table is another by now, is gone, or is being written.
_CONFLICTS = frozenset(
    {"PreconditionFailed", "412", "ConditionalRequestConflict", "OperationAborted", "NoSuchKey"}
)
#: Bytes of a table: a name with all that it meant has a kilobyte, or less.
_MOST_BYTES = 64 * 1024 * 1024
#: Others' writes take a moment each; so many of them may come first.
_TRIES = 30
#: Between two tries, in seconds, at most; half of it on average.
_FIRST_S, _MOST_S, _GROWTH = 0.1, 2.0, 1.5


@dataclass(frozen=True)
class Table:
    """etag: of the object; None where there is none yet."""

    aliases: Aliases
    etag: str | None


def read_aliases(account: Account, place: Place) -> Aliases:
    """As it is now; empty where nothing was put there yet. Raises DeployError."""
    return read_table(account, place).aliases


def read_table(account: Account, place: Place) -> Table:
    """With what tells whether it is another one by now. Raises DeployError."""
    key, where = place.aliases_key, f"s3://{place.bucket}/{place.aliases_key}"
    found = account.find_body("s3", "GetObject", _MOST_BYTES, Bucket=place.bucket, Key=key)
    if found is None:
        return Table(Aliases(), None)
    written, answer = found
    if len(written) > _MOST_BYTES:
        raise Refused(
            f"{where} has more than {show_bytes(_MOST_BYTES)}, expected a table of aliases; "
            "restore an older version of the object, or take another endpoint.archives"
        )
    aliases = parse_aliases(written, where)
    require_members(answer, "s3:GetObject", "ETag")
    return Table(aliases, str(answer["ETag"]))


def change_table(
    account: Account,
    place: Place,
    change: Callable[[Aliases], Aliases],
    encryption: Mapping[str, str],
) -> None:
    """Bring the table from what it is to what `change` makes of it, whoever else changes it.

    encryption: members of PutObject. Raises DeployError; what `change` raises.
    """
    pause = _FIRST_S
    for _ in range(_TRIES):
        table = read_table(account, place)
        changed = change(table.aliases)
        if changed == table.aliases or _write(account, place, changed, table.etag, encryption):
            return
        time.sleep(random.uniform(0, pause))
        pause = min(_MOST_S, pause * _GROWTH)
    raise Refused(
        f"s3://{place.bucket}/{place.aliases_key} was changed by others {_TRIES} times meanwhile; "
        "the same command tries it again"
    )


def _write(
    account: Account,
    place: Place,
    aliases: Aliases,
    etag: str | None,
    encryption: Mapping[str, str],
) -> bool:
    """Whether it was still the table of this etag."""
    condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
    try:
        account.change(
            "s3",
            "PutObject",
            Bucket=place.bucket,
            Key=place.aliases_key,
            Body=write_aliases(aliases),
            ContentType="application/json",
            **condition,
            **encryption,
        )
    except CallRefused as error:
        if error.code not in _CONFLICTS:
            raise
        return False
    return True
