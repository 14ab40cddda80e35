"""What is counted outside of the container's server, for its metrics. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OutsideCounts:
    """Each is asked whenever a page is made, and only ever grows.

    dropped_lines: how many lines of the log nobody could be given. interpreter_starts: how often
    each library's warm interpreter was started; empty where there are none.
    """

    dropped_lines: Callable[[], int] = lambda: 0
    interpreter_starts: Callable[[], Mapping[str, int]] = dict
