"""What people see: lines of text, amounts in a few characters, progress."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TextIO

from ensemble_tools.shipping import printable

Say = Callable[[str], None]
#: Is told what is done so far, in a line, and its share of the whole from 0 to 1.
Tell = Callable[[str, float], None]
Progress = Callable[[], AbstractContextManager[Tell]]

_BLOCKS = "▁▂▃▄▅▆▇█"
#: A line has room for so many blocks.
_MOST_BLOCKS = 60
_SIZES = ("bytes", "kB", "MB", "GB", "TB")
_DURATIONS = (("d", 86_400), ("h", 3600), ("min", 60))
#: Seconds between two drawings of the bar on a terminal, and between two lines elsewhere.
_DRAWN_EVERY_S, _LINE_EVERY_S = 0.1, 5.0


def say(line: str) -> None:
    """Print a line at once. Control characters in it are shown as escapes."""
    _print(line, sys.stdout)


def say_beside(line: str) -> None:
    """Print a line on stderr, as `say` does on stdout, which has the answer alone."""
    _print(line, sys.stderr)


def _print(line: str, stream: TextIO) -> None:
    # tqdm, once it is imported, moves its bar out of the line's way.
    write = sys.modules["tqdm"].tqdm.write if "tqdm" in sys.modules else print
    write(printable(line), file=stream)
    stream.flush()


def show_bytes(count: int) -> str:
    """An amount in powers of 1000, as S3 and ECR are billed: 8.8 MB."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_SIZES) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{_show_digits(amount)} {_SIZES[unit]}"


def show_count(count: int) -> str:
    """A number with commas: 1,234."""
    return f"{count:,}"


def show_ms(milliseconds: float) -> str:
    """A time in ms, from one second on in s."""
    if milliseconds < 1000:
        return f"{_show_digits(milliseconds)} ms"
    return f"{_show_digits(milliseconds / 1000)} s"


def show_duration(seconds: float) -> str:
    """A time in its largest unit: 3 d."""
    for unit, length in _DURATIONS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def sparkline(values: Sequence[int]) -> str:
    """A block for each value, the highest for the largest; neighbours are added up to fit a line.

    Only 0 is drawn as 0.
    """
    width = -(-len(values) // _MOST_BLOCKS) or 1
    sums = [sum(values[start : start + width]) for start in range(0, len(values), width)]
    largest = max(sums, default=0)
    if not largest:
        return _BLOCKS[0] * len(sums)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-value * steps // largest)] for value in sums)


def _show_digits(number: float) -> str:
    """Three digits, or all of those before the point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def tell_bytes(tell: Tell, what: str, done: int, total: int) -> None:
    """what: is done with which bytes."""
    share = min(1.0, done / total) if total else 1.0
    tell(f"{what}: {show_bytes(done)} of {show_bytes(total)}", share)


@contextmanager
def progress_on(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """A bar on a terminal, which is gone at the end; elsewhere a line every few seconds."""
    if stream.isatty():
        show_on, every, last = _show_bar, _DRAWN_EVERY_S, float("-inf")
    else:
        show_on, every, last = _show_lines, _LINE_EVERY_S, clock()
    with show_on(stream) as show:

        def tell(line: str, share: float) -> None:
            nonlocal last
            if clock() - last >= every:
                last = clock()
                show(printable(line), share)

        yield tell


@contextmanager
def _show_lines(stream: TextIO) -> Iterator[Tell]:
    yield lambda line, _: print(line, file=stream, flush=True)


@contextmanager
def _show_bar(stream: TextIO) -> Iterator[Tell]:
    from tqdm import tqdm  # only people at a terminal pay for its import

    # Its size is given, so that tqdm draws on a terminal that does not tell its own.
    shape = "[{bar:24}] {desc}"
    with tqdm(
        total=1.0, file=stream, leave=False, ascii="-#", bar_format=shape, ncols=80, nrows=20
    ) as bar:

        def show(line: str, share: float) -> None:
            bar.ncols = shutil.get_terminal_size().columns - 1
            bar.n = share
            bar.set_description_str(line)

        yield show
