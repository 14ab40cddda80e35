"""How many connections there may be, for how long each, and which one goes when one too many comes.

Descriptors are the process's: without a bound, idle connections take those that loads, /ping and
tritonserver's connections need. Over the bound those go first on which no request was ever whole
and nothing goes on: a flood does not close its neighbours' connections. Then the one that has been
idle for longest, then the one that has been sending a request for longest. If each has a request in
flight, a few more are taken in for what is no invocation, since /ping and /models must be answered.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from serve.errors import Overloaded
from serve.limit import named
from serve.models.request_queue import Overloads

_log = logging.getLogger(__name__)

#: How often each connection is looked at, in seconds.
LOOK_S = 0.5
#: Over the bound, how many more are taken in for what is no invocation, and for how long each.
_BESIDE, BESIDE_S = 32, 5.0
#: Over the bound, one makes way that never asked for so long (what is younger may have its first
#: request on the way), or whose first request does not go on for so long (its head began, or the
#: last of its body came), or has been idle for so long; in seconds. A flood has no
#: more connections than come in the first two of these times.
_SILENT_S, _STALLED_S, _IDLE_S = 0.02, 1.0, 0.25
#: In this order (_turn).
_SILENT, _STALLED, _IDLE, _SLOW = range(4)
#: How many that may go are looked for at once, and how long those who were found are good, and
#: the others not looked through again if all were found, in seconds for each connection there is.
_FOUND_AT_ONCE, _FOUND_S = 64, 2e-6


@dataclass(frozen=True)
class ConnectionLimits:
    """Times in seconds, sizes in bytes. Limits and TimeLimits, where messages name settings."""

    connections: int = 10_000
    read_s: float = 30.0  # for a whole request, and for a new connection's first one to begin
    keep_alive_s: float = 75.0  # between two requests
    stuck_s: float = 60.0  # for a caller to read on
    largest_body: int = 64 * 1024 * 1024  # of an invocation
    slow_s: float = 2.0  # over the bound, one whose request comes for longer makes way
    linger_s: float = 5.0  # after the last word, what still comes is read away


class CallerConnection(Protocol):
    """A caller's connection, as the bound sees it; times are the event loop's."""

    @property
    def idle_since(self) -> float | None:
        """Since when nothing is asked; None while something is."""

    @property
    def has_asked(self) -> bool:
        """Whether anything has ever been asked on it."""

    @property
    def reading_since(self) -> float | None:
        """Since when a request has been coming that nobody works on yet; else None."""

    @property
    def stalled_since(self) -> float:
        """Since when such a request has not gone on: its head began, or the last of its body came.

        For one with a reading_since.
        """

    def is_under_way(self, now: float) -> bool:
        """Whether a first request lies unread (a system call), or its caller reads an answer."""

    def make_way(self) -> None:
        """End at once and for certain: another one needs its descriptor, and it is forgotten."""

    def look(self, now: float) -> None:
        """End if it is time."""


class Connections:
    """All connections of a server."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._all: set[CallerConnection] = set()
        self._beside: set[CallerConnection] = set()
        self._may_go: list[tuple[_Turn, CallerConnection]] = []
        self._looked_at, self._all_found = -1.0, False
        self._overloads = Overloads()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, connection: CallerConnection, now: float) -> bool | None:
        """Take in a new one, and let another go for it if need be.

        True: it is one like all (1). False: it is one of the few beside the bound, for anything
        but invocations (2). None: there is no room for it at all (3).
        """
        if len(self._all) < self.limits.connections or self._one_goes(now):  # 1
            self._all.add(connection)
            return True
        if len(self._beside) < _BESIDE or self._one_beside_goes(now):  # 2
            self._beside.add(connection)
            return False
        return None  # 3

    def too_many(self) -> Overloaded:
        """The error for a connection over the bound."""
        most = self.limits.connections
        return self._overloads.make_error(f"{most} connections are in use already{named(most)}")

    def forget(self, connection: CallerConnection) -> None:
        """It has ended; idempotent."""
        self._all.discard(connection)
        self._beside.discard(connection)

    def _one_goes(self, now: float) -> bool:
        """Whether one could go."""
        if now - self._looked_at >= _FOUND_S * len(self._all):
            self._look_who_may_go(now)
        if self._one_of(self._may_go, self._all, now):
            return True
        if self._all_found:
            return False
        self._look_who_may_go(now)
        return self._one_of(self._may_go, self._all, now)

    def _look_who_may_go(self, now: float) -> None:
        self._may_go, self._looked_at = _first_to_go(self._all, now, self.limits.slow_s), now
        self._all_found = len(self._may_go) < _FOUND_AT_ONCE

    def _one_beside_goes(self, now: float) -> bool:
        return self._one_of(_first_to_go(self._beside, now, self.limits.slow_s), self._beside, now)

    def _one_of(
        self,
        candidates: list[tuple[_Turn, CallerConnection]],
        known: set[CallerConnection],
        now: float,
    ) -> bool:
        """Whether one of those found could go: it is still there, and has not gone on since."""
        while candidates:
            turn, connection = candidates.pop()
            if connection not in known or _turn(connection, now, self.limits.slow_s) != turn:
                continue
            if not connection.is_under_way(now):
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


#: How soon one may go, by its kind and by since when: the least goes first.
_Turn = tuple[int, float]


def _turn(connection: CallerConnection, now: float, slow_s: float) -> _Turn | None:
    """None while it may not go. Those that may go in the order of these numbers:

    0. nothing was ever asked on it, for longer than _SILENT_S.
    1. its first request does not go on, for longer than _STALLED_S.
    2. nothing is asked on it, for longer than _IDLE_S.
    3. a request has been coming on it for longer than slow_s, also one that goes on: an upload is
       kept longer than an idle connection, which costs little.

    One whose request is at work has none of them. Among equals that goes first for which it has
    been so for longest.
    """
    idle_since, reading_since = connection.idle_since, connection.reading_since
    if idle_since is not None and not connection.has_asked:  # 0
        return (_SILENT, idle_since) if now - idle_since > _SILENT_S else None
    if idle_since is not None:  # 2
        return (_IDLE, idle_since) if now - idle_since > _IDLE_S else None
    if reading_since is None:
        return None
    if not connection.has_asked and now - connection.stalled_since > _STALLED_S:  # 1
        return _STALLED, connection.stalled_since
    return (_SLOW, reading_since) if now - reading_since > slow_s else None  # 3


def _first_to_go(
    connections: Iterable[CallerConnection], now: float, slow_s: float
) -> list[tuple[_Turn, CallerConnection]]:
    """The first to go stands last."""
    turns = ((_turn(connection, now, slow_s), connection) for connection in connections)
    candidates = [(turn, connection) for turn, connection in turns if turn is not None]
    return heapq.nsmallest(_FOUND_AT_ONCE, candidates, key=itemgetter(0))[::-1]
