"""Random NVTabular workflows, compiled: their answers against NVTabular's own, bit for bit.

    .venv/bin/python -m tests.workflows --cases N --seed S [--operators A,B]... [--graph-json]
        [--keep DIR]
    .venv/bin/python -m tests.workflows --again CASE...

Every case that is answered otherwise is kept in DIR, and can be compiled and compared again; made
again it may be another, since what NVTabular fits depends on the order of sets. Exit code 0: there
is none.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.workflows.compiled import OPERATORS
from tests.workflows.exchange import VARIANTS
from tests.workflows.run import Killed, Result, again, results

_MOST_REASONS = 40


class Totals:
    """What is printed at the end."""

    def __init__(self) -> None:
        self.cases = self.compiled = self.partly = self.compared = self.not_made = 0
        self.parts: Counter[str] = Counter()
        self.parts_compared: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.bad = 0

    def add(self, result: Result) -> None:
        """One case more."""
        self.cases += 1
        self.compiled += result.compiled
        self.partly += bool(result.outcome.kept)
        self.compared += result.compared
        self.bad += bool(result.bad)
        self.requests += result.requests
        reasons = [result.outcome.refused] if result.outcome.refused else result.outcome.kept
        self.reasons.update({_without_names(reason) for reason in reasons})
        for part in (*result.outcome.operators, *result.outcome.variants):
            self.parts[part] += 1
            self.parts_compared[part] += result.compared

    def print(self) -> None:
        """The tables."""
        print(f"{self.cases:7}  cases, {self.not_made} more that NVTabular could not make")
        print(f"{self.compiled:7}  compiled, {self.partly} of them in part")
        print(f"{self.compared:7}  compared: one answer at least was equal")
        print(f"{self.bad:7}  answered otherwise, or crashed")
        print("\nrequests of compiled workflows")
        for outcome, count in self.requests.most_common():
            print(f"{count:7}  {outcome}")
        print("\ncases by what an answer depends on: compiled, compared")
        for part in (*OPERATORS, *VARIANTS):
            print(f"{self.parts[part]:7} {self.parts_compared[part]:7}  {part}")
        print("\nnot compiled")
        for reason, count in self.reasons.most_common(_MOST_REASONS):
            print(f"{count:7}  {reason}")


def _without_names(reason: str) -> str:
    """The reason without the columns and files that it names."""
    reason = re.sub(r"/\S+", "X", reason)
    reason = re.sub(r"'[^']*'(, '[^']*')*", "X", reason)
    return re.sub(r"\S+\.parquet", "X", reason)[:150]


def main(argv: list[str]) -> int:
    """Makes, compiles and compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument(
        "--operators",
        action="append",
        default=[],
        help="only these, with commas between them; several lists are taken in turn",
    )
    parser.add_argument(
        "--graph-json", action="store_true", help="each workflow as a pickle and as graph.json"
    )
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-workflows")
    parser.add_argument("--again", type=Path, nargs="+", help="directories of cases, not changed")
    arguments = parser.parse_args(argv)
    # A `timeout` or a stopped `make` must not leave processes behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = time.monotonic()
    totals = Totals()
    if arguments.again:
        _count(again([case.resolve() for case in arguments.again]), totals, None)
        totals.print()
        return 1 if totals.bad else 0
    seeds = range(arguments.seed, arguments.seed + arguments.cases)
    with tempfile.TemporaryDirectory(prefix="fuzz-workflows-") as made:
        try:
            parts = results(seeds, arguments.operators, Path(made), graph_json=arguments.graph_json)
            for part in parts:
                _count(part, totals, arguments.keep.resolve())
                done = totals.cases + totals.not_made
                elapsed = time.monotonic() - started
                print(f"[{done}/{len(seeds)}] {elapsed:.0f} s, {totals.bad} bad", file=sys.stderr)
        except Killed as ended:
            print(ended, file=sys.stderr)
            return 1
    print(f"seeds {seeds.start} to {seeds.stop - 1}, {time.monotonic() - started:.0f} s")
    totals.print()
    return 1 if totals.bad else 0


def _count(part: Sequence[Result | int], totals: Totals, keep: Path | None) -> None:
    """keep: where bad cases stay; None leaves all where they are."""
    for result in part:
        if isinstance(result, int):
            totals.not_made += 1
            continue
        totals.add(result)
        if result.bad:
            place = result.keep(keep) if keep else result.directory
            print(f"seed {result.seed}: {result.bad[0][:600]}\n  kept: {place}", flush=True)
        elif keep:
            shutil.rmtree(result.directory)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
