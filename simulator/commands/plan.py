"""python -m simulator plan: how many instances of which type, before they are paid for."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from simulator.interrupts import leaving_at_once

_GOOD, _NOT_GOOD = 0, 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The subcommand `plan`; options.run(options) does it and returns the exit code."""
    parser = subparsers.add_parser(
        "plan",
        help="reckon what an endpoint would do, without starting it",
        description=__doc__,
    )
    parser.add_argument(
        "--like",
        type=Path,
        metavar="FILE",
        required=True,
        help="a replay's report.json: its requests go to its endpoint once more, reckoned with "
        "the figures that it saw",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="what came of it, by the keys of report.json"
    )
    parser.set_defaults(run=run, error=parser.error)


def run(options: argparse.Namespace) -> int:
    """The plan that the options ask for; what keeps it from being made is said on stderr."""
    with leaving_at_once():
        from simulator.plans.errors import PlanError
        from simulator.plans.like import run_like
        from simulator.plans.reports import read_report
    try:
        answer = run_like(read_report(options.like), lambda share: None)
        if options.json:
            options.json.write_text(json.dumps(answer, indent=1) + "\n", "utf-8")
    except (PlanError, OSError) as error:
        print(f"plan: {error}", file=sys.stderr)
        return _NOT_GOOD
    return _GOOD
