"""The stored replays beside their plans, as docs/planning.md has those of IDLE: a table.

IDLE: a machine that did nothing else, each setting replayed twice. BUSY: one that others used, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from merlin_simulator.plan_command.baseline import simulate_replay
from merlin_simulator.plan_command.replay_report import StoredReport, parse_report, read_report
from simulator.tests.plan_accuracy.comparing import Compared, compare
from tests.support.container import ROOT

REPLAYS = ROOT / "simulator/tests/unit/plan_command/replays"
BUSY = sorted((REPLAYS / "busy").glob("*.json"))
AGAIN = "-again"
IDLE = [path for path in sorted((REPLAYS / "idle").glob("*.json")) if AGAIN not in path.stem]
IDLE_AGAIN = [path.with_stem(path.stem + AGAIN) for path in IDLE]
#: Whose figures all others are planned with once more.
ONE = REPLAYS / "idle/one-gigabyte.json"
HEAD = ("replay", "hits, %", "evictions", "cold p50, s", "cold p99, s", "warm p50, s")
_SHOWN = len(HEAD) - 1


def write_table() -> str:
    """The idle machine's, as the page has it."""
    lines = (HEAD, ("---",) * len(HEAD), *map(write_idle_row, IDLE))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_idle_row(path: Path) -> tuple[str, ...]:
    """Each cell: both replays; the plan with the first one's figures, and with those of ONE."""
    report, again = read_report(path), read_report(path.with_stem(path.stem + AGAIN))
    one = planned_beside(path)
    other = planned_beside(path, ONE)
    second = list(compare(again.whole, again.whole))[:_SHOWN]
    cells = (
        f"{first.real:.3g}, {repeated.real:.3g} · {_show(own)}, {_show(elsewhere)}"
        for first, repeated, own, elsewhere in zip(one, second, one, other, strict=True)
    )
    return (_name(path, report), *cells)


def planned_beside(path: Path, figures: Path | None = None) -> list[Compared]:
    """The replay, and the plan that is like it; by its own figures, or by those of another one."""
    return list(compare(read_report(path).whole, planned(path, figures)))[:_SHOWN]


@cache
def planned(path: Path, figures: Path | None = None) -> Any:
    """The plan that is like a replay, as JSON has it, made once; figures: see planned_beside."""
    report = read_report(path)
    whole = report if figures is None else _with_figures(report, read_report(figures))
    return simulate_replay(whole, lambda share: None)


def _with_figures(report: StoredReport, figures: StoredReport) -> StoredReport:
    """What was asked is the report's; which load took how long, no other replay can say."""
    calibration = figures.whole["calibration"]
    kinds = [{**kind, "load_work_in_order_s": None} for kind in calibration["kinds"]]
    whole = {**report.whole, "calibration": {**calibration, "kinds": kinds}}
    return parse_report(report.path, whole)


def _name(path: Path, report: StoredReport) -> str:
    return f"{path.stem}: {', '.join(_say(report.whole['settings']))}"


def _show(one: Compared) -> str:
    return f"{one.planned:.3g}" + (" ✗" if one.near is False else "")


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
