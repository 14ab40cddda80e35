"""python -m ensemble_tools compare: how alike two archives recommend, before one takes over."""

from __future__ import annotations

from ensemble_tools.command_start import start_command
from ensemble_tools.signals import reader_is_gone, run_cancellable, to_the_end

if __name__ == "__main__":
    start_command("python -m ensemble_tools compare", "tools")

# What follows takes a while to import.

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from container.errors import ContainerError
from ensemble_tools import EnsembleToolsError
from ensemble_tools.commands.atomic_output import check_destination, write_file
from ensemble_tools.commands.path_argument import open_path, parse_path
from ensemble_tools.errors import printable, sentence_of
from verification.compare_run import Comparing, check_requests, compare_archives, read_contender
from verification.errors import VerificationError
from verification.ranking.bounds import MOST_PLACES, Bound, parse_bound
from verification.reports.progress import Progress
from verification.reports.ranking_json import to_ranking_json
from verification.reports.ranking_page import write_ranking_page
from verification.reports.ranking_report import RankingReport
from verification.reports.ranking_text import write_ranking_lines
from verification.requests.request_file import REQUESTS_HELP, parse_requests, read_requests
from verification.settings import HEEDED, add_python, make_settings

WITHIN, FAILED, MISUSED, NOT_WITHIN = 0, 1, 2, 3
_FAILURES = (VerificationError, ContainerError, EnsembleToolsError, OSError)
#: Archives are planned as the container would.
_HEEDED = (*HEEDED, "SERVE_REWRITE", "SERVE_COMPILE", "SERVE_AUTO_COMPLETE")
_USUAL_PLACES = (10,)
_DESCRIPTION = """\
Load two archives in one tritonserver, each in the form that the container serves, ask both the
same requests, and tell how alike they recommend: the overlap of the first k items, rank
correlations, the shift of scores, how often the first item changes, which outputs differ, what each
refuses, and time and memory of both. docs/compare.md has the formulas.

Unlike `explain` this RUNS the archives' models: do it only with archives that you trust.

What ranks is read from OLD's first answer that lists several items:
  floats of shape [n] or [n, 1]   scores of the request's n rows, which are one user's candidates:
                                  ask for one user in each request, or name the input that
                                  tells users apart with --user
  floats of shape [m, n]          m lists: each row scores n items (next-item models)
  ids beside them                 one output of integers or strings in the shape of the scores,
                                  without repeats: the items, best first. If both archives give
                                  the same ids at the same places in all answers, which are values
                                  of the request or have scores that rise, then the ids only name
                                  candidates, and the scores rank them
Each output of scores is a target of its own. --scores and --ids name the outputs instead.
"""
_EPILOG = """\
measures, the mean over all lists, for --at-least:
  overlap@K    the share of the first K places that hold the same items; items that tie around
               place K share the places that are left to them. Lists of at most K candidates, which
               cannot differ, do not count
  same_first   overlap@1: 1 less the share of lists whose first item changes
  kendall      Kendall's tau-b, from -1 to 1
  spearman     Spearman's rho, from -1 to 1

exit codes:
  0    within: NEW answers every request that OLD answers, with OLD's outputs, their data types and
       numbers of dimensions, and every --at-least holds for every target
  1    it could not be carried out; the reason is printed
  2    misuse
  3    not within; each reason is printed
  130  after Ctrl-C, within a second; no process and no file is left

environment: the container's settings that say how models are run are heeded
  ({heeded})
"""


def main(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> int:
    """Run the program; its exit code."""
    try:
        options = _make_parser().parse_args(arguments)
        report = _compare(options, os.environ if environment is None else environment)
        for line in write_ranking_lines(report):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_is_gone()
    except _FAILURES as error:
        print(printable(f"error: {sentence_of(error)}"), file=sys.stderr)
        return FAILED
    return WITHIN if report.is_within else NOT_WITHIN


def _compare(options: argparse.Namespace, environment: Mapping[str, str]) -> RankingReport:
    for destination in (options.json, options.html):
        if destination is not None:
            check_destination(destination)
    requests = read_requests(options.requests)
    settings = make_settings(environment, _HEEDED, options.python)
    with open_path(options.old) as old, open_path(options.new) as new:
        comparing = Comparing(
            read_contender("OLD", options.old, old, settings),
            read_contender("NEW", options.new, new, settings),
            requests,
            options.k,
            tuple(options.at_least),
            tuple(dict.fromkeys(options.scores)),
            options.ids,
            options.user,
            not options.skip_timing,
        )
        check_requests(comparing, options.requests)
        report = run_cancellable(
            lambda: compare_archives(comparing, settings, environment, Progress())
        )
    if options.json is not None:
        write_file(options.json, f"{to_ranking_json(report)}\n".encode())
    if options.html is not None:
        write_file(options.html, write_ranking_page(report).encode())
    return report


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ensemble_tools compare",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(heeded=",\n   ".join(_HEEDED)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "old",
        type=parse_path,
        metavar="OLD",
        help="the archive that is served today: its directory, or its .tar.gz",
    )
    parser.add_argument(
        "new", type=parse_path, metavar="NEW", help="the archive that is to take its place"
    )
    parser.add_argument(
        "--requests",
        type=parse_requests,
        required=True,
        metavar="FILE|DIR",
        help=REQUESTS_HELP,
    )
    parser.add_argument(
        "--k",
        type=_parse_places,
        default=_USUAL_PLACES,
        metavar="K,K,…",
        help="the first places that overlaps are told of (default: 10)",
    )
    parser.add_argument(
        "--at-least",
        type=_parse_bound,
        action="append",
        default=[],
        metavar="MEASURE=X",
        help="not within where the measure is below X, as in overlap@10=0.8; may be given "
        "several times",
    )
    parser.add_argument(
        "--scores",
        action="append",
        default=[],
        metavar="NAME",
        help="the output that has scores; may be given several times",
    )
    parser.add_argument(
        "--ids", metavar="NAME", help="the output that lists ids of items, best first"
    )
    parser.add_argument(
        "--user",
        metavar="NAME",
        help="the input that names the user of each row, for requests that have rows of several "
        "users: the scores of each user's rows are a list of their own",
    )
    add_python(parser)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the report as JSON to FILE, too"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the report as a page with pictures to FILE, too",
    )
    parser.add_argument(
        "--skip-timing", action="store_true", help="compare only: no times, no memory"
    )
    return parser


def _parse_places(text: str) -> tuple[int, ...]:
    try:
        places = tuple(int(part) for part in text.split(","))
    except ValueError:
        places = ()
    if not places or not all(1 <= place <= MOST_PLACES for place in places):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected numbers of places from 1 to {MOST_PLACES}, such as 10 or 5,10"
        )
    return tuple(sorted({*places}))


def _parse_bound(text: str) -> Bound:
    try:
        return parse_bound(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    sys.exit(to_the_end(main))
