"""Exports the examples' workflows alone, each with a request and Merlin's answer.

    .venv-merlin/bin/python -m tests.golden.workflows.export DEST

DEST/<name>/repository      what merlin.systems' Ensemble.export wrote, untouched
DEST/<name>/request.json    rows as a v2 inference request, unseen categories among them
DEST/<name>/expected.json   the fitted workflow's answer, without tritonserver

They need numpy alone where they are served compiled: no Merlin, no torch. So they are asked on
bases and Pythons that have neither.
"""

# ruff: noqa: I001  # the examples' module sets what Merlin reads when it is imported

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from examples.merlin import export as examples

from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.workflow import TransformWorkflow
from merlin.systems.triton.conversions import match_representations
from merlin.table import TensorTable

#: The kinds of columns: of one value, lists of any length, sessions made of events.
NAMES = ("dense", "ragged", "session")


def export(name: str, destination: Path) -> None:
    """Makes DEST/<name> anew."""
    with tempfile.TemporaryDirectory(prefix="merlin-exports-", dir="/tmp") as made_in:
        example = examples.EXAMPLES[name](Path(made_in, "fitted"))
        (workflow,) = example.workflows
        columns = workflow.input_schema.column_names
        # Before the export, which puts Triton's operators into the graph.
        expected = examples.predictor_inputs([workflow], workflow.output_schema, example.rows)
        graph = columns >> TransformWorkflow(workflow, max_batch_size=0)
        ensemble = Ensemble(graph, workflow.input_schema)
        ensemble.export(str(Path(made_in, name)))
        target = destination / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(made_in, name), target / "repository")
    table = TensorTable.from_df(example.rows[columns]).to_dict()
    request = match_representations(ensemble.input_schema, table)
    examples.write_tensors(target / "request.json", "inputs", request)
    examples.write_tensors(target / "expected.json", "outputs", expected)


def main(argv: list[str]) -> int:
    """Export all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    for name in NAMES:
        export(name, parser.parse_args(argv).destination)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
