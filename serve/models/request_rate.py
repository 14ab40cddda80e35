"""How often a model may be asked (SERVE_RATE_LIMIT). Synchronous; a number for each model.

A model that is asked at the highest rate there may be has its requests due at even intervals. A
request may come up to a second before it is due, less one interval: so a second's worth may come at
once, and never more than two in any second (the generic cell rate algorithm, GCRA). A model that
may be asked less than once a second has no such second: its requests come when they are due.

The number is the model's own. Loading its Triton models again (RELOADING) does not change it, or
one who floods a model until it dies would be let in again. An unload forgets it: only the platform
unloads, and a load anew takes about as long as a second's worth takes to come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from serve.errors import AskedTooOften, ModelNotLoaded
from serve.models.registry import Registry
from serve.models.request_queue import Overloads

#: Times are whole nanoseconds: floats would round against a caller who keeps to the rate.
_SECOND = 1_000_000_000
#: What such requests are answered with, for the log.
_STATUS = 429


class RequestRate:
    """most_a_second: requests of one model; a RateLimit, where the message names its setting."""

    def __init__(
        self,
        registry: Registry,
        most_a_second: float,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._registry, self._most_a_second, self._clock = registry, most_a_second, clock
        self._interval = int(_SECOND / most_a_second)
        self._early = max(0, _SECOND - self._interval)
        self._refusals = Overloads(_STATUS)

    def count(self, name: str) -> AskedTooOften | None:
        """The model is asked once more; the error to answer with where that is too often.

        What is refused does not count. A model that is not loaded has no rate.
        """
        try:
            model = self._registry.loaded(name)
        except ModelNotLoaded:  # answered with 404 in its turn
            return None
        now = self._clock()
        wait = model.due - self._early - now
        if wait > 0:
            error = AskedTooOften(name, self._most_a_second, wait / _SECOND)
            self._refusals.count(error)
            return error
        model.due = max(model.due, now) + self._interval
        return None
