"""Times several plans over the same requests, in short turns: what else runs meets all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np

from ensemble_tools import ServingPlan
from ensemble_tools.answers.exchange import TensorRequest
from verification.reports.progress import Progress
from verification.reports.report import Timing
from verification.serving.asking import ask
from verification.serving.server import Server

#: Requests of each plan that count; those before them warm it up.
TIMED_REQUESTS, _TURNS, _WARM_UPS = 100, 10, 10


async def time_in_turns(
    server: Server,
    plans: Sequence[tuple[str, ServingPlan]],
    requests: Sequence[TensorRequest],
    progress: Progress,
) -> tuple[Timing, ...]:
    """Of each plan, with its title, in order. The requests are taken again and again.

    Raises Late, TritonLost.
    """
    taken: list[list[float]] = [[] for _ in plans]
    for _, plan in plans:
        await _ask_each(server, plan, _take(requests, 0, _WARM_UPS))
    of_turn = TIMED_REQUESTS // _TURNS
    for turn in range(_TURNS):
        for (title, plan), seconds in zip(plans, taken, strict=True):
            progress.tell(f"timing {title}, {turn + 1} of {_TURNS}")
            seconds += await _ask_each(server, plan, _take(requests, turn * of_turn, of_turn))
    return tuple(
        Timing(len(seconds), float(np.median(seconds)), float(np.quantile(seconds, 0.95)))
        for seconds in taken
    )


def _take(requests: Sequence[TensorRequest], start: int, count: int) -> list[TensorRequest]:
    return [*islice(cycle(requests), start, start + count)]


async def _ask_each(
    server: Server, plan: ServingPlan, requests: Sequence[TensorRequest]
) -> list[float]:
    seconds = []
    for request in requests:
        started = time.perf_counter()
        await ask(server, plan, request)
        seconds.append(time.perf_counter() - started)
    return seconds
