"""Steady traffic to tenants, every answer of which is checked, and /ping beside it.

What is recorded of each request: when it was sent, when it was over, and whether the answer was
right, wrong, refused (with which status) or never came. Judging which losses a fault excuses is not
done here (chaos.py).
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.reliability.tenants import Tenant
from tests.reliability.wire import Answer, NoAnswer, Wire, request

#: An answer that takes longer counts as none; the platform itself waits for 60 s.
PATIENCE_S = 40.0
_PING_EVERY_S = 0.1
_PING_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Asked:
    """One request; status 0: no answer. wrong: what a 200 said that it should not. By monotonic."""

    tenant: str
    sent: float
    over: float
    status: int
    said: str = ""
    wrong: str | None = None

    @property
    def is_right(self) -> bool:
        return self.status == 200 and self.wrong is None


@dataclass
class Pings:
    """at, seconds and status of every /ping; status 0: none."""

    all: list[tuple[float, float, int]] = field(default_factory=list)

    def worst(self, since: float, until: float) -> float:
        """The longest of those sent in that time, in seconds."""
        return max((took for at, took, _ in self.all if since <= at <= until), default=0.0)


class Traffic:
    """Each tenant is asked by a thread of its own, so many times a second.

    port: where the container listens now; it may be another after one has ended.
    """

    def __init__(
        self, tenants: Sequence[Tenant], port: Callable[[], int], rate: float, seed: int
    ) -> None:
        self._tenants, self._port, self._rate, self._seed = tenants, port, rate, seed
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.asked: list[Asked] = []
        self.pings = Pings()
        self._threads = [
            threading.Thread(target=self._ask, args=(tenant,), daemon=True) for tenant in tenants
        ]
        self._threads.append(threading.Thread(target=self._ping, daemon=True))

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S + 5)

    def since(self, at: float) -> list[Asked]:
        """All that was over since then, in the order in which it was."""
        with self._lock:
            found = []
            for one in reversed(self.asked):
                if one.over < at:
                    break
                found.append(one)
        return found[::-1]

    def right_since(self, at: float) -> frozenset[str]:
        """The tenants with a right answer to a request that was sent after that."""
        found = (one for one in self.since(at) if one.sent >= at and one.is_right)
        return frozenset(one.tenant for one in found)

    def _ask(self, tenant: Tenant) -> None:
        chance = random.Random(f"{self._seed} {tenant.name}")
        wire: Wire | None = None
        port = 0
        while not self._over.wait(chance.uniform(0.5, 1.5) / self._rate):
            if wire is None or port != self._port():
                if wire is not None:
                    wire.close()
                port = self._port()
                wire = Wire(port, PATIENCE_S)
            one = ask(wire, tenant, chance)
            with self._lock:
                self.asked.append(one)
        if wire is not None:
            wire.close()

    def _ping(self) -> None:
        while not self._over.wait(_PING_EVERY_S):
            at = time.monotonic()
            status = 0
            wire = Wire(self._port(), _PING_PATIENCE_S)
            with contextlib.suppress(NoAnswer, OSError):
                wire.send([request("/ping", b"", method="GET")])
                status = wire.answer("GET").status
            wire.close()
            self.pings.all.append((at, time.monotonic() - at, status))


def ask(wire: Wire, tenant: Tenant, chance: random.Random) -> Asked:
    """One question and what came of it; a connection that has been closed is opened again.

    A server may close an idle connection just when it is used again: such a request was not read,
    and is sent once more (RFC 9112 9.3.1).
    """
    question = tenant.ask(chance)
    raw = request(f"/models/{tenant.name}/invoke", question.body, question.headers)
    sent = time.monotonic()
    try:
        answer = _answer(wire, raw)
    except (NoAnswer, OSError) as error:
        wire.close()
        return Asked(tenant.name, sent, time.monotonic(), 0, str(error))
    over = time.monotonic()
    if answer.status != 200:
        said = answer.body[:200].decode(errors="replace")
        return Asked(tenant.name, sent, over, answer.status, said)
    return Asked(tenant.name, sent, over, 200, "", _verdict(question.verdict, answer))


def _answer(wire: Wire, raw: bytes) -> Answer:
    wire.close_if_ended()
    started = time.monotonic()
    try:
        wire.send([raw])
        started = time.monotonic()
        return wire.answer()
    except NoAnswer as error:
        was_idle = time.monotonic() - started < 0.05 and "closed" in error.said
        if not was_idle or error.partial:
            raise
        wire.close()
        wire.send([raw])
        return wire.answer()


def _verdict(verdict: Callable[..., str | None], answer: Answer) -> str | None:
    try:
        return verdict(answer.body, answer.headers)
    except (ValueError, KeyError, TypeError, json.JSONDecodeError) as error:
        return f"no answer of the protocol ({type(error).__name__})"
