"""Rebuilds the tutorials' notebooks on small made-up data and exports them with Merlin 23.08.

    .venv-merlin/bin/python -m tests.golden.tutorials.export DEST [NAME ...]

DEST/<name>/repository      what merlin.systems' Ensemble.export wrote, untouched
DEST/<name>/request.json    rows as a v2 inference request, unseen categories among them
DEST/<name>/expected.json   the answer of the fitted workflow and the model, without tritonserver

A notebook is a file of notebooks/, run as `__main__`, as Jupyter does: what it defines is pickled
by value, with the file's name and no path. It has

    events(), rows()    what the workflow is fitted on, and what is asked
    graph()             the notebook's operators
    MODEL               what is put behind it: "xlnet" (of Transformers4Rec, as in the notebook, but
                        narrower), "click" (a network of torch in the place of Merlin Models' DLRM),
                        "multistage" (that, and a tower of torch, each behind a subworkflow), or
                        "" where the notebook ends with the workflow
    TARGET              the column that only training has; it is removed before the export
    MODEL_COLUMNS       those of the workflow that the model reads
    TOP_K               how many items the model answers with, where the notebook says so
    MODULE              a file of modules/ that lies beside each model.py, since the workflow's
                        functions are its own
"""

# ruff: noqa: I001  # the examples' module sets what Merlin reads when it is imported

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.merlin import export as examples

import numpy as np
import nvtabular as nvt
import pandas as pd
import torch
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.unroll_features import UnrollFeatures
from merlin.systems.dag.ops.workflow import TransformWorkflow
from merlin.systems.triton.conversions import match_representations
from merlin.table import TensorTable
from transformers4rec import torch as tr

HERE = Path(__file__).parent
NOTEBOOKS, MODULES = HERE / "notebooks", HERE / "modules"
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.py"))
WIDTH = 8
LONGEST_SESSION = 20


@dataclass(frozen=True)
class Notebook:
    """What a file of notebooks/ defines."""

    cells: dict[str, Any]

    @classmethod
    def run(cls, path: Path) -> Notebook:
        cells: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(path.read_text("utf-8"), path.name, "exec"), cells)
        return cls(cells)

    def __getattr__(self, name: str) -> Any:
        return self.cells[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.cells.get(name, default)


@dataclass(frozen=True)
class Built:
    """A graph for Ensemble, what it is asked, and the answer to that."""

    node: Any
    schema: Schema
    request: examples.Tensors
    expected: examples.Tensors


def alone(notebook: Notebook, workflow: nvt.Workflow) -> Built:
    expected = examples.predictor_inputs([workflow], workflow.output_schema, notebook.rows())
    request = as_request(workflow.input_schema, notebook.rows())
    return Built(transform(workflow), workflow.input_schema, request, expected)


def xlnet(notebook: Notebook, workflow: nvt.Workflow) -> Built:
    """A traced Transformers4Rec model, trained on the next items of the events' sessions."""
    schema = workflow.output_schema.select_by_name(notebook.MODEL_COLUMNS)
    inputs = tr.TabularSequenceFeatures.from_schema(
        schema,
        max_sequence_length=LONGEST_SESSION,
        continuous_projection=WIDTH,
        aggregation="concat",
        # One width all through, as tying the weights asks for.
        embedding_dim_default=WIDTH,
        d_output=WIDTH,
        masking="mlm",
    )
    transformer = tr.XLNetConfig.build(
        d_model=WIDTH, n_head=2, n_layer=1, total_seq_length=LONGEST_SESSION
    )
    task = tr.NextItemPredictionTask(weight_tying=True)
    model = transformer.to_torch_model(inputs, task)
    given = examples.predictor_inputs([workflow], schema, notebook.events())
    batch = examples.as_torch(given)
    examples.train(model, lambda: model(dict(batch), training=True)["loss"])
    if notebook.get("TOP_K"):
        model.top_k = notebook.TOP_K
    model.eval()
    behind = traced("xlnet", model, batch, model.input_schema, model.output_schema)
    return in_front_of(behind, workflow, notebook.rows())


def click(notebook: Notebook, workflow: nvt.Workflow) -> Built:
    """A network that is trained on what the notebook's target column says."""
    behind = ranker([workflow], notebook.events(), notebook.TARGET)
    return in_front_of(behind, workflow, notebook.rows())


def multistage(notebook: Notebook, workflow: nvt.Workflow) -> Built:
    """The user's vector, and of each item how likely the user is to click on it."""
    rows = notebook.rows()
    user, item = (workflow.get_subworkflow(name) for name in ("user", "item"))
    one = rows[user.input_schema.column_names].head(1)
    events = notebook.events()
    given = examples.predictor_inputs([user], user.output_schema, events)
    vector = Schema([ColumnSchema("query", dtype=np.float32, dims=(None, WIDTH))])
    tower = Tower({name: int(column.max()) + 1 for name, column in given.items()}).eval()
    query = traced("tower", tower, examples.as_torch(given), user.output_schema, vector)
    scores = ranker([item, user], events, notebook.TARGET)
    asked = examples.predictor_inputs([user], user.output_schema, one)
    items = examples.predictor_inputs([item], item.output_schema, rows)
    both = {**items, **{name: column.repeat(len(rows)) for name, column in asked.items()}}
    expected = {**predicted(query, asked), **predicted(scores, both)}
    request = {**as_request(item.input_schema, rows), **as_request(user.input_schema, one)}
    schema = item.input_schema + user.input_schema
    features = transform(user)
    names = user.output_schema.column_names
    unrolled = transform(item) >> UnrollFeatures("item_id", features[names])
    return Built((features >> query) + (unrolled >> scores), schema, request, expected)


MODELS = {"": alone, "xlnet": xlnet, "click": click, "multistage": multistage}


class Tower(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """A vector for each row of categories."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleDict(
            {name: torch.nn.Embedding(size, WIDTH) for name, size in sizes.items()}
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return sum(table(batch[name]) for name, table in self.tables.items())


def ranker(workflows: list[nvt.Workflow], events: pd.DataFrame, target: str) -> PredictPyTorch:
    """One probability for each row of what the workflows make."""
    schema = sum((workflow.output_schema for workflow in workflows), Schema())
    sizes = {
        column.name: int(column.properties["embedding_sizes"]["cardinality"])
        for column in schema
        if "embedding_sizes" in column.properties
    }
    model = examples.ClickModel(
        categorical={name: size for name, size in sizes.items() if not schema[name].is_list},
        continuous=[column.name for column in schema if column.name not in sizes],
        ragged={name: size for name, size in sizes.items() if schema[name].is_list},
    )
    batch = examples.as_torch(examples.predictor_inputs(workflows, schema, events))
    often = (events[target] > events[target].mean()).to_numpy().astype("float32")
    clicked = torch.from_numpy(often)
    examples.train(model, lambda: torch.nn.functional.binary_cross_entropy(model(batch), clicked))
    answer = Schema([ColumnSchema("click", dtype=np.float32, dims=(None,))])
    return traced("ranker", model, batch, schema, answer)


def traced(
    name: str, model: torch.nn.Module, batch: Any, given: Schema, answer: Schema
) -> PredictPyTorch:
    """PredictPyTorch copies the file at its path."""
    made = PredictPyTorch(torch.jit.trace(model, (batch,), strict=False), given, answer)
    made.path = str(examples.without_debug_records(made.model, Path.cwd() / f"{name}.pt"))
    return made


def transform(workflow: nvt.Workflow) -> Any:
    names = workflow.input_schema.column_names
    return names >> TransformWorkflow(workflow, max_batch_size=0)


def in_front_of(predictor: PredictPyTorch, workflow: nvt.Workflow, rows: pd.DataFrame) -> Built:
    """The workflow, with the predictor behind it."""
    # Before `transform`, which puts Triton's operators into the graph.
    given = examples.predictor_inputs([workflow], predictor.input_schema, rows)
    expected = predicted(predictor, given)
    request = as_request(workflow.input_schema, rows)
    return Built(transform(workflow) >> predictor, workflow.input_schema, request, expected)


def predicted(predictor: PredictPyTorch, tensors: examples.Tensors) -> examples.Tensors:
    with torch.inference_mode():
        output = predictor.model(examples.as_torch(tensors))
    outputs = output if isinstance(output, tuple) else (output,)
    names = predictor.output_schema.column_names
    return {name: array.numpy() for name, array in zip(names, outputs, strict=True)}


def as_request(schema: Schema, rows: pd.DataFrame) -> examples.Tensors:
    table = TensorTable.from_df(rows[schema.column_names])
    return dict(match_representations(schema, table.to_dict()))


def export(name: str, destination: Path) -> None:
    """Makes DEST/<name> anew."""
    notebook = Notebook.run(NOTEBOOKS / f"{name}.py")
    target = destination.resolve() / name
    write(target, notebook, notebook.graph)
    if notebook.get("MODULE"):
        # The executor's pickle names the functions, too.
        for model in (target / "repository").glob("*/1"):
            shutil.copy(MODULES / notebook.MODULE, model)


def write(target: Path, notebook: Notebook, graph: Callable[[], Any]) -> None:
    """The export, its request and its answer, in the place of what is there."""
    random.seed(examples.SEED)
    np.random.seed(examples.SEED)
    torch.manual_seed(examples.SEED)
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="merlin-exports-", dir="/tmp") as made_in:
        # Categorify writes beside the notebook.
        os.chdir(made_in)
        workflow = examples.fitted(graph(), notebook.events())
        if notebook.get("TARGET"):
            workflow.remove_inputs([notebook.TARGET])
        built = MODELS[notebook.MODEL](notebook, workflow)
        Ensemble(built.node, built.schema).export(str(Path(made_in, "exported")))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(made_in, "exported"), target / "repository")
        os.chdir(home)
    examples.write_tensors(target / "request.json", "inputs", built.request)
    examples.write_tensors(target / "expected.json", "outputs", built.expected)


def main(argv: list[str]) -> int:
    """Export those that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(NAMES))
    arguments = parser.parse_args(argv)
    sys.path.insert(0, str(MODULES))
    for name in arguments.names or NAMES:
        print(name, flush=True)
        export(name, arguments.destination)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
