"""make plan-table: real replays on this machine, each beside the plan that is like it.

Each setting is replayed twice: the plan is calibrated by the first, and the second one tells how
far two replays of the same requests are apart on this machine, by whatever else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.tests.plan_accuracy.comparing import compare

#: What is replayed: models, memory, popularity, rate, instances, cache setting, disk.
SETTINGS = {
    "60 models, 1 GB": "--models 60 --zipf 1.0 --rps 20 --duration 30 --memory 1GB",
    "40 models, 700 MB": "--models 40 --zipf 0.8 --rps 8 --duration 40 --memory 700MB",
    "30 models, 512 MB": "--models 30 --zipf 1.2 --rps 30 --duration 30 --memory 512MB",
    "2 instances": "--models 80 --zipf 1.1 --rps 20 --duration 40 --memory 800MB --instances 2",
    "no cache": "--models 20 --zipf 1.0 --rps 4 --duration 30 --cache Disabled",
    "100 models, no limit": "--models 100 --zipf 0.9 --rps 25 --duration 40",
    "60 KB of disk": "--models 60 --zipf 1.0 --rps 10 --duration 40 --memory 700MB --disk 60KB",
    "flat, 800 MB": "--models 50 --zipf 0.6 --rps 6 --duration 40 --memory 800MB --seed 7",
}
_HEAD = ("setting", "figure", "replay", "again", "plan", "")


def main() -> int:
    """0 where all plans are near enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="for the reports and table.md")
    parser.add_argument("--only", action="append", choices=SETTINGS, help="settings to replay")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Sequence[str]] = []
    good = True
    for number, name in enumerate(options.only or SETTINGS):
        folder = options.out / f"{number + 1}"
        words = SETTINGS[name].split()
        real = replay(folder / "replay", words)
        again = replay(folder / "again", words)
        planned = plan(folder / "replay/report.json", folder / "plan.json")
        others = list(compare(again, planned))
        for one, other in zip(compare(real, planned), others, strict=True):
            said = {None: "", True: "near", False: "FAR"}[one.near]
            good &= one.near is not False
            figures = (f"{value:.3g}" for value in (one.real, other.real, one.planned))
            rows.append((name, one.name, *figures, said))
        print(f"{name}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    table = format_table(rows)
    (options.out / "table.md").write_text(table, "utf-8")
    print(table, end="")
    return 0 if good else 1


def replay(folder: Path, words: Sequence[str]) -> dict[str, Any]:
    """A real one; its report."""
    run("replay", *words, "--report", str(folder))
    found: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    return found


def plan(report: Path, to: Path) -> dict[str, Any]:
    """The plan that is like it, by the same keys."""
    run("plan", "--like", str(report), "--json", str(to))
    found: dict[str, Any] = json.loads(to.read_text("utf-8"))
    return found


def run(*words: str) -> None:
    """A command of the simulator; a replay whose answers failed is one that was measured, too."""
    done = subprocess.run(
        [sys.executable, "-m", "simulator", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        raise SystemExit(done.stderr)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """As Markdown."""
    lines = [_HEAD, ("---",) * len(_HEAD), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
