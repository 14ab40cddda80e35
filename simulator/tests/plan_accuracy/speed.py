"""make plan-speed: how long a plan takes, over requests and over misses, and in what memory.

10,000 models on 200 instances for a day, from 10^4 to 10^9 requests, with room for all models, for
nine tenths and for half of them. Each is a process of its own. Where the next step would have more
misses than --misses, a row ends: requests that hit are not gone through, misses are, one by one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from merlin_simulator.measuring.page import write_picture
from merlin_simulator.measuring.plots import Frame, Series, draw_points
from merlin_simulator.measuring.quantities import format_seconds, format_share
from merlin_simulator.replay.load import zipf_shares
from merlin_simulator.rules import Rules
from merlin_simulator.simulation.demand import PoissonDemand
from merlin_simulator.simulation.run import simulate
from merlin_simulator.simulation.scenario import Scenario
from simulator.tests.support.simulated import archives, instance_spec

MODELS, INSTANCES, ZIPF, DAY_S = 10_000, 200, 0.9, 86400.0
#: Models that one instance has room for, and what that is.
CAPACITIES = {60: "room for all", 45: "for nine tenths", 25: "for half"}
POWERS = range(4, 10)
MISSES = 300_000


@dataclass(frozen=True)
class Run:
    """One plan. seconds: of one core. peak: bytes of its process."""

    capacity: int
    asked: int
    requests: int
    misses: int
    seconds: float
    elapsed: float
    peak: int

    @property
    def hit_ratio(self) -> float:
        """Of all requests."""
        return 1.0 - self.misses / max(1, self.requests)


def main() -> None:
    """Plans, and writes speed.md and both plots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="for speed.md and the plots")
    parser.add_argument("--misses", type=float, default=MISSES, help=f"default: {MISSES:,}")
    parser.add_argument("--most", type=float, default=1e9, help="requests, at most (1e9)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = list(run_all(options.most, options.misses))
    table = format_table(runs)
    (options.out / "speed.md").write_text(table, "utf-8")
    for name, svg in (("requests", draw(runs, "requests")), ("misses", draw(runs, "misses"))):
        (options.out / f"plan-speed-{name}.svg").write_text(write_picture(svg), "utf-8")
    print(table, end="")


def run_all(most: float, misses: float) -> Iterator[Run]:
    """From few requests to many, row by row."""
    for capacity in CAPACITIES:
        expected = 0.0
        for asked in (10**power for power in POWERS if 10**power <= most):
            if expected > misses:
                break
            # A process of its own: the peak is that of nobody else.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                run = pool.apply(plan, (capacity, asked))
            print(f"{run}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
            expected = 10.0 * run.misses if run.misses > 2 * MODELS else 0.0
            yield run


def plan(capacity: int, asked: int) -> Run:
    """One of them, in this process."""
    figures = archives(MODELS, load_s=0.3, unload_s=0.05, download_s=0.1)
    demand = PoissonDemand(zipf_shares(MODELS, ZIPF), asked / DAY_S, DAY_S, 1)
    scenario = Scenario(demand, figures, instance_spec(capacity), Rules(loads_at_once=8), INSTANCES)
    began, used = time.perf_counter(), time.process_time()
    outcome = simulate(scenario)
    return Run(
        capacity,
        asked,
        outcome.requests,
        outcome.counts.cold,
        time.process_time() - used,
        time.perf_counter() - began,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def draw(runs: Sequence[Run], across: str) -> str:
    """Seconds over one of both counts, each capacity a row of points."""
    series = [
        Series(
            caption,
            [getattr(run, across) for run in runs if run.capacity == capacity],
            [run.seconds for run in runs if run.capacity == capacity],
            colour,
            dashes=1,
        )
        for colour, (capacity, caption) in enumerate(CAPACITIES.items(), 1)
    ]
    frame = Frame(f"Seconds of a plan over its {across}", across, "seconds of one core")
    return draw_points(frame, series, scale="loglog")


def format_table(runs: Sequence[Run]) -> str:
    """As Markdown."""
    head = ("room", "requests", "hits", "misses", "one core", "peak memory")
    rows = [
        (
            CAPACITIES[run.capacity],
            f"{run.requests:,}",
            format_share(run.hit_ratio),
            f"{run.misses:,}",
            format_seconds(run.seconds),
            f"{run.peak / 1e6:.0f} MB",
        )
        for run in runs
    ]
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
