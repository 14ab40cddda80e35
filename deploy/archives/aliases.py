"""Aliases: which archive each name means now, and which ones before. No I/O."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy.archives.places import Place
from deploy.errors import Refused
from ensemble_tools.errors import quoted

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
