"""Blocking work beside the event loop, in threads that a stopping process does not wait for.

asyncio.to_thread's are joined at the interpreter's end, and one may hang in a store that does not
answer for as long as its time-outs say.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def run_in_thread(work: Callable[[], Result]) -> Result:
    """Run work in a thread and return its result. A cancelled caller leaves it running."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def deliver(outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if done.done() else outcome())

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            deliver(lambda: done.set_exception(failure))
        else:
            deliver(lambda: done.set_result(result))

    threading.Thread(target=run, daemon=True).start()
    return await done
