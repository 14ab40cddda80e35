"""What there is of archives, and what each is to whom. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from deploy.archives.aliases import Aliases
from deploy.archives.places import is_put
from deploy.archives.stored import Stored


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
