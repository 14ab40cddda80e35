"""How far a push is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO

from deploy.images.push_lines import PushTally

Tell = Callable[[PushTally], None]
Progress = Callable[[], AbstractContextManager[Tell]]
#: Between two drawings of the bar, and between two lines, in seconds.
_DRAWN_EVERY_S, _LINE_EVERY_S = 0.1, 5.0
_BAR = 24
_CLEAR = "\r\x1b[K"


@contextmanager
def progress_on(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """What is to be called with each change; no bar is left on the terminal at the end."""
    on_terminal, last = stream.isatty(), [float("-inf") if stream.isatty() else clock()]

    def tell(tally: PushTally) -> None:
        if clock() - last[0] < (_DRAWN_EVERY_S if on_terminal else _LINE_EVERY_S):
            return
        last[0] = clock()
        if on_terminal:
            columns = shutil.get_terminal_size().columns
            stream.write(_CLEAR + f"{draw_bar(tally)} {tally.in_words()}"[: columns - 1])
        else:
            stream.write(f"{tally.in_words()}\n")
        stream.flush()

    try:
        yield tell
    finally:
        if on_terminal:
            stream.write(_CLEAR)
            stream.flush()


def draw_bar(tally: PushTally) -> str:
    """Of the layers that are there; those on their way count by their bytes."""
    parts = [
        1.0 if layer.done else layer.sent / layer.total if layer.total else 0.0
        for layer in tally.layers.values()
    ]
    filled = int(_BAR * sum(parts) / len(parts)) if parts else 0
    return f"[{'#' * filled}{'-' * (_BAR - filled)}]"
