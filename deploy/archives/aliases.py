"""Where archives lie below the prefix that CONFIG.toml names, and which archive each name means.

PREFIX/archives/NAME/DIGEST.tar.gz    an archive; the endpoint's TargetModel is NAME/DIGEST.tar.gz
PREFIX/aliases.json                   which archive each NAME means; no request reaches it

New content gets a new key, since SageMaker never reloads an archive that was replaced under its
key. A folder for each name lets a policy give a tenant NAME/* and nothing else.

Several writers may change the table at once. Each write names the version that it changes (If-Match
and If-None-Match of PutObject); S3 refuses it if another writer was first, and the change is made
again on the new version. So no change is lost.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deploy.aws.account import Account, require_members
from deploy.errors import CallRefused, Refused
from deploy.terminal import show_bytes
from ensemble_tools.errors import quoted

_FOLDER = "archives/"
_ALIASES = "aliases.json"
SUFFIX = ".tar.gz"
#: Of a SHA-256; two archives of one name share it once in 10^19 pairs.
DIGEST_CHARACTERS = 16


@dataclass(frozen=True)
class Place:
    """A prefix in a bucket; it is empty, or ends with a slash."""

    bucket: str
    prefix: str

    @property
    def archives_url(self) -> str:
        """Of CreateModel's ModelDataUrl."""
        return f"s3://{self.bucket}/{self.archives_prefix}"

    @property
    def archives_prefix(self) -> str:
        """What every archive's key begins with."""
        return f"{self.prefix}{_FOLDER}"

    @property
    def aliases_key(self) -> str:
        """Of the table of aliases."""
        return f"{self.prefix}{_ALIASES}"

    def archive_key(self, target_model: str) -> str:
        """Of one archive, by what InvokeEndpoint calls TargetModel."""
        return f"{self.archives_prefix}{target_model}"

    def archive_url(self, target_model: str) -> str:
        """Of one archive, by what InvokeEndpoint calls TargetModel."""
        return f"{self.archives_url}{target_model}"


def read_place(url: str) -> Place:
    """Of s3://BUCKET/PREFIX/, as the configuration's reader has checked it."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return Place(bucket, prefix)


def make_target_model(name: str, digest: str) -> str:
    """What InvokeEndpoint calls TargetModel; digest: SHA-256 of the archive's bytes, in hex."""
    return f"{name}/{digest[:DIGEST_CHARACTERS]}{SUFFIX}"


def is_put(target_model: str) -> bool:
    """Whether an archive's place is one that make_target_model makes."""
    digest = rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}"
    return re.fullmatch(rf"[^/]+/{digest}{re.escape(SUFFIX)}", target_model) is not None


_VERSION = 1
#: InvokeEndpoint: TargetModel has 1 to 1024 characters.
_MOST_CHARACTERS = 1024
#: Of a name in a table that is read: far more than `put` writes.
_MOST_READ = 1000
#: Names in a message.
_MOST_LISTED = 20
#: Of a name, with the one that is meant.
MOST_TARGETS = 10


@dataclass(frozen=True)
class Aliases:
    """targets: of each name its archives as TargetModel has them, the one that is meant first."""

    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def mentioned(self) -> frozenset[str]:
        """All archives that some name means, or meant before."""
        return frozenset(target for one in self.targets.values() for target in one)

    def find(self, name: str) -> str | None:
        """The archive that a name means."""
        return next(iter(self.targets.get(name, ())), None)

    def find_former(self, name: str) -> str | None:
        """The archive that it meant before."""
        return next(iter(self.targets.get(name, ())[1:]), None)

    def with_target(self, name: str, target: str) -> Aliases:
        """With a name that means this archive; what it meant is what it meant before."""
        former = (one for one in self.targets.get(name, ()) if one != target)
        return Aliases({**self.targets, name: (target, *former)[:MOST_TARGETS]})

    def with_former(self, name: str) -> Aliases:
        """With a name that means what it meant before; what it means now is forgotten."""
        return Aliases({**self.targets, name: self.targets[name][1:]})


def parse_aliases(written: bytes, where: str) -> Aliases:
    """Of a table that lies at this URL. Raises Refused for what is none."""
    try:
        table = json.loads(written)
        if table["version"] != _VERSION:
            raise ValueError(f"its version is {table['version']}")
        return Aliases({name: _read_targets(name, one) for name, one in table["aliases"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{where} is no table of aliases as `put` writes it ({error}); restore an older "
            "version of the object, or delete it and put the archives again"
        ) from error


def write_aliases(aliases: Aliases) -> bytes:
    """The table, as parse_aliases reads it; equal tables are equal bytes."""
    table = {
        "version": _VERSION,
        "aliases": {name: list(it) for name, it in aliases.targets.items()},
    }
    return json.dumps(table, sort_keys=True).encode()


def require_target(aliases: Aliases, name: str, place: Place) -> str:
    """The archive that a name means. Raises Refused, which lists the names that there are."""
    target = aliases.find(name)
    if target is None:
        known = list_names(aliases)
        raise Refused(
            f"there is no archive called {name} at s3://{place.bucket}/{place.prefix}; there are: "
            f"{known}; `put CONFIG.toml ARCHIVE --as {shlex.quote(name)}` makes it"
        )
    return target


def list_names(aliases: Aliases) -> str:
    """The names that there are, as many as a message has room for."""
    names = sorted(aliases.targets)
    more = len(names) - _MOST_LISTED
    listed = names if more <= 0 else [*names[:_MOST_LISTED], f"and {more} more"]
    return ", ".join(listed) or "none"


def _read_targets(name: str, found: object) -> tuple[str, ...]:
    if not _can_be_named(name):
        raise ValueError(f"{quoted(name)} is no name of an archive")
    if isinstance(found, list) and len(found) > _MOST_READ:
        raise ValueError(f"{name} has {len(found)} archives")
    if isinstance(found, list) and found and all(_can_be_named(one) for one in found):
        return tuple(found)
    raise ValueError(f"{name} has no list of archives")


def _can_be_named(word: object) -> bool:
    """A TargetModel of InvokeEndpoint, or a part of one: printable, and below its prefix."""
    return (
        isinstance(word, str)
        and 0 < len(word) <= _MOST_CHARACTERS
        and word.isprintable()
        and ".." not in word.split("/")
    )


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
