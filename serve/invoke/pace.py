"""How fast JSON is translated here, and so how long it is worth waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds that tritonserver takes to read a byte of JSON, on one of its threads (decision 14).
TRITON_S_PER_BYTE = 7e-9
#: Of what is known, the share that the last one has.
_SHARE = 0.3
#: What was slow is tried again so often, in seconds.
_AGAIN_S = 1.0


class Pace:
    """Of the last requests; fast as long as nothing is known."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._s_per_byte, self._tried = clock, 0.0, float("-inf")

    def tell(self, size: int, seconds: float) -> None:
        """One of so many bytes took so long."""
        self._s_per_byte += _SHARE * (seconds / size - self._s_per_byte)

    def estimate_worth_s(self, size: int) -> float | None:
        """How long one of so many bytes may wait for its turn: what tritonserver would take longer.

        None where tritonserver is faster; once a second it is tried all the same.
        """
        gain_s = (TRITON_S_PER_BYTE - self._s_per_byte) * size
        if gain_s > 0:
            return gain_s
        if self._clock() - self._tried < _AGAIN_S:
            return None
        self._tried = self._clock()
        return 0.0
