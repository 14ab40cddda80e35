"""python -m bench: measures the container beside tritonserver's own SageMaker frontend."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from subprocess import SubprocessError

from bench.contenders import Contenders
from bench.errors import BenchError
from bench.machine import facts
from bench.measure import Outcome
from bench.page import page
from bench.report import Report, as_json, markdown, table
from bench.rows import ROWS, Row, Run
from bench.wrk import find_wrk

#: What a server or a program that is asked may answer with; anything else is our own mistake.
_FAILURES = (BenchError, OSError, HTTPException, SubprocessError)
_FULL, _SHORT = (5, 2.0), (3, 0.7)  # rounds, and seconds of load in each


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; its exit code."""
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(f"{row.name:<28}{row.title}" for row in ROWS))
        return 0
    try:
        wrk = find_wrk()
        signal.signal(signal.SIGTERM, _interrupt)
        report = _measured(_wanted(options.rows, options.short), options, wrk)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted; nothing was written", file=sys.stderr)
        return 130
    _write(report, options.out)
    print(table(report), end="")
    _tell(f"written: {options.out}/report.html, report.md, results.json")
    return 1 if report.failures else 0


def _measured(rows: Sequence[Row], options: argparse.Namespace, wrk: str) -> Report:
    """One row after another; a row that cannot be measured is noted, and the next one follows."""
    usual_rounds, usual_seconds = _SHORT if options.short else _FULL
    rounds, seconds = options.rounds or usual_rounds, options.seconds or usual_seconds
    outcomes: list[Outcome] = []
    failures: dict[str, str] = {}
    began, clock, load = time.time(), time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        scratch = Path(directory)
        with Contenders(scratch) as contenders:
            run = Run(contenders, options.short, rounds, seconds, scratch, _tell)
            for row in rows:
                row_began = time.monotonic()
                try:
                    lines = list(row.measure(run, row.name))
                except _FAILURES as error:
                    failures[row.name] = str(error) or type(error).__name__
                    _tell(f"{row.name} failed: {failures[row.name]}")
                else:
                    outcomes.append(row.outcome(lines, time.monotonic() - row_began))
            found = facts(contenders.ours.log.read_text(errors="replace"), wrk, load)
            _tell("stopping the servers")
    whole = time.monotonic() - clock
    return Report(found, began, whole, options.short, rounds, seconds, tuple(outcomes), failures)


def _wanted(names: Sequence[str] | None, short: bool) -> list[Row]:
    if names:
        return [row for row in ROWS if row.name in names]
    return [row for row in ROWS if row.in_short or not short]


def _write(report: Report, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(as_json(report), indent=2, ensure_ascii=False)
    (out / "results.json").write_text(text + "\n", "utf-8")
    (out / "report.md").write_text(markdown(report), "utf-8")
    (out / "report.html").write_text(page(report), "utf-8")


def _tell(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1000:
        raise argparse.ArgumentTypeError(f"found {text}, expected a number between 0 and 1000")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures the container (ours) side by side with tritonserver's own SageMaker "
        "frontend (rival) and with tritonserver asked directly (limit), all on this machine and in "
        "turn. Prints a table, and writes report.html, report.md and results.json. Progress goes "
        "to stderr. Needs wrk, and what `make setup` installs.",
        epilog="Exit codes: 0 measured, whether or not goals are reached; 1 something could not be "
        "measured (no wrk, a server that did not start, a wrong answer; the reason is printed and "
        "stands in the report); 2 misuse; 130 after Ctrl-C, with all servers stopped and nothing "
        "written. The whole run takes about twenty minutes, the short one less than two.",
    )
    parser.add_argument(
        "--short", action="store_true",
        help=f"only the rows {', '.join(row.name for row in ROWS if row.in_short)}; fewer rounds",
    )  # fmt: skip
    parser.add_argument(
        "--rows", nargs="+", metavar="NAME", choices=[row.name for row in ROWS],
        help="only these rows; --list names them",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("bench-report"), metavar="DIR",
        help="where the report is written (default: %(default)s); files there are replaced",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, choices=range(1, 101), metavar="N",
        help=f"rounds of each measurement (default: {_FULL[0]}, short: {_SHORT[0]})",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=_positive, metavar="S",
        help=f"seconds of load in a round (default: {_FULL[1]:g}, short: {_SHORT[1]:g})",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
