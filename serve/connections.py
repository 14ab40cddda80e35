"""How many connections there may be, for how long each, and which one goes when one too many comes.

Descriptors are the process's: without a bound, idle connections take those that loads, /ping and
tritonserver's connections need. Over the bound the connection goes that has been idle for longest,
those first on which nothing was ever asked: a flood does not close its neighbours' connections.
Then the one that has been sending a request for longest. If each has a request in flight, a few
more are taken in for what is no invocation, since /ping and /models must be answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from serve.errors import Overloaded
from serve.waiting_room import Refusals

_log = logging.getLogger(__name__)

#: How often each connection is looked at, in seconds.
LOOK_S = 0.5
#: Over the bound, how many more are taken in for what is no invocation, and for how long each.
_BESIDE, BESIDE_S = 32, 5.0
#: Over the bound, one makes way that never asked for so long (what is younger may have its first
#: request on the way), or has been idle for so long, or whose request has been coming for so long;
#: in seconds. A flood of silent ones so has no more places than come in the first of these times.
_SILENT_S, _IDLE_S, _SLOW_S = 0.05, 0.25, 2.0
#: How many that may go are looked for at once.
_FOUND_AT_ONCE = 64


@dataclass(frozen=True)
class ConnectionLimits:
    """Times in seconds, sizes in bytes.

    read_s: for a whole request, and for a new connection's first one to begin. keep_alive_s:
    between two. stuck_s: for a caller to read on. largest_body: of an invocation; a Limit, where a
    message is to name its setting.
    """

    connections: int = 10_000
    read_s: float = 30.0
    keep_alive_s: float = 75.0
    stuck_s: float = 60.0
    largest_body: int = 64 * 1024 * 1024


class Connection(Protocol):
    """What is known of one; times are the event loop's."""

    @property
    def idle_since(self) -> float | None:
        """Since when nothing is asked; None while something is."""

    @property
    def has_asked(self) -> bool:
        """Whether anything has ever been asked on it."""

    @property
    def reading_since(self) -> float | None:
        """Since when a request has been coming that nobody works on yet; else None."""

    def is_under_way(self, now: float) -> bool:
        """Whether a first request lies unread (a system call), or its caller reads an answer."""

    def make_way(self) -> None:
        """End at once and for certain: another one needs the place, and it is forgotten."""

    def look(self, now: float) -> None:
        """End if it is time."""


class Connections:
    """All connections of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: set[Connection] = set()
        self._beside: set[Connection] = set()
        self._may_go: list[tuple[Connection, float]] = []
        self._refusals = Refusals()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, connection: Connection, now: float) -> bool | None:
        """Take in a new one, and let another go for it if need be.

        False: it is one of the few beside the bound, for anything but invocations. None: there is
        no room for it at all.
        """
        if len(self._all) < self.limits.connections or self._one_goes(now):
            self._all.add(connection)
            return True
        if len(self._beside) < _BESIDE or self._one_beside_goes(now):
            self._beside.add(connection)
            return False
        return None

    def too_many(self) -> Overloaded:
        """What a connection over the bound is told."""
        most = self.limits.connections
        return self._refusals.overloaded(
            f"{most} connections are in use already (SERVE_MAX_CONNECTIONS)"
        )

    def forget(self, connection: Connection) -> None:
        """It has ended; idempotent."""
        self._all.discard(connection)
        self._beside.discard(connection)

    def _one_goes(self, now: float) -> bool:
        """Whether one could go."""
        for _ in range(2):
            while self._may_go:
                connection, since = self._may_go.pop()
                if since not in (connection.idle_since, connection.reading_since):
                    continue
                if not connection.is_under_way(now):
                    self.forget(connection)
                    connection.make_way()
                    return True
            self._may_go = _first_to_go(self._all, now)
        return False

    def _one_beside_goes(self, now: float) -> bool:
        for connection, _ in _first_to_go(self._beside, now)[-1:]:
            self.forget(connection)
            connection.make_way()
            return True
        return False

    async def watch(self) -> None:
        """Look at each connection now and then; for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            now = loop.time()
            for connection in [*self._all, *self._beside]:
                try:
                    connection.look(now)
                except Exception:  # the others are to be looked at all the same
                    _log.exception("a connection could not be looked at")


def _first_to_go(connections: Iterable[Connection], now: float) -> list[tuple[Connection, float]]:
    """The first to go stands last; each with the time that made it one.

    Those first that never asked anything, and of them the one that has been idle for longest.
    """
    idle, slow = [], []
    for connection in connections:
        since = connection.idle_since
        if since is not None:
            if now - since > (_IDLE_S if connection.has_asked else _SILENT_S):
                idle.append((connection, since))
            continue
        since = connection.reading_since
        if since is not None and now - since > _SLOW_S:
            slow.append((connection, since))
    found = idle or slow
    found.sort(key=lambda pair: (pair[0].has_asked, pair[1]), reverse=True)
    return found[-_FOUND_AT_ONCE:]
