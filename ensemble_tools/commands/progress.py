"""A progress bar on a terminal, nothing anywhere else, nor where tqdm is not installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from ensemble_tools.packing.writing import Advance


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
    """A function that is told of bytes done, out of total; the bar is on stderr."""
    if not sys.stderr.isatty() or find_spec("tqdm") is None:
        yield lambda count: None
        return
    from tqdm import tqdm  # only people at a terminal pay for its import

    with tqdm(total=total, desc=title, unit="B", unit_scale=True, leave=False) as bar:
        yield bar.update


def format_size(size: int) -> str:
    """Bytes for people, in powers of 1000, as S3 is billed: 1234567 -> 1.23 MB."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{_round_digits(amount)} {unit}"
        amount /= 1000
    return f"{_round_digits(amount)} TB"


def _round_digits(number: float) -> str:
    """Or all of those before the point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"
