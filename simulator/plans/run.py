"""A plan from its settings to its answers. Here the rooms are joined; nothing is decided."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measuring.quantities import format_seconds, format_share
from simulator.plans.candidates.answers import Plan
from simulator.plans.candidates.trying import Advance, try_all
from simulator.plans.errors import UnusableFile, printable
from simulator.plans.like import run_like
from simulator.plans.reports import read_report
from simulator.plans.settings.settings import PlanSettings
from simulator.plans.table import write_plan
from simulator.plans.traffic.making import make_traffic

FORMAT = 1


def plan_like(path: Path, json_path: Path | None) -> None:
    """A replay once more. Raises PlanError."""
    report = read_report(path)
    with showing() as advance:
        answer = run_like(report, lambda share: advance("the replay once more", share))
    if json_path is not None:
        _write(json_path, answer)
    latency = answer["latency_s"]
    for kind in ("warm", "cold"):
        if latency[kind]["count"]:
            p50, p99 = (format_seconds(latency[kind][key] or 0.0) for key in ("p50", "p99"))
            print(f"{kind}: {latency[kind]['count']} requests, p50 {p50}, p99 {p99}")
    ratio = answer["hit_ratio"]
    shown = "-" if ratio is None else format_share(ratio)
    print(f"hit ratio {shown}, {answer['loading']['evictions']} evictions")


def plan(settings: PlanSettings, json_path: Path | None) -> bool:
    """Whether a candidate meets the goals; all of it is printed. Raises PlanError."""
    traffic = make_traffic(settings)
    with showing() as advance:
        found = try_all(settings, traffic, advance)
    print(printable(write_plan(found)), end="")
    if json_path is not None:
        _write(json_path, as_json(found))
    return found.best is not None


def as_json(found: Plan) -> dict[str, Any]:
    """The whole tree; `format` changes when a field changes its meaning."""
    return {"format": FORMAT, **asdict(found)}


@contextmanager
def showing() -> Iterator[Advance]:
    """How far it is, on stderr: one line on a terminal, else one for each thing that is tried."""
    on_terminal = sys.stderr.isatty()
    told = ""

    def advance(what: str, share: float) -> None:
        nonlocal told
        if on_terminal:
            # Carriage return, the text, and nothing of the line before it (ANSI: erase to the end).
            sys.stderr.write(f"\r{what}: {share:.0%}\x1b[K")
            sys.stderr.flush()
        elif what != told:
            print(what, file=sys.stderr, flush=True)
        told = what

    try:
        yield advance
    finally:
        if on_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _write(path: Path, answer: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(answer, indent=1, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise UnusableFile(
            path, f"cannot be written ({error.strerror}); name another with --json"
        ) from error
