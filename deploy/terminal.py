"""What people see: lines of text, amounts in a few characters, progress."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO

from ensemble_tools.commands.progress import human_size
from ensemble_tools.errors import printable

Say = Callable[[str], None]

_BLOCKS = "▁▂▃▄▅▆▇█"
#: A line has room for so many blocks.
_MOST_BLOCKS = 60
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))


def say(line: str) -> None:
    """Print a line at once; whoever wrote it, it is shown as text."""
    print(printable(line), flush=True)


def say_beside(line: str) -> None:
    """As say, on stderr: stdout has an answer alone."""
    print(printable(line), file=sys.stderr, flush=True)


def show_bytes(count: int) -> str:
    """In powers of 1000, as S3 and ECR are billed: 8.8 MB."""
    return human_size(count)


def show_count(count: int) -> str:
    """With commas."""
    return f"{count:,}"


def show_ms(milliseconds: float) -> str:
    """In ms, from a second on in s."""
    if milliseconds < 1000:
        return f"{_three_digits(milliseconds)} ms"
    return f"{_three_digits(milliseconds / 1000)} s"


def show_duration(seconds: float) -> str:
    """In its largest unit: 3 d."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def sparkline(values: Sequence[int]) -> str:
    """A block for each value, the highest for the largest; neighbours are added up to fit a line.

    A value that is not 0 is never drawn as 0.
    """
    width = -(-len(values) // _MOST_BLOCKS) or 1
    sums = [sum(values[start : start + width]) for start in range(0, len(values), width)]
    most = max(sums, default=0)
    if not most:
        return _BLOCKS[0] * len(sums)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-one * steps // most)] for one in sums)


def _three_digits(number: float) -> str:
    """Or all of those before the point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


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
