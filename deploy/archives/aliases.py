"""The table of aliases: which archive each name means now, and which ones before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy.archives.places import Place
from deploy.aws.account import Account
from deploy.errors import Refused

_VERSION = 1


@dataclass(frozen=True)
class Aliases:
    """targets: of each name its archives as TargetModel has them, the one that is meant first."""

    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """The archive that a name means."""
        return next(iter(self.targets.get(name, ())), None)


def read_aliases(account: Account, place: Place) -> Aliases:
    """As it is now; empty where nothing was put there yet. Raises DeployError."""
    found = account.find_body("s3", "GetObject", Bucket=place.bucket, Key=place.aliases_key)
    if found is None:
        return Aliases()
    where = f"s3://{place.bucket}/{place.aliases_key}"
    try:
        table = json.loads(found[0])
        if table["version"] != _VERSION:
            raise ValueError(f"its version is {table['version']}")
        return Aliases({str(name): tuple(map(str, one)) for name, one in table["aliases"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{where} is no table of aliases as `put` writes it ({error}); restore an older "
            "version of the object, or delete it and put the archives again"
        ) from error


def require_target(aliases: Aliases, name: str, place: Place) -> str:
    """The archive that a name means. Raises Refused, which lists the names that there are."""
    target = aliases.find(name)
    if target is None:
        known = ", ".join(sorted(aliases.targets)) or "none"
        raise Refused(
            f"there is no archive called {name} at s3://{place.bucket}/{place.prefix}; there are: "
            f"{known}; `put ARCHIVE --as {name}` makes it"
        )
    return target
