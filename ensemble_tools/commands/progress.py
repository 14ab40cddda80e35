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


def human_size(size: int) -> str:
    """Bytes for people: 1234567 -> 1.2 MB."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
