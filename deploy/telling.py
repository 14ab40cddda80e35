"""How far something long is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO

from deploy.quantities import show_bytes
from ensemble_tools.errors import printable

#: Between two drawings of the bar, and between two lines, in seconds.
_DRAWN_EVERY_S, _LINE_EVERY_S = 0.1, 5.0
_BAR = 24
_CLEAR = "\r\x1b[K"


class Tally(Protocol):
    """What was done of something so far."""

    @property
    def share(self) -> float:
        """Of all of it: from 0 to 1."""
        ...

    def in_words(self) -> str:
        """In a line without an end."""
        ...


Tell = Callable[[Tally], None]
Progress = Callable[[], AbstractContextManager[Tell]]


@dataclass(frozen=True)
class Bytes:
    """So many bytes are done of total. what: is done to which of them."""

    what: str
    done: int
    total: int

    @property
    def share(self) -> float:
        """Of the bytes."""
        return min(1.0, self.done / self.total) if self.total else 1.0

    def in_words(self) -> str:
        """With both numbers."""
        return f"{self.what}: {show_bytes(self.done)} of {show_bytes(self.total)}"


@contextmanager
def progress_on(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """What is to be called with each change; no bar is left on the terminal at the end."""
    on_terminal, last = stream.isatty(), [float("-inf") if stream.isatty() else clock()]

    def tell(tally: Tally) -> None:
        if clock() - last[0] < (_DRAWN_EVERY_S if on_terminal else _LINE_EVERY_S):
            return
        last[0] = clock()
        if on_terminal:
            columns = shutil.get_terminal_size().columns
            stream.write(_CLEAR + f"{draw_bar(tally)} {printable(tally.in_words())}"[: columns - 1])
        else:
            stream.write(f"{printable(tally.in_words())}\n")
        stream.flush()

    try:
        yield tell
    finally:
        if on_terminal:
            stream.write(_CLEAR)
            stream.flush()


def draw_bar(tally: Tally) -> str:
    """Of its share."""
    filled = int(_BAR * tally.share)
    return f"[{'#' * filled}{'-' * (_BAR - filled)}]"
