"""Callers of an endpoint of the control plane, while something is done to it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from simulator.tests.support.control_plane import ControlPlane


@dataclass
class Traffic:
    """What callers got, one after another on each of some connections.

    target: TargetModel; body: of each request. pause_s: between two requests of a caller; it may be
    changed while they go on. statuses, answers: in the order of the answers.
    """

    target: str = "a.tar.gz"
    body: bytes = b"{}"
    statuses: list[int] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    pause_s: float = 0.0
    ending: threading.Event = field(default_factory=threading.Event)

    def ask(self, plane: ControlPlane, name: str) -> None:
        """Until ending."""
        named = {"X-Amzn-SageMaker-Target-Model": self.target}
        headers = {**named, "Content-Type": "application/json"}
        with httpx.Client(base_url=plane.url, timeout=60, trust_env=False) as client:
            while not self.ending.is_set():
                path = f"/endpoints/{name}/invocations"
                answer = client.post(path, content=self.body, headers=headers)
                self.statuses.append(answer.status_code)
                self.answers.append(answer.content)
                self.ending.wait(self.pause_s)

    def failures(self) -> int:
        """Answers that were not 200."""
        return sum(status != 200 for status in self.statuses)


@contextlib.contextmanager
def traffic(plane: ControlPlane, name: str, callers: int = 4, **request: Any) -> Iterator[Traffic]:
    """Requests one after another from some callers, until the block ends; request: of Traffic."""
    sent = Traffic(**request)
    threads = [threading.Thread(target=sent.ask, args=(plane, name)) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield sent
    finally:
        sent.ending.set()
        for thread in threads:
            thread.join()
