"""Whether the container can serve nobody any more, and does not heal. No I/O.

A yes costs every model that is loaded: the platform takes the container out of service, and in the
end replaces it. So whatever tells that somebody can be served speaks against it:

1. Nothing failed: it is well. A model that is given up since its archive cannot be loaded any more
   is no failure: that says nothing of the container.
2. A reload failed for a reason of the container's own (no memory, descriptors, threads, a
   tritonserver that does not answer): it may heal, and callers have been told (507, 503).
3. Reloads fail, and so did one that ended `after_s` before the last one: it is sick.
4. Something went well between two failures, or since: a load, a reload, or an invocation that was
   answered with 200. It is well at once, and what fails later begins anew.
5. A loaded model is not known to be lost: it can be served, whatever becomes of the others. Idle
   ones count, too: a tenant whose model fails again and again takes nobody else's away. So does a
   model that is loaded again for the first time, which may be back in a moment.
6. No model is loaded: there is nobody to be served, and the next load may go well.
7. The last failure is longer ago than `after_s`: nobody asks any more, or the platform sends
   nobody. It is well, so that it is tried again; what fails after such a pause begins anew. So a
   lone failure of a model that nobody asks for again makes no idle container sick, nor do two.
8. Reloads that fail slowly, as by a time limit, may take longer than `after_s`: what begins anew
   is decided by the pause from the end of a failure to the beginning of the next reload.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Health:
    """Judges the container by its reloads. Times in seconds.

    went_well: how many loads, reloads and invocations went well so far; it is looked at whenever a
    reload has failed, and whenever somebody asks. may_serve: whether some loaded model is not known
    to be lost, or none is loaded.
    """

    def __init__(
        self,
        after_s: float,
        went_well: Callable[[], int],
        may_serve: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._after_s, self._clock = after_s, clock
        self._went_well, self._may_serve = went_well, may_serve
        self._seen_well = 0
        #: When the first and the last reload ended of those that failed in a row.
        self._first: float | None = None
        self._last, self._why = 0.0, ""

    def begin(self) -> None:
        """A model that was lost begins to be loaded again."""
        if self._has_paused():  # 7, 8
            self._first = None

    def failed(self, why: str) -> None:
        """That has failed for a reason of the container's own; why: a sentence for people."""
        self._look_for_proof()
        if self._may_serve():
            return
        self._last, self._why = self._clock(), why
        if self._first is None:
            self._first = self._last

    def trouble(self) -> str | None:
        """Why nobody can be served, in a sentence; None while somebody can, or it may heal."""
        self._look_for_proof()
        if self._first is None or self._has_paused():  # 1, 4 to 7
            return None
        lasted = self._last - self._first
        if lasted < self._after_s:  # 2
            return None
        return f"for {lasted:.0f} s no model that was lost could be loaded again: {self._why}"  # 3

    def _look_for_proof(self) -> None:
        """Forget what failed if somebody was served since, or can be: 4, 5, 6."""
        before, self._seen_well = self._seen_well, self._went_well()
        if self._seen_well != before or self._may_serve():
            self._first = None

    def _has_paused(self) -> bool:
        return self._clock() - self._last > self._after_s
