"""Signals while a coroutine runs, each raised in this process itself."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator

import pytest

from ensemble_tools.signals import blocking, heeded, run_cancellable

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """As a program has them that somebody started on a terminal; put back after the test."""
    before = [(number, signal.getsignal(number)) for number in NUMBERS]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before:
        signal.signal(number, handler)


async def wait_after(start: Callable[[], None], ended: list[str]) -> None:
    """Begins, waits for ever, and takes a while to end, in which another signal comes."""
    try:
        start()
        await asyncio.Event().wait()
    finally:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
        ended.append("ended")


def block_and_raise(number: signal.Signals) -> None:
    """Code that awaits nothing."""
    with blocking():
        signal.raise_signal(number)
        pytest.fail("it went on")


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_ends_the_work_in_order(number: signal.Signals, blocks: bool) -> None:
    """It is raised behind the work's own end, which a second signal does not interrupt."""
    ended: list[str] = []
    start = block_and_raise if blocks else signal.raise_signal
    with pytest.raises(KeyboardInterrupt if number is signal.SIGINT else SystemExit) as raised:
        run_cancellable(lambda: wait_after(lambda: start(number), ended))
    assert ended == ["ended"]
    assert getattr(raised.value, "code", 130) == 128 + number
    assert heeded() == []


class InterruptedLoop(asyncio.SelectorEventLoop):
    """Ctrl-C comes while it is made, or when it has been closed."""

    def __init__(self, at_its_end: bool) -> None:
        super().__init__()
        self._at_its_end = at_its_end
        if not at_its_end:
            signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        super().close()
        if self._at_its_end:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("at_its_end", [False, True])
def test_a_signal_beside_the_work(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, at_its_end: bool
) -> None:
    """It is raised, without a word about a coroutine that has not begun."""

    async def work() -> None:
        assert at_its_end

    monkeypatch.setattr("asyncio.events.new_event_loop", lambda: InterruptedLoop(at_its_end))
    with pytest.raises(KeyboardInterrupt):
        run_cancellable(work)
    gc.collect()
    assert [str(it.message) for it in recwarn] == []


def test_an_error_that_comes_with_the_signal_is_not_told() -> None:
    """Such as that of a server which the same Ctrl-C ended."""

    async def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("its server is gone")

    with pytest.raises(KeyboardInterrupt):
        run_cancellable(fail)


def test_without_a_signal_all_is_as_before() -> None:
    """The result comes back, an error too, and who handled signals handles them."""

    async def work(error: Exception | None) -> str:
        with blocking():
            pass
        if error:
            raise error
        return "done"

    handlers = [signal.getsignal(number) for number in NUMBERS]
    assert run_cancellable(lambda: work(None)) == "done"
    with pytest.raises(OSError, match="no room"):
        run_cancellable(lambda: work(OSError("no room")))
    assert [signal.getsignal(number) for number in NUMBERS] == handlers
