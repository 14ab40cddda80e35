"""The endpoint seen from outside while it is asked: its events, and its state each second.

The event stream is the source of facts: what was a cache hit, what was loaded and what left.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import aiohttp

from merlin_simulator.replay.arithmetic import ENDINGS, reached_container
from merlin_simulator.replay.load import ObservedState
from merlin_simulator.replay.settings import EndpointTrouble

#: Between two looks at the state.
LOOK_EVERY_S = 1.0
#: For one look, and for the first bytes of the stream.
_ANSWER_S = 10.0
#: Quiet streams say something every 15 s (a comment); beyond this the connection is dead.
_QUIET_S = 60.0
#: Before a broken stream is asked for again.
_AGAIN_S = 0.2

#: What a connection may end with.
_TROUBLE = (aiohttp.ClientError, OSError, asyncio.TimeoutError)

Event = Mapping[str, Any]

#: What an answer without it is not: an endpoint's state.
_STATE = frozenset({"sequence", "instances"})
_EXPECTED = (
    "expected an endpoint that `python -m simulator up` or `serve` plays; "
    "start one, or correct --endpoint-url."
)


class Observer:
    """Events and looks since begin(). One event loop.

    endpoint_name: which of many, where `python -m simulator serve` answers at the url.
    """

    def __init__(self, url: str, endpoint_name: str | None = None) -> None:
        self._base, self._name = url.rstrip("/"), endpoint_name
        self._url = f"{self._base}/simulator"
        self.events: list[Event] = []
        self.looks: list[ObservedState] = []
        self.missed = 0
        self.trouble = "no answer"
        self.hits = self.asked = 0
        self._last = 0
        self._started = 0.0
        self._ended: set[str] = set()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @cached_property
    def _http(self) -> aiohttp.ClientSession:
        """Made at the first look: a session belongs to the loop that runs."""
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S))

    async def state(self) -> Mapping[str, Any] | None:
        """The endpoint's state now; None without an answer, and then trouble says why."""
        results = await self._state()
        one_of_many = f"{self._base}/simulator/endpoints/{self._name}"
        if results is None and self._name is not None and self._url != one_of_many:
            alone, trouble = self._url, self.trouble
            self._url = one_of_many
            results = await self._state()
            if results is None:
                self._url, self.trouble = alone, trouble
        return results

    async def _state(self) -> Mapping[str, Any] | None:
        try:
            async with self._http.get(f"{self._url}/state") as response:
                answer = await response.json(content_type=None) if response.status == 200 else None
        except _TROUBLE as error:
            self.trouble = f"no answer ({str(error) or type(error).__name__})"
            return None
        except ValueError:
            answer = None
        if isinstance(answer, dict) and answer.keys() >= _STATE:
            return answer
        self.trouble = f"an answer of {response.status} without an endpoint's state"
        return None

    async def state_within(self, seconds: float) -> Mapping[str, Any] | None:
        """As state, given up after so long."""
        try:
            return await asyncio.wait_for(self.state(), max(_AGAIN_S, seconds))
        except (asyncio.TimeoutError, TimeoutError):  # two classes before Python 3.11
            self.trouble = "no answer"
            return None

    def not_there(self, seconds: float) -> EndpointTrouble:
        """The error if no endpoint answered for that long."""
        found = f"found {self.trouble} within {seconds:g} s"
        return EndpointTrouble(f"{self._url}/state: {found}, {_EXPECTED}")

    async def begin(self) -> None:
        """From now on everything is noted. Raises EndpointTrouble where nothing is to be seen."""
        first = await self.state()
        if first is None:
            raise EndpointTrouble(f"{self._url}/state: found {self.trouble}, {_EXPECTED}")
        self._last, self._started = int(first["sequence"]), time.monotonic()
        self.looks.append(ObservedState(0.0, first))
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._look())]

    async def heard_of(self, request_ids: Collection[str], timeout_s: float) -> bool:
        """Whether the stream has told the end of these requests; waits for that so long."""
        deadline = time.monotonic() + timeout_s
        while not self._ended.issuperset(request_ids):
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), deadline - time.monotonic())
            except (asyncio.TimeoutError, TimeoutError):  # two classes before Python 3.11
                return False
        return True

    async def close(self) -> None:
        """A last look; then nothing is noted any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:
            await self._note_look()
        await self._http.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._note_look()

    async def _note_look(self) -> None:
        state = await self.state()
        if state is not None:
            self.looks.append(ObservedState(time.monotonic() - self._started, state))

    async def _follow(self) -> None:
        while True:
            # A broken stream is asked for again, after the last event that came.
            with suppress(*_TROUBLE):
                await self._follow_once()
            await asyncio.sleep(_AGAIN_S)

    async def _follow_once(self) -> None:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._last)}
        timeout = aiohttp.ClientTimeout(sock_connect=_ANSWER_S, sock_read=_QUIET_S)
        events = self._http.get(f"{self._url}/events", headers=headers, timeout=timeout)
        async with events as response:
            async for line in response.content:
                if line.startswith(b"data:"):
                    self._note(json.loads(line[len(b"data:") :]))

    def _note(self, event: Event) -> None:
        sequence = int(event["sequence"])
        if sequence <= self._last:
            return
        self.missed += sequence - self._last - 1
        self._last = sequence
        self.events.append(event)
        if event["kind"] in ENDINGS:
            self._ended.add(str(event.get("request_id")))
        if reached_container(event):
            self.asked += 1
            self.hits += not event.get("cold")
        self._news.set()


async def wait_until_in_service(
    observer: Observer,
    expected_name: str,
    gone: Callable[[], str | None],
    timeout_s: float,
    answer_s: float | None = None,
    waiting: Callable[[str], None] = lambda states: None,
) -> None:
    """Return as soon as every instance is in service. Raises EndpointTrouble.

    gone says why waiting is in vain, or None. answer_s: for the first answer; None: timeout_s.
    waiting hears of the instances' states while they are others.
    """
    began = time.monotonic()
    answer_s = timeout_s if answer_s is None else answer_s
    last_told = ""
    seen: deque[str] = deque(maxlen=1)
    while (passed := time.monotonic() - began) < timeout_s:
        if reason := gone():
            raise EndpointTrouble(reason)
        left = timeout_s - passed if seen else answer_s - passed
        state = await observer.state_within(left)
        if state is not None and _all_in_service(state, expected_name, seen):
            return
        if not seen and time.monotonic() - began >= answer_s:
            raise observer.not_there(answer_s)
        if seen and seen[0] != last_told:
            last_told = seen[0]
            waiting(last_told)
        await asyncio.sleep(_AGAIN_S)
    raise EndpointTrouble(
        f"found {seen[0] if seen else observer.trouble} after {timeout_s:g} s, expected every "
        "instance in service; look into the endpoint's own output."
    )


def _all_in_service(state: Mapping[str, Any], expected_name: str, seen: deque[str]) -> bool:
    if state.get("endpoint_name") != expected_name:
        raise EndpointTrouble(
            f"found an endpoint named {state.get('endpoint_name')}, expected {expected_name}; "
            "correct --endpoint-name."
        )
    instances = state["instances"]
    states = ", ".join(f"{instance['name']} {instance['state']}" for instance in instances)
    seen.append(states or "no instance")
    return bool(instances) and all(instance["state"] == "in service" for instance in instances)
