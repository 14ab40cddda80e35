"""python -m ensemble_tools drift: how far what comes is from what the workflows were fitted to."""

from __future__ import annotations

from ensemble_tools.command_start import start_command
from ensemble_tools.signals import INTERRUPTED, reader_is_gone, to_the_end

if __name__ == "__main__":
    start_command("python -m ensemble_tools drift", "tools")

# What follows takes a while to import.

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ensemble_tools import EnsembleToolsError
from ensemble_tools.commands.atomic_output import check_destination, write_file
from ensemble_tools.errors import printable, sentence_of
from ensemble_tools.serving.features import ModelFeatures
from verification.drift.documents import read_models, subtract
from verification.errors import CountsUnusable, VerificationError
from verification.reports.drift_page import write_drift_page
from verification.reports.drift_report import (
    ModelDrift,
    build_drift_json,
    measure_drift,
    write_drift_lines,
)

TOLD, FAILED = 0, 1
_DESCRIPTION = """\
Compare what a container's compiled workflows have counted of each column with what they were fitted
to: the share of values that no vocabulary has, of nulls, and of values outside of the fitted range,
the population stability index (PSI) of the vocabulary, and the shift of the mean in fitted standard
deviations. The worst comes first. docs/drift.md has the formulas and the bounds.

Of one model all columns are shown; of all models those that drift. A `?` stands behind what chance
alone exceeds once in 20 times, since few values came: it is no drift.
"""
_EPILOG = """\
exit codes:
  0    told, whatever the drift
  1    there is nothing to tell, or it cannot be read; the reason is printed
  2    misuse
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; its exit code."""
    try:
        options = _make_parser().parse_args(arguments)
        for line in write_drift_lines(_measure(options)):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_is_gone()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (VerificationError, EnsembleToolsError, OSError) as error:
        print(printable(f"error: {sentence_of(error)}"), file=sys.stderr)
        return FAILED
    return TOLD


def _measure(options: argparse.Namespace) -> list[ModelDrift]:
    for destination in (options.json, options.html):
        if destination is not None:
            check_destination(destination)
    models = read_models(options.source, options.model)
    if options.since is not None:
        before = read_models(options.since, None)
        _check_whole(options.source, models)
        _check_whole(options.since, before)
        models = subtract(models, before)
    if options.model is not None and (why_none := models[0].why_none):
        raise CountsUnusable(options.source, f"{options.model} has no counts: {why_none}", "")
    measured = measure_drift(models)
    if options.json is not None:
        write_file(options.json, build_drift_json(measured))
    if options.html is not None:
        write_file(options.html, write_drift_page(measured).encode())
    return measured


def _check_whole(source: str, models: Sequence[ModelFeatures]) -> None:
    if any(model.is_since for model in models):
        found = "these are the counts of what came after an earlier look"
        raise CountsUnusable(source, found, "all counts, as --json writes them without --since")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ensemble_tools drift",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source",
        metavar="URL|FILE",
        help="the address of the container's API, such as http://127.0.0.1:8080, or of a "
        "simulator, all of whose containers are asked; or a file that GET /models/<name>/features, "
        "or --json, gave",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a model's name, or its archive's as callers write it (default: all)",
    )
    parser.add_argument(
        "--since",
        metavar="FILE",
        help="an earlier --json, without --since: only what has come since then counts; of a "
        "model with other workflows, or in another container, all that has come",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write counts and measures as JSON to FILE, too"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page with pictures to FILE, too",
    )
    return parser


if __name__ == "__main__":
    sys.exit(to_the_end(main))
