"""Lines that the log dropped, and starts of interpreters, for the metrics page. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OutsideCounts:
    """Counts of other parts of the container, which the page reads and which only ever grow."""

    #: Lines of the log that could be given to nobody.
    dropped_lines: Callable[[], int] = lambda: 0
    #: How often each library's warm interpreter was started; empty where there are none.
    interpreter_starts: Callable[[], Mapping[str, int]] = dict
