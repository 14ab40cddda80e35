"""Which configurations an endpoint had, newest first: kept as a tag of the endpoint itself.

It is like a browser's history: going back leaves it as it is, and what is deployed then takes the
place of everything newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.wanted.names import DIGEST_CHARACTERS

#: A tag's value has 256 characters.
_MOST = 256 // (DIGEST_CHARACTERS + 1)


@dataclass(frozen=True)
class History:
    """Digests of configurations' names, newest first."""

    digests: tuple[str, ...] = ()

    def with_newest(self, current: str | None, newest: str, keep: int) -> History:
        """What is deployed next goes in front of what is deployed now; keep: of former ones."""
        older = self.digests
        if current in older:
            older = older[older.index(current) :]
        elif current is not None:
            older = (current, *older)
        rest = tuple(digest for digest in older if digest != newest)
        return History((newest, *rest)[: min(keep + 1, _MOST)])

    def before(self, current: str) -> str | None:
        """The one that was deployed before the current one; None where there is none."""
        if current not in self.digests:
            return next(iter(self.digests), None)
        place = self.digests.index(current) + 1
        return self.digests[place] if place < len(self.digests) else None


def read_history(value: str | None) -> History:
    """Of a tag's value; what is no digest is left out."""
    digests: Sequence[str] = (value or "").split()
    return History(tuple(it for it in digests if len(it) == DIGEST_CHARACTERS))


def write_history(history: History) -> str:
    """As a tag's value."""
    return " ".join(history.digests)


def digest_of(name: str) -> str:
    """Of a configuration's name."""
    return name.rpartition("-")[2]
