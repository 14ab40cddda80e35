"""The bounded wait: a limit always ends it, and a cancellation always arrives."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from serve.deadline import Deadline, within
from serve.errors import TritonTimeout
from serve.limit import TimeLimit
from tests.support.clock import Clock

ROOT = Path(__file__).parents[3]
WAIT_S = 60.0  # long enough on any machine
SHORT_S = 0.01

Bounded = Callable[[Coroutine[Any, Any, int]], Coroutine[Any, Any, int]]


def _within(work: Coroutine[Any, Any, int]) -> Coroutine[Any, Any, int]:
    return within(work, WAIT_S)


def _deadline(work: Coroutine[Any, Any, int]) -> Coroutine[Any, Any, int]:
    return Deadline(TimeLimit(WAIT_S, "SERVE_LOAD_TIMEOUT")).bound(work, "the work")


BOTH = pytest.mark.parametrize("bounded", [_within, _deadline])


async def cancelled_near_the_end(bounded: Bounded, end: int, cancel: int, first: bool) -> bool:
    """Whether a cancellation that was accepted has arrived.

    The work ends after `end` turns of the loop and is cancelled after `cancel`; first: which of the
    two comes first where both fall on one turn.
    """
    loop = asyncio.get_running_loop()
    come: asyncio.Future[int] = loop.create_future()
    accepted: list[bool] = []

    async def work() -> int:
        return await come

    task = asyncio.ensure_future(bounded(work()))
    await asyncio.sleep(0.001)  # it waits
    steps: list[tuple[int, Callable[[], None]]] = [
        (end, lambda: _end(come)),
        (cancel, lambda: accepted.append(task.cancel())),
    ]
    for turn in range(max(end, cancel) + 1):
        for when, step in steps if first else reversed(steps):
            if when == turn:
                step()
        await asyncio.sleep(0)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return task.cancelled() or not accepted[0]


@BOTH
@pytest.mark.parametrize("first", [True, False])
async def test_a_cancellation_is_never_lost(bounded: Bounded, first: bool) -> None:
    """However close to the end of the work it comes, before it or after."""
    for end, cancel in itertools.product(range(8), repeat=2):
        assert await cancelled_near_the_end(bounded, end, cancel, first), (end, cancel)


async def test_the_cancellations_of_many_waits_arrive() -> None:
    """Ended, late and cancelled within the same ms, by timers that nobody orders."""
    loop = asyncio.get_running_loop()

    async def one(count: int) -> bool:
        come: asyncio.Future[int] = loop.create_future()
        task = asyncio.ensure_future(within(_result(come), 0.001 + count % 3 / 1000))
        accepted: list[bool] = []
        await asyncio.sleep(0)  # it has begun
        loop.call_later(count % 5 / 1500, _end, come)
        loop.call_later(count % 7 / 2000, lambda: accepted.append(task.cancel()))
        with contextlib.suppress(asyncio.CancelledError, asyncio.TimeoutError):
            await task
        while not accepted:  # noqa: ASYNC110 # the timer comes
            await asyncio.sleep(0.001)
        return task.cancelled() or not accepted[0]

    assert all(await asyncio.gather(*map(one, range(500))))


def _end(come: asyncio.Future[int]) -> None:
    if not come.done():
        come.set_result(1)


async def _result(come: Awaitable[int]) -> int:
    return await come


@BOTH
async def test_what_the_work_returns_and_raises_comes_through(bounded: Bounded) -> None:
    """Also an error that is a timeout of its own: it is not the limit's."""

    async def returns() -> int:
        return 7

    async def raises() -> int:
        raise asyncio.TimeoutError("its own")

    assert await bounded(returns()) == 7
    with pytest.raises(asyncio.TimeoutError, match="its own"):
        await bounded(raises())


async def test_work_without_time_is_not_begun() -> None:
    """A request that nobody can wait for is not sent."""
    begun = []

    async def work() -> None:
        begun.append(1)

    for limit_s in (0, -1.0):
        with pytest.raises(asyncio.TimeoutError):
            await within(work(), limit_s)
        with pytest.raises(TritonTimeout):
            await Deadline(TimeLimit(limit_s, "SERVE_LOAD_TIMEOUT")).bound(work(), "the work")
    waiting = asyncio.get_running_loop().create_future()
    with pytest.raises(asyncio.TimeoutError):
        await within(waiting, 0)
    assert waiting.cancelled()
    await asyncio.sleep(0)
    assert not begun


async def test_work_that_is_late_is_ended() -> None:
    """It does not go on where nobody sees it."""
    ended = asyncio.Event()

    async def work() -> None:
        with contextlib.ExitStack() as at_end:
            at_end.callback(ended.set)
            await asyncio.Event().wait()

    with pytest.raises(asyncio.TimeoutError):
        await within(work(), SHORT_S)
    await within(ended.wait(), WAIT_S)


async def test_work_that_does_not_let_itself_be_ended_holds_nobody() -> None:
    """The limit is for whoever waits."""
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    with pytest.raises(asyncio.TimeoutError):
        await within(within(stubborn(), SHORT_S), WAIT_S)
    let_go.set()
    await asyncio.sleep(0)


async def test_what_late_work_raises_is_not_logged() -> None:
    """Nobody waits for it any more; asyncio would call it an exception that was never retrieved."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while it is ended") from None

    with pytest.raises(asyncio.TimeoutError):
        await within(work(), SHORT_S)
    await asyncio.sleep(0.01)
    gc.collect()
    assert complaints == []


async def test_a_deadline_is_for_all_steps_and_names_its_setting(clock: Clock) -> None:
    """The second step gets what the first one left, and the sentence says what to raise."""
    clock.stop()
    deadline = Deadline(TimeLimit(20, "SERVE_LOAD_TIMEOUT"))
    assert deadline.remaining == pytest.approx(20)
    first = asyncio.ensure_future(deadline.bound(asyncio.sleep(15), "the first"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.advance(15)
    await first
    assert deadline.remaining == pytest.approx(5)
    second = asyncio.ensure_future(deadline.bound(asyncio.sleep(WAIT_S), "the second"))
    await asyncio.sleep(0)
    clock.advance(5)
    with pytest.raises(
        TritonTimeout, match=r"^the second took longer than 20 s; raise SERVE_LOAD_TIMEOUT if "
    ):
        await second
    assert deadline.remaining == pytest.approx(0)


@pytest.mark.parametrize("room", ["serve/models/lifecycle.py", "container/entrypoint.py"])
@pytest.mark.parametrize(
    "words",
    [
        "import asyncio\n\nasyncio.wait_for",
        "import asyncio\n\nasyncio.timeout",
        "import asyncio\n\nasyncio.to_thread",
        "from asyncio import wait_for\n\nwait_for",
        "from asyncio import timeout\n\ntimeout",
    ],
)
def test_other_bounded_waits_are_refused_by_lint(room: str, words: str) -> None:
    """The rule of this room, held by `make lint`."""
    program = Path(sys.executable).with_name("ruff")
    found = subprocess.run(
        [program, "check", "--no-cache", "--select=TID251", "--stdin-filename", room, "-"],
        cwd=ROOT,
        input=words,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 1
    assert "serve.deadline" in found.stdout or "serve.threads" in found.stdout
