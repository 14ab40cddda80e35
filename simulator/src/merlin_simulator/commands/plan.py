"""python -m simulator plan: how many instances of which type, before they are paid for."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from merlin_simulator.commands import arguments
from merlin_simulator.interrupts import leaving_at_once

if TYPE_CHECKING:
    from merlin_simulator.plan_command.settings import PlanSettings

_EPILOG = """\
PLAN.toml says what is asked ([demand]), of which archives ([[archives]]), and what may be rented
([instances]); an option goes above what stands there. Archives' figures come from a replay's
report.json, or are given by hand.
simulator/docs/planning.md has every key and every column.

Exit code: 0 when a candidate meets the goals, 1 when none does or the plan cannot be made, 2 for a
wrong command line.
"""
_GOOD, _NOT_GOOD = 0, 1
_SEED = arguments.make_reader(
    arguments.digits, "a whole number from 0, of at most 18 digits", lambda seed: 0 <= seed < 10**18
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The subcommand `plan`; options.run(options) does it and returns the exit code."""
    parser = subparsers.add_parser(
        "plan",
        help="reckon what an endpoint would do, without starting it",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "plan",
        nargs="?",
        type=Path,
        metavar="PLAN.toml",
        help="what is asked, of which archives, and what may be rented",
    )
    parser.add_argument(
        "--like",
        type=Path,
        metavar="FILE",
        help="in place of PLAN.toml a replay's report.json: its requests go to its endpoint once "
        "more, reckoned with the figures that it saw; --json then has the report's own keys",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="for all answers, as JSON")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="for report.json and trade-off.svg, the picture of all candidates",
    )
    _add_overrides(parser.add_argument_group("above what PLAN.toml says"))
    parser.set_defaults(run=run, error=parser.error)


def run(options: argparse.Namespace) -> int:
    """The plan that the options ask for; what keeps it from being made is said on stderr."""
    if (options.plan is None) == (options.like is None):
        options.error("expected PLAN.toml or --like, one of the two")
    if options.like is not None and options.report is not None:
        options.error("--report is of PLAN.toml's candidates; with --like take --json")
    with leaving_at_once():
        # The other commands need not wait for its libraries.
        from merlin_simulator.plan_command.files import PlanError, printable
        from merlin_simulator.plan_command.plan_toml import read_settings
        from merlin_simulator.plan_command.run import print_plan, print_simulated_replay
    try:
        if options.like is not None:
            print_simulated_replay(options.like, options.json)
            return _GOOD
        settings = _override(read_settings(options.plan), options)
        return _GOOD if print_plan(settings, options.json, options.report) else _NOT_GOOD
    except (PlanError, OSError) as error:
        print(printable(f"plan: {error}"), file=sys.stderr)
        return _NOT_GOOD


def _add_overrides(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--instance",
        action="append",
        metavar="TYPE",
        help="an instance type, as ml.g4dn.xlarge; may be repeated",
    )
    counts = "how many instances: 1,2,4 or 1-4, without autoscaling"
    add("--counts", type=_counts, metavar="N,N|N-N", help=counts)
    for option, text in (
        ("--trace", "requests as CSV of time,target_model, or the folder of a data capture"),
        ("--cloudwatch", "how many requests there were, as CSV of time,invocations"),
        ("--prices", "CSV of instance_type,price_an_hour, in any currency"),
    ):
        add(option, type=Path, metavar="FILE", help=text)
    for option, read, metavar, text in (
        ("--p99", arguments.seconds, "S", "p99 of all answered requests"),
        (
            "--cold-share",
            arguments.share,
            "X",
            "share of requests whose model must be loaded first, 0.02 for 2 %%",
        ),
        ("--failures", arguments.share, "X", "share of failed requests, 0.001 for 0.1 %%"),
    ):
        add(option, type=read, metavar=metavar, help=f"goal: {text}")
    add("--seed", type=_SEED, metavar="S", help="fixes all that is drawn; default 1")


def _override(settings: PlanSettings, options: argparse.Namespace) -> PlanSettings:
    from merlin_simulator.plan_command.instance_types import find_instance_type, read_prices

    demand, goals = settings.demand, settings.goals
    if options.trace:
        demand = replace(demand, trace=options.trace, cloudwatch=None)
    if options.cloudwatch:
        demand = replace(demand, cloudwatch=options.cloudwatch, trace=options.trace)
    limits = {
        "p99_s": options.p99,
        "cold_share": options.cold_share,
        "failures": options.failures,
    }
    goals = replace(goals, **{name: goal for name, goal in limits.items() if goal is not None})
    own = {kind.name: kind for kind in settings.types}
    types = [own.get(name) or find_instance_type(name) for name in options.instance or ()]
    return replace(
        settings,
        demand=demand,
        goals=goals,
        types=types or settings.types,
        counts=options.counts or settings.counts,
        autoscaling=None if options.counts else settings.autoscaling,
        prices=read_prices(options.prices) if options.prices else settings.prices,
        seed=settings.seed if options.seed is None else options.seed,
    )


def _counts(text: str) -> tuple[int, ...]:
    from merlin_simulator.measuring.values import MOST_INSTANCES

    results: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"([1-9][0-9]{0,8})(?:-([1-9][0-9]{0,8}))?", part)
        if ends is None or not int(ends[1]) <= int(ends[2] or ends[1]) <= MOST_INSTANCES:
            raise argparse.ArgumentTypeError(
                f"found {text[:40]!r}, expected 1,2,4 or 1-4, at most {MOST_INSTANCES}"
            )
        results += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    return tuple(results)
