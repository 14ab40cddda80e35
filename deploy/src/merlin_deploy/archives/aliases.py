"""Where archives lie below the prefix that CONFIG.toml names, and which archive each name means.

PREFIX/archives/NAME/DIGEST.tar.gz    an archive; the endpoint's TargetModel is NAME/DIGEST.tar.gz
PREFIX/aliases.json                   which archive each NAME means; no request reaches it
PREFIX/comparisons/NAME/DIGEST.json   how it compares with another one; no request reaches it

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

from ensemble_tools.shipping import quoted
from merlin_deploy.account import Account, require_members
from merlin_deploy.errors import CallRefused, Refused
from merlin_deploy.terminal import show_bytes

_FOLDER = "archives/"
_ALIASES = "aliases.json"
_COMPARISONS = "comparisons/"
SUFFIX = ".tar.gz"
#: Of a SHA-256; two archives of one name share it once in 10^19 pairs.
DIGEST_CHARACTERS = 16
#: Archives that the table keeps of a name, the current one among them.
MOST_TARGETS = 10
_VERSION = 1
#: InvokeEndpoint: TargetModel has 1 to 1024 characters.
_MOST_CHARACTERS = 1024
#: Archives of a name in a table that is read: far more than `put` writes.
_MOST_READ = 1000
#: Names in a message.
_MOST_LISTED = 20
#: S3's refusals of a write: the table has changed since, is gone, or is being written.
_CONFLICTS = frozenset(
    {"PreconditionFailed", "412", "ConditionalRequestConflict", "OperationAborted", "NoSuchKey"}
)
#: Bytes of a table; a name with all its archives takes a kilobyte at most.
_MOST_BYTES = 64 * 1024 * 1024
#: So many other writers may be first; each takes a moment.
_TRIES = 30
#: The longest pauses between two tries, in seconds; on average half of that.
_FIRST_S, _MOST_S, _GROWTH = 0.1, 2.0, 1.5


@dataclass(frozen=True)
class ArchiveStore:
    """A bucket and a prefix in it, which is empty or ends with a slash."""

    bucket: str
    prefix: str

    @property
    def archives_url(self) -> str:
        """CreateModel's ModelDataUrl."""
        return f"s3://{self.bucket}/{self.archives_prefix}"

    @property
    def archives_prefix(self) -> str:
        """The beginning of every archive's key."""
        return f"{self.prefix}{_FOLDER}"

    @property
    def aliases_key(self) -> str:
        """The key of the table of aliases in the bucket."""
        return f"{self.prefix}{_ALIASES}"

    @property
    def comparisons_prefix(self) -> str:
        """The beginning of every report's key."""
        return f"{self.prefix}{_COMPARISONS}"

    def archive_key(self, target_model: str) -> str:
        """target_model: as InvokeEndpoint has it."""
        return f"{self.archives_prefix}{target_model}"

    def report_key(self, target_model: str, end: str) -> str:
        """The key of an archive's report. end: .json or .html."""
        return f"{self.comparisons_prefix}{target_model.removesuffix(SUFFIX)}{end}"

    def archive_url(self, target_model: str) -> str:
        """target_model: as InvokeEndpoint has it."""
        return f"{self.archives_url}{target_model}"


def read_store(url: str) -> ArchiveStore:
    """url: s3://BUCKET/PREFIX/, as the reader of CONFIG.toml has checked it."""
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return ArchiveStore(bucket, prefix)


def make_target_model(name: str, digest: str) -> str:
    """InvokeEndpoint's TargetModel. digest: SHA-256 of the archive's bytes, in hex."""
    return f"{name}/{digest[:DIGEST_CHARACTERS]}{SUFFIX}"


def make_encryption(key: str | None) -> dict[str, str]:
    """Members of PutObject and CreateMultipartUpload. key: of KMS; None: the bucket's default."""
    return {} if key is None else {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}


def is_put(target_model: str) -> bool:
    """Whether `put` makes such a TargetModel."""
    digest = rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}"
    return re.fullmatch(rf"[^/]+/{digest}{re.escape(SUFFIX)}", target_model) is not None


@dataclass(frozen=True)
class Aliases:
    """The archives that names stand for."""

    #: Of each name (TargetModel), the current one first.
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def mentioned(self) -> frozenset[str]:
        """All archives that a name means, or meant before."""
        return frozenset(target for targets in self.targets.values() for target in targets)

    def find(self, name: str) -> str | None:
        """The archive that a name means."""
        return next(iter(self.targets.get(name, ())), None)

    def find_former(self, name: str) -> str | None:
        """The archive that it meant before."""
        return next(iter(self.targets.get(name, ())[1:]), None)

    def with_target(self, name: str, target: str) -> Aliases:
        """The table with this archive as the name's current one."""
        former = (it for it in self.targets.get(name, ()) if it != target)
        return Aliases({**self.targets, name: (target, *former)[:MOST_TARGETS]})

    def with_former(self, name: str) -> Aliases:
        """The table with the name's former archive as its current one, which is forgotten."""
        return Aliases({**self.targets, name: self.targets[name][1:]})


def parse_aliases(content: bytes, url: str) -> Aliases:
    """url: for messages. Raises Refused if the content is no table."""
    try:
        table = json.loads(content)
        if table["version"] != _VERSION:
            raise ValueError(f"its version is {table['version']}")
        return Aliases({name: _read_targets(name, it) for name, it in table["aliases"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{url} is no table of aliases as `put` writes it ({error}); restore an older "
            "version of the object, or delete it and put the archives again"
        ) from error


def write_aliases(aliases: Aliases) -> bytes:
    """The table's JSON; equal tables are equal bytes."""
    table = {
        "version": _VERSION,
        "aliases": {name: list(it) for name, it in aliases.targets.items()},
    }
    return json.dumps(table, sort_keys=True).encode()


def require_target(aliases: Aliases, name: str, store: ArchiveStore) -> str:
    """The archive that a name means. Raises Refused, which lists the names in the table."""
    target = aliases.find(name)
    if target is None:
        known = list_names(aliases)
        raise Refused(
            f"there is no archive called {name} at s3://{store.bucket}/{store.prefix}; there are: "
            f"{known}; `put CONFIG.toml ARCHIVE --as {shlex.quote(name)}` makes it"
        )
    return target


def list_names(aliases: Aliases) -> str:
    """The first names, as many as a message has room for."""
    names = sorted(aliases.targets)
    more = len(names) - _MOST_LISTED
    listed = names if more <= 0 else [*names[:_MOST_LISTED], f"and {more} more"]
    return ", ".join(listed) or "none"


def _read_targets(name: str, targets: object) -> tuple[str, ...]:
    if not _is_target_model(name):
        raise ValueError(f"{quoted(name)} is no name of an archive")
    if isinstance(targets, list) and len(targets) > _MOST_READ:
        raise ValueError(f"{name} has {len(targets)} archives")
    if isinstance(targets, list) and targets and all(map(_is_target_model, targets)):
        return tuple(targets)
    raise ValueError(f"{name} has no list of archives")


def _is_target_model(text: object) -> bool:
    """Whether InvokeEndpoint takes it as TargetModel or as a part of one; no .. may be in it."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= _MOST_CHARACTERS
        and text.isprintable()
        and ".." not in text.split("/")
    )


def read_aliases(account: Account, store: ArchiveStore) -> Aliases:
    """The table as it is now; empty before the first `put`. Raises DeployError."""
    return _read_table(account, store)[0]


def _read_table(account: Account, store: ArchiveStore) -> tuple[Aliases, str | None]:
    """The table, and its object's ETag; None if there is none yet."""
    key, url = store.aliases_key, f"s3://{store.bucket}/{store.aliases_key}"
    reply = account.find_body("s3", "GetObject", _MOST_BYTES, Bucket=store.bucket, Key=key)
    if reply is None:
        return Aliases(), None
    content, answer = reply
    if len(content) > _MOST_BYTES:
        raise Refused(
            f"{url} has more than {show_bytes(_MOST_BYTES)}, expected a table of aliases; "
            "restore an older version of the object, or take another endpoint.archives"
        )
    aliases = parse_aliases(content, url)
    require_members(answer, "s3:GetObject", "ETag")
    return aliases, str(answer["ETag"])


def change_table(
    account: Account,
    store: ArchiveStore,
    change: Callable[[Aliases], Aliases],
    encryption: Mapping[str, str],
) -> None:
    """Replace the table by what `change` makes of it, whoever else changes it meanwhile.

    encryption: members of PutObject. Raises DeployError, and what `change` raises.
    """
    pause = _FIRST_S
    for _ in range(_TRIES):
        aliases, etag = _read_table(account, store)
        changed = change(aliases)
        if changed == aliases or _write(account, store, changed, etag, encryption):
            return
        time.sleep(random.uniform(0, pause))
        pause = min(_MOST_S, pause * _GROWTH)
    raise Refused(
        f"s3://{store.bucket}/{store.aliases_key} was changed by others {_TRIES} times meanwhile; "
        "the same command tries it again"
    )


def _write(
    account: Account,
    store: ArchiveStore,
    aliases: Aliases,
    etag: str | None,
    encryption: Mapping[str, str],
) -> bool:
    """False if the table is not that of this etag any more."""
    condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
    try:
        account.change(
            "s3",
            "PutObject",
            Bucket=store.bucket,
            Key=store.aliases_key,
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
