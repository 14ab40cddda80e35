"""python -m ensemble_tools verify: hands over to this program, which runs processes."""

from __future__ import annotations

from ensemble_tools.command_start import start_command
from ensemble_tools.signals import reader_is_gone, run_cancellable, to_the_end

if __name__ == "__main__":
    start_command("python -m ensemble_tools verify", "tools")

# What follows takes a while to import.

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from container.errors import ContainerError
from container.settings.reading import Settings
from ensemble_tools import Compile, EnsembleToolsError, Rewrite
from ensemble_tools.answers.exchange import TensorRequest
from ensemble_tools.commands.path_argument import add_paths, open_path
from ensemble_tools.commands.several import (
    Row,
    find_worst_code,
    summarize_in_document,
    summarize_in_lines,
    take_each,
)
from ensemble_tools.errors import printable, sentence_of
from verification.comparing.forms import Forms, read_forms
from verification.errors import VerificationError
from verification.reports.json_report import build_document, to_json
from verification.reports.progress import Progress
from verification.reports.report import Report
from verification.reports.text_report import write_text_lines
from verification.requests.columns import find_fitting
from verification.requests.request_file import REQUESTS_HELP, parse_requests, read_requests
from verification.run import Task, verify
from verification.settings import HEEDED, add_python, make_settings

EQUAL, DIFFERENT, MISUSED = 0, 1, 2
_FAILURES = (VerificationError, ContainerError, EnsembleToolsError, OSError)
#: The `format` of what is said of several archives as JSON.
_SEVERAL = "merlin-sagemaker-verify-several"
_DESCRIPTION = """\
Start one tritonserver with an executor export in it three times: Merlin's executor itself, the form
that the container serves in its place, and that form with its NVTabular workflows compiled, as it
is served with SERVE_COMPILE=auto. Ask all the same and compare every number of every answer. Each
compiled workflow is also asked alone beside NVTabular, and its answers must be equal bit for bit.
Then time all, and measure the memory of their processes. A workflow that cannot be compiled is
named with the reason. An archive with workflows and without an executor is compared with itself,
compiled.

Unlike `explain` this RUNS the archive's models: do it only with archives that you trust.

Requests are generated from the inputs that the executor declares: ordinary ones, with categories
that the archive's workflows know, in each of the batch sizes; and edge ones (smallest and largest
numbers, NaN, unseen categories, empty lists, ...), which may be refused, as long as the serving
form takes what the executor takes. --requests asks your own instead, and nothing else.
"""
_EPILOG = """\
results:
  equal                  the same outputs, data types, shapes and numbers (NaN equals NaN)
  within tolerance       numbers differ, by no more than --tolerance
  same distribution      answers with chance in them (SoftmaxSampling): the same data types and
                         shapes, and 100 answers of each drawn from one distribution
  both refuse            neither answers; both messages are shown
  the executor refuses, the serving form answers
                         a note, no failure: there is no number of the executor to differ from
  refused by design      a note, no failure: a compiled workflow refuses what NVTabular answers with
                         numbers that nobody can have meant (docs/workflows.md has the list)
  different; the serving form refuses, the executor answers; no verdict; not asked
                         failures

exit codes:
  0    equal: something was compared and nothing failed; or the archive is no executor export and
       has no workflow that is compiled, so that there is nothing to compare
  1    different, or refused, or it could not be carried out; the reason is printed
  2    misuse
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
        code = _run(options, os.environ if environment is None else environment)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_is_gone()
    except _FAILURES as error:
        print(printable(f"error: {sentence_of(error)}"), file=sys.stderr)
        return DIFFERENT
    return code


def _run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    requests = read_requests(options.requests) if options.requests else None
    settings = make_settings(environment, HEEDED, options.python)

    def verify_one(path: Path) -> tuple[Forms | None, Report | None]:
        return _verify(options, path, requests, settings, environment)

    if len(options.paths) > 1:
        return _run_several(options, verify_one)
    (path,) = options.paths
    forms, report = verify_one(path)
    if report is None:
        _tell_nothing_to_compare(path, forms)
        return EQUAL
    _print(report, options)
    return choose_exit_code(report)


def _run_several(
    options: argparse.Namespace,
    verify_one: Callable[[Path], tuple[Forms | None, Report | None]],
) -> int:
    """Each by itself, one after the other, and a table; as JSON one object of all."""

    def take(path: Path) -> Row:
        forms, report = verify_one(path)
        if report is None:
            if options.format == "text":
                _tell_nothing_to_compare(path, forms)
            return Row(str(path), EQUAL, "nothing to compare", "it holds no executor export")
        if options.format == "text":
            _print(report, options)
            print()
        code = choose_exit_code(report)
        verdict = "equal" if code == EQUAL else "different"
        document = build_document(report) if options.format == "json" else None
        return Row(str(path), code, verdict, report.summary, report.notes, document)

    rows = take_each(options.paths, take, _FAILURES, DIFFERENT)
    if options.format == "text":
        for line in summarize_in_lines(rows):
            print(line)
        return find_worst_code(rows)
    print(json.dumps(summarize_in_document(_SEVERAL, rows), indent=2, allow_nan=False))
    return find_worst_code(rows)


def _print(report: Report, options: argparse.Namespace) -> None:
    if options.format == "json":
        print(to_json(report))
    else:
        for line in write_text_lines(report):
            print(line)


def _verify(
    options: argparse.Namespace,
    path: Path,
    requests: tuple[TensorRequest, ...] | None,
    settings: Settings,
    environment: Mapping[str, str],
) -> tuple[Forms | None, Report | None]:
    """No report where there is nothing to compare."""
    with open_path(path) as directory:
        forms = read_forms(directory, Rewrite(options.rewrite), Compile(options.compile))
        if forms is None or not forms.others:
            return forms, None
        if requests is not None:
            config, advice = forms.repository.entry.config, "give requests of this archive"
            find_fitting(requests, config, options.requests, str(path), advice)
        forms = replace(forms, repository=replace(forms.repository, path=path))
        task = Task(
            forms,
            requests,
            options.seed,
            options.batches,
            options.tolerance,
            not options.skip_timing,
        )
        return forms, run_cancellable(lambda: verify(task, settings, environment, Progress()))


def _tell_nothing_to_compare(path: Path, forms: Forms | None) -> None:
    for name, reason in forms.not_compiled if forms else ():
        print(f"not compiled: {name}: {reason}")
    print(
        f"{path}: verify compares Merlin's executor with the form that is served in "
        "its place; this archive holds no executor export and is served as delivered: `explain` "
        "shows it, and `request` writes a request to try it with"
    )


def choose_exit_code(report: Report) -> int:
    """The process's exit code."""
    return EQUAL if report.is_equal else DIFFERENT


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ensemble_tools verify",
        description=_DESCRIPTION,
        epilog=_EPILOG.format(heeded=",\n   ".join(HEEDED)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_paths(parser)
    parser.add_argument(
        "--requests",
        type=parse_requests,
        metavar="FILE|DIR",
        help=REQUESTS_HELP,
    )
    parser.add_argument(
        "--batches",
        type=_parse_batches,
        default=(1, 5, 100),
        metavar="N,N,…",
        help="rows of the generated ordinary requests (default: 1,5,100)",
    )
    parser.add_argument(
        "--seed",
        type=_parse_seed,
        default=0,
        help="of the generated requests (default: %(default)s)",
    )
    parser.add_argument(
        "--tolerance",
        type=_parse_tolerance,
        default=0.0,
        help="by how much floats may differ, times the executor's number where that is above 1 "
        "(default: 0, not at all)",
    )
    add_python(parser)
    parser.add_argument(
        "--rewrite",
        choices=[choice.value for choice in Rewrite],
        default=Rewrite.AUTO.value,
        help="the serving form, as SERVE_REWRITE (default: %(default)s)",
    )
    parser.add_argument(
        "--compile",
        choices=[choice.value for choice in Compile],
        default=Compile.AUTO.value,
        help="auto: the form with compiled workflows is compared, too; off: NVTabular alone "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people, json for programs (default: %(default)s)",
    )
    parser.add_argument(
        "--skip-timing", action="store_true", help="compare only: no times, no memory"
    )
    return parser


def _parse_batches(text: str) -> tuple[int, ...]:
    try:
        batches = tuple(int(part) for part in text.split(","))
    except ValueError:
        batches = ()
    if not batches or not all(1 <= rows <= 1_000_000 for rows in batches):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of rows such as 1,5,100")
    return tuple(dict.fromkeys(batches))


def _parse_seed(text: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, 0 or more")
    return int(text)


def _parse_tolerance(text: str) -> float:
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number such as 1e-6, 0 or more")
    return tolerance


if __name__ == "__main__":
    sys.exit(to_the_end(main))
