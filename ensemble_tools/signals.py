"""Ctrl-C at any time of a program, also while it imports: it ends quietly, with exit code 130.

Imported before all else by those programs, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as in __init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import FrameType
    from typing import Any, TypeVar

    T = TypeVar("T")

#: 128 + the number of SIGINT, as shells say it.
INTERRUPTED = 130
#: And of SIGPIPE.
PIPE_CLOSED = 141
_NUMBERS = (signal.SIGINT, signal.SIGTERM)


def heeded() -> list[signal.Signals]:
    """Both, but for what who started us has us ignore, as a shell does with a job behind `&`."""
    return [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]


def leave_at_once() -> None:
    """From here on a signal ends the process, which has nothing to clear away yet."""
    for number in heeded():
        signal.signal(number, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NUMBERS)


def leave_in_order() -> None:
    """From here on the first signal is raised: KeyboardInterrupt, or SystemExit for SIGTERM.

    Those after it must not interrupt the clearing away.
    """
    for number in heeded():
        signal.signal(number, _raise)


def to_the_end(main: Callable[[], int]) -> int:
    """Run a program after its imports; its exit code.

    Its temporary files are made in a directory of its own, which is gone at the end: a signal may
    come while one of them is being removed.
    """
    import contextlib
    import secrets
    import tempfile

    own = ""
    try:
        try:
            leave_in_order()
            with contextlib.suppress(OSError):  # nowhere to write; it may not have to
                own = f"{tempfile.gettempdir()}/merlin-{secrets.token_hex(8)}"
                os.mkdir(own, 0o700)
                tempfile.tempdir = own
            return main()
        finally:
            _clear_away(own)
    except KeyboardInterrupt:
        _clear_away(own)
        return INTERRUPTED
    except BaseException:
        _clear_away(own)
        raise


def run_cancellable(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run as asyncio.run does; the first signal cancels the work, and is raised at its end.

    Nor is one raised before the work has begun: Python would warn of a coroutine that never does.
    """
    import asyncio

    received: list[int] = []
    running: list[asyncio.Task[T]] = []

    def cancel(number: int, _: FrameType | None) -> None:
        ignore_signals()
        received.append(number)
        for task in running:
            if not (loop := task.get_loop()).is_closed():
                loop.call_soon_threadsafe(task.cancel)

    async def supervise() -> T:
        running.append(asyncio.ensure_future(work()))
        if received:
            running[0].cancel()
        return await running[0]

    with _Handling(cancel):
        try:
            result = asyncio.run(supervise())
        except (asyncio.CancelledError, Exception):
            if not received:
                raise
    if received:
        raise _make_exception(received[0])
    return result


def blocking() -> _Handling:
    """Within the block, which awaits nothing and may take long, the first signal is raised."""
    return _Handling(_raise)


class _Handling:
    """Within the block a handler is called; after a signal it stays as it is, for the end."""

    def __init__(self, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        self._before = [(number, signal.signal(number, self._handler)) for number in heeded()]

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


def _clear_away(directory: str) -> None:
    import shutil

    ignore_signals()
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


def ignore_signals() -> None:
    """From here on all is done, and the exit code says how it went."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


def reader_is_gone() -> int:
    """Drop the output, whose reader has seen enough (`| head`): Python's flush has no traceback.

    The exit code; to be called where BrokenPipeError is caught.
    """
    drop_output()
    return PIPE_CLOSED


def drop_output() -> None:
    """Drop what stdout could not take, which Python would try again at its end."""
    import sys

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_outputs() -> None:
    """A stdout or stderr that was closed (`>&-`) takes what it is given, and shows it nowhere.

    To be called first of all: else a file or a connection gets its number.
    """
    import sys

    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # until the process ends


def hold() -> None:
    """Hold signals for the program that this one becomes, which says itself what to do (exec)."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)


def _leave(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


def _raise(number: int, _: FrameType | None) -> None:
    ignore_signals()
    raise _make_exception(number)


def _make_exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
