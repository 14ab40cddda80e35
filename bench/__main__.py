"""python -m bench: measures the container beside tritonserver's own SageMaker frontend, what
compiling NVTabular workflows is worth, what observing costs, or what tenants notice of a flood.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from http.client import HTTPException
from pathlib import Path
from subprocess import SubprocessError

from bench.contenders import Contenders
from bench.errors import BenchError
from bench.machine import collect_facts
from bench.measure import Line
from bench.report import Report
from bench.results import PATH, Measured, Results, format_results, read_results
from bench.rows import SUITES, Row, Run
from bench.wrk import find_wrk

#: What a server or a program that is asked may answer with; anything else is our own mistake.
_FAILURES = (BenchError, OSError, HTTPException, SubprocessError)
_FULL, _SHORT = 5, 3  # rounds
_SHORT_S = 0.7  # of load in each; the full run's are the suite's


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; its exit code."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    rows = SUITES[options.suite].rows
    if options.list:
        print("\n".join(f"{row.name:<28}{row.title}" for row in rows))
        return 0
    if options.record and options.short:
        parser.error("argument --record: not with --short, which measures less of each row")
    if unknown := set(options.rows or ()) - {row.name for row in rows}:
        names = ", ".join(row.name for row in rows)
        parser.error(f"argument --rows: found {min(unknown)!r}, expected some of {names}")
    try:
        wrk = find_wrk()
        _check_writable(options.out)
        signal.signal(signal.SIGTERM, _interrupt)
        report = _measure(options, wrk)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; nothing was written", file=sys.stderr)
        return 130
    write_files(report, options)
    if options.record:
        PATH.write_text(format_results(_add(report, options.suite, read_results())), "utf-8")
        _tell(f"recorded: {PATH}; `make listings` writes its figures into the pages")
    print(report.format_for_terminal(), end="")
    _tell(f"written: {options.out}/report.md, results.json")
    return 1 if report.failures else 0


def _measure(options: argparse.Namespace, wrk: str) -> Report:
    """One row after another; a row that cannot be measured is noted, and the next one follows."""
    suite = SUITES[options.suite]
    rounds = options.rounds or (_SHORT if options.short else _FULL)
    seconds = options.seconds or (_SHORT_S if options.short else suite.round_seconds)
    lines: dict[str, list[Line]] = {}
    failures: dict[str, str] = {}
    date, load = f"{datetime.now(timezone.utc):%Y-%m-%d}", os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        scratch = Path(directory)
        with Contenders(scratch) as contenders:
            for row in _choose_rows(suite.rows, options):
                tell = partial(_tell_of, row.name)
                run = Run(contenders, options.short, rounds, seconds, scratch, tell)
                try:
                    lines[row.name] = list(row.measure(run))
                except _FAILURES as error:
                    failures[row.name] = str(error) or type(error).__name__
                    tell(f"failed: {failures[row.name]}")
            facts = collect_facts(contenders.ours.log.read_text(errors="replace"), wrk, load)
            _tell("stopping the servers")
    return Report(suite, Measured(date, rounds, seconds, facts), lines, failures)


def _choose_rows(rows: Sequence[Row], options: argparse.Namespace) -> list[Row]:
    if options.rows:
        return [row for row in rows if row.name in options.rows]
    return [row for row in rows if row.in_short or not options.short]


def _check_writable(out: Path) -> None:
    """Raises BenchError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise BenchError(f"--out {out}: nothing can be written there ({reason})") from error


def write_files(report: Report, options: argparse.Namespace) -> None:
    """Write report.md and results.json into --out, which is there."""
    results = format_results(_add(report, options.suite, Results({})))
    (options.out / "results.json").write_text(results, "utf-8")
    (options.out / "report.md").write_text(report.format_page(), "utf-8")


def _add(report: Report, suite: str, results: Results) -> Results:
    """The rows that were measured, in the place of those of an earlier run."""
    order = [row.name for row in report.suite.rows]
    return results.with_rows(suite, report.measured, report.lines, order)


def _tell(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


def _tell_of(row: str, what: str) -> None:
    _tell(f"{row}: {what}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _parse_seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < 1000:
            return value
    raise argparse.ArgumentTypeError(f"found {text!r}, expected a number between 0 and 1000")


def _parse_rounds(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 100:
        return int(text)
    raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1 to 100")


def _make_parser() -> argparse.ArgumentParser:
    usual = ", ".join(f"{name} {suite.round_seconds:g}" for name, suite in SUITES.items())
    short = (row.name for suite in SUITES.values() for row in suite.rows if row.in_short)
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the container (ours) side by side with tritonserver's own SageMaker "
        "frontend (rival) and with tritonserver asked directly (limit), all on this machine and in "
        "turn; or, as `workflows`, Merlin exports as the executor, as the ensemble in its place "
        "and with their NVTabular workflows compiled; or, as `observing`, containers that tell "
        "nothing, as much as by default, and a line for every invocation; or, as `fairness`, what "
        "tenants notice of one that floods. Prints a table, and writes report.md and results.json. "
        "Progress goes to stderr. Needs wrk, and what `make setup` installs.",
        epilog="Exit codes: 0 measured, whether or not goals are reached; 1 something could not be "
        "measured (no wrk, a server that did not start, a wrong answer; the reason is printed and "
        "stands in the report); 2 misuse; 130 after Ctrl-C, with all servers stopped and nothing "
        "written. The whole run takes about half an hour, that of workflows three quarters of one, "
        "those of observing and fairness ten and twelve minutes, the short one about two minutes.",
    )
    parser.add_argument(
        "suite",
        nargs="?",
        default=next(iter(SUITES)),
        choices=SUITES,
        help="what is measured (default: %(default)s)",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"fewer rounds, and only the rows {', '.join(short)}",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        metavar="NAME",
        help="only these rows; --list names them",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("bench-report"),
        metavar="DIR",
        help="where the report is written (default: %(default)s); files there are replaced",
    )
    parser.add_argument(
        "--rounds",
        type=_parse_rounds,
        metavar="N",
        help=f"rounds of each measurement (default: {_FULL}, short: {_SHORT})",
    )
    parser.add_argument(
        "--seconds",
        type=_parse_seconds,
        metavar="S",
        help=f"seconds of load in a round (default: {usual}, short: {_SHORT_S:g})",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="also put what was measured into bench/results.json, which README.md and docs/ quote",
    )
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
