"""The stored replays beside their plans, as docs/planning.md has them: a table of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.plans.like import run_like
from simulator.plans.reports import read_report
from tests.planning.comparing import compare
from tests.support.container import ROOT

REPLAYS = ROOT / "tests/unit/simulator/plans/replays"
HEAD = ("replay", "hits, %", "evictions", "cold p50, s", "cold p99, s", "warm p50, s")


def write_table() -> str:
    """Each cell: the replay's figure, and the plan's."""
    lines = [HEAD, ("---",) * len(HEAD), *map(write_row, sorted(REPLAYS.glob("*.json")))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_row(path: Path) -> tuple[str, ...]:
    """Of one stored report."""
    report = read_report(path)
    found = list(compare(report.whole, run_like(report, lambda share: None)))[:5]
    cells = (f"{one.real:.3g} · {one.planned:.3g}{_mark(one.near)}" for one in found)
    return (f"{path.stem}: {', '.join(_say(report.whole['settings']))}", *cells)


def _mark(near: bool | None) -> str:
    return " ✗" if near is False else ""


def _say(settings: Any) -> Iterator[str]:
    yield f"{settings['models']} models"
    yield f"Zipf {settings['zipf']:g}"
    yield f"{settings['rps']:g}/s"
    if settings["instances"] != 1:
        yield f"{settings['instances']} instances"
    for key in ("memory", "disk"):
        if settings.get(key):
            yield f"{key} {settings[key]}"
    if settings.get("cache"):
        yield f"cache {settings['cache']}"


if __name__ == "__main__":
    print(write_table(), end="")
