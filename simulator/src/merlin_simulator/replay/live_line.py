"""How a replay goes, on stderr."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from merlin_simulator.measuring.quantities import format_seconds, format_share, format_size
from merlin_simulator.replay.arithmetic import percentile
from merlin_simulator.replay.load import Load
from merlin_simulator.replay.observing import Observer

#: Between two lines.
ON_TERMINAL_S, ELSEWHERE_S = 0.5, 10.0
#: The newest latencies that the line's p50 is of.
_RECENT = 200


def format_line(load: Load, observer: Observer, duration: float) -> str:
    """How it goes now; once the time for sending is over, only answers are awaited."""
    sent, elapsed = load.planned - len(load.not_sent), load.elapsed
    if elapsed < duration:
        rate = sent / max(elapsed, 1e-9)
        parts = [
            f"{elapsed:.0f}/{duration:.0f} s",
            f"{sent} sent ({rate:.0f}/s, {load.in_flight} waiting)",
        ]
    else:
        answers = "answer" if load.in_flight == 1 else "answers"
        parts = [f"{sent} sent", f"waiting for {load.in_flight} {answers}"]
    recent = sorted(sample.latency for sample in load.samples[-_RECENT:])
    failures = sum(sample.error is not None for sample in load.samples)
    parts += [
        f"hits {format_share(observer.hits / observer.asked) if observer.asked else '-'}",
        f"p50 {format_seconds(percentile(recent, 50)) if recent else '-'}",
        f"{failures} failed" + (f", {len(load.not_sent)} not sent" if load.not_sent else ""),
        _describe_models(observer.looks[-1].state["instances"] if observer.looks else ()),
    ]
    return " · ".join(parts)


def _describe_models(instances: Sequence[Mapping[str, Any]]) -> str:
    """How many are loaded, and the memory of those instances whose memory can be seen."""
    models = (model for instance in instances for model in instance["models"])
    loaded = sum(model["state"] == "loaded" for model in models)
    memory = sum(instance["memory_used"] or 0 for instance in instances)
    return f"{loaded} loaded" + (f", {format_size(memory)}" if memory else "")


async def show(load: Load, observer: Observer, duration: float, out: TextIO = sys.stderr) -> None:
    """Lines until it is cancelled."""
    on_terminal = out.isatty()
    try:
        while True:
            await asyncio.sleep(ON_TERMINAL_S if on_terminal else ELSEWHERE_S)
            text = format_line(load, observer, duration)
            # Carriage return, the text, and nothing of the line before it (ANSI: erase to the end).
            out.write(f"\r{text}\x1b[K" if on_terminal else f"{text}\n")
            out.flush()
    finally:
        if on_terminal:
            out.write("\r\x1b[K")
            out.flush()
