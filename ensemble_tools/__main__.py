"""python -m ensemble_tools: look at an archive before it is shipped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ensemble_tools.errors import ArchiveError, EnsembleToolsError
from ensemble_tools.explain import (
    explain_graph,
    explain_plan,
    explain_refusal,
    explain_repository,
)
from ensemble_tools.graph_reader import read_executor_graph
from ensemble_tools.namespace import Namespace
from ensemble_tools.plan import plan
from ensemble_tools.repository import read_repository

SERVED, REFUSED, MISUSED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says whether the archive can be served."""
    options = _parser().parse_args(arguments)
    try:
        return _explain(options.path, options.model_name, strict=not options.auto_complete)
    except EnsembleToolsError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED


def _explain(path: Path, model_name: str, *, strict: bool) -> int:
    repository = read_repository(path)
    print(*explain_repository(repository), sep="\n")
    graph = read_executor_graph(repository)
    if graph is not None:
        print("", *explain_graph(graph), sep="\n")
    try:
        serving_plan = plan(repository, graph, Namespace(model_name), strict=strict)
    except ArchiveError as error:
        print("", *explain_refusal(error), sep="\n")
        return REFUSED
    print("", *explain_plan(serving_plan), sep="\n")
    return SERVED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ensemble_tools",
        description="Look at a model archive as the container would.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    explain = commands.add_parser(
        "explain",
        help="print Merlin's graph, what Triton is given in its place, and the reasons",
        description=(
            "Print what an extracted archive holds, Merlin's operator graph if the model is an "
            "executor export, the Triton models that would be served with each edge of the "
            "ensemble, and what was left out or refused and why. Nothing is loaded or run: "
            "pickles are read as data."
        ),
        epilog="Exit codes: 0 it can be served, 1 it cannot (the reason is printed), 2 misuse.",
    )
    explain.add_argument("path", type=Path, help="directory that the archive was extracted into")
    explain.add_argument(
        "--model-name",
        default="model",
        help="SageMaker's name for the model, which becomes its namespace (default: %(default)s)",
    )
    explain.add_argument(
        "--auto-complete",
        action="store_true",
        help="judge configs as with SERVE_AUTO_COMPLETE=true",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
