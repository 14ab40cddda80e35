"""The line of the command: settings, traffic, candidates, answers, and what is written."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from merlin_simulator.measuring.page import write_picture
from merlin_simulator.measuring.quantities import format_seconds, format_share
from merlin_simulator.plan_command.answers import Plan
from merlin_simulator.plan_command.baseline import simulate_replay
from merlin_simulator.plan_command.candidates import Advance, evaluate_all
from merlin_simulator.plan_command.files import (
    check_output_path,
    make_folder,
    printable,
    write_json,
    write_text,
)
from merlin_simulator.plan_command.replay_report import read_report
from merlin_simulator.plan_command.settings import PlanSettings
from merlin_simulator.plan_command.table import write_plan
from merlin_simulator.plan_command.traffic import make_traffic

FORMAT = 2


def print_simulated_replay(path: Path, json_path: Path | None) -> None:
    """Simulate a replay once more, and print its figures. Raises PlanError."""
    if json_path is not None:
        check_output_path(json_path)
    report = read_report(path)
    with show_progress() as advance:
        answer = simulate_replay(report, lambda share: advance("the replay once more", share))
    if json_path is not None:
        write_json(json_path, answer)
    latency = answer["latency_s"]
    for kind in ("warm", "cold"):
        if latency[kind]["count"]:
            p50, p99 = (format_seconds(latency[kind][key] or 0.0) for key in ("p50", "p99"))
            print(f"{kind}: {latency[kind]['count']} requests, p50 {p50}, p99 {p99}")
    ratio = answer["hit_ratio"]
    shown = "-" if ratio is None else format_share(ratio)
    print(f"hit ratio {shown}, {answer['loading']['evictions']} evictions")


def print_plan(settings: PlanSettings, json_path: Path | None, report: Path | None = None) -> bool:
    """Print the plan; return whether a candidate meets the goals. Raises PlanError.

    report: a folder for report.json and trade-off.svg.
    """
    if json_path is not None:
        check_output_path(json_path)
    if report is not None:
        make_folder(report)
    traffic = make_traffic(settings)
    with show_progress() as advance:
        answer_plan = evaluate_all(settings, traffic, advance)
    print(printable(write_plan(answer_plan)), end="")
    if json_path is not None:
        write_json(json_path, as_json(answer_plan))
    if report is not None:
        write_report(report, answer_plan)
    return answer_plan.best is not None


def as_json(answer_plan: Plan) -> dict[str, Any]:
    """The whole tree; `format` changes when a field changes its meaning."""
    return {"format": FORMAT, **asdict(answer_plan)}


def write_report(folder: Path, answer_plan: Plan) -> None:
    """Into a folder that is there. Raises UnusableFile."""
    # Only here: matplotlib takes a second to import.
    from merlin_simulator.plan_command.picture import draw_trade_off

    write_json(folder / "report.json", as_json(answer_plan))
    write_text(folder / "trade-off.svg", write_picture(draw_trade_off(answer_plan)))
    print(f"report: {folder / 'trade-off.svg'}")


@contextmanager
def show_progress() -> Iterator[Advance]:
    """Show progress on stderr: in one line on a terminal, else a line for each candidate."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    last_told = ""

    def advance(subject: str, share: float) -> None:
        nonlocal last_told
        if on_terminal:
            # Carriage return, the text, and nothing of the line before it (ANSI: erase to the end).
            _say(f"\r{subject}: {share:.0%}\x1b[K")
        elif subject != last_told:
            _say(f"{subject}\n")
        last_told = subject

    try:
        yield advance
    finally:
        if on_terminal:
            _say("\r\x1b[K")


def _say(progress: str) -> None:
    """Write to stderr; if that is closed or full, there is a plan without progress."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(progress)
        sys.stderr.flush()
    except OSError:
        # Nor does the interpreter's end fail for what is left in it.
        sys.stderr = io.StringIO()
