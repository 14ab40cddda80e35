"""How a replay goes, on stderr."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from merlin_simulator.measuring.quantities import format_seconds, format_share, format_size
from merlin_simulator.replay.arithmetic import count_loaded, percentile
from merlin_simulator.replay.load import Load
from merlin_simulator.replay.observing import Observer

#: Between two lines.
ON_TERMINAL_S, ELSEWHERE_S = 0.5, 10.0
#: The newest latencies that the line's p50 is of.
_RECENT = 200


@dataclass(frozen=True)
class Standing:
    """What one line says. memory is the sum over the instances, None where it cannot be seen."""

    elapsed: float
    duration: float
    sent: int
    in_flight: int
    hit_ratio: float | None
    p50: float | None
    failures: int
    not_sent: int
    loaded: int
    memory: int | None


def read_standing(load: Load, observer: Observer, duration: float) -> Standing:
    """As it is now."""
    recent = sorted(sample.latency for sample in load.samples[-_RECENT:])
    instances = observer.looks[-1].state["instances"] if observer.looks else ()
    return Standing(
        load.elapsed,
        duration,
        sent=load.planned - len(load.not_sent),
        in_flight=load.in_flight,
        hit_ratio=observer.hits / observer.asked if observer.asked else None,
        p50=percentile(recent, 50) if recent else None,
        failures=sum(sample.error is not None for sample in load.samples),
        not_sent=len(load.not_sent),
        loaded=count_loaded(instances),
        memory=_memory(instances),
    )


def format_standing(now: Standing) -> str:
    """The standing in words."""
    parts = [
        *(_sending(now) if now.elapsed < now.duration else _waiting(now)),
        f"hits {'-' if now.hit_ratio is None else format_share(now.hit_ratio)}",
        f"p50 {'-' if now.p50 is None else format_seconds(now.p50)}",
        f"{now.failures} failed" + (f", {now.not_sent} not sent" if now.not_sent else ""),
        f"{now.loaded} loaded" + ("" if now.memory is None else f", {format_size(now.memory)}"),
    ]
    return " · ".join(parts)


def _sending(now: Standing) -> list[str]:
    rate = now.sent / max(now.elapsed, 1e-9)
    return [
        f"{now.elapsed:.0f}/{now.duration:g} s",
        f"{now.sent} sent ({rate:.0f}/s, {now.in_flight} waiting)",
    ]


def _waiting(now: Standing) -> list[str]:
    """The time for sending is over: only answers are awaited."""
    answers = "answer" if now.in_flight == 1 else "answers"
    return [f"{now.sent} sent", f"waiting for {now.in_flight} {answers}"]


async def show(load: Load, observer: Observer, duration: float, out: TextIO = sys.stderr) -> None:
    """Lines until it is cancelled."""
    on_terminal = out.isatty()
    try:
        while True:
            await asyncio.sleep(ON_TERMINAL_S if on_terminal else ELSEWHERE_S)
            text = format_standing(read_standing(load, observer, duration))
            # Carriage return, the text, and nothing of the line before it (ANSI: erase to the end).
            out.write(f"\r{text}\x1b[K" if on_terminal else f"{text}\n")
            out.flush()
    finally:
        if on_terminal:
            out.write("\r\x1b[K")
            out.flush()


def _memory(instances: Sequence[Mapping[str, Any]]) -> int | None:
    readings = [instance["memory_used"] for instance in instances]
    seen = [reading for reading in readings if reading is not None]
    return sum(seen) if seen else None
