"""Trains four tiny models and exports them with Merlin 23.08, each with a request and its answer.

Run it with the models' environment: .venv-merlin/bin/python examples/merlin/export.py DEST

DEST/<name>/repository      what merlin.systems' Ensemble.export wrote, untouched
DEST/<name>/request.json    rows as a v2 inference request, unseen categories among them
DEST/<name>/expected.json   the answer of the fitted workflows and the model, without tritonserver

dense          columns keep their names through the workflow; nothing consumes one of its outputs
ragged         a list column of any length (X__values, X__offsets), an empty row among them
two_workflows  two workflows joined in front of one predictor
session        a traced Transformers4Rec model on grouped events (NVIDIA-Merlin/systems#393)
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
# The same numbers on every machine: no GPU, and sums in one order.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"
# Merlin warns on import that there is no cudf and no tensorflow.
warnings.filterwarnings("ignore")

import numpy as np
import nvtabular as nvt
import pandas as pd
import torch
from merlin.io import Dataset
from merlin.schema import ColumnSchema, Schema, Tags
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.workflow import TransformWorkflow
from merlin.systems.triton.conversions import match_representations
from merlin.table import TensorTable
from nvtabular import ops
from transformers4rec import torch as tr

SEED = 23
# Enough that the outputs of different rows differ clearly.
TRAINING_ROWS = 400
TRAINING_STEPS = 30
EMBEDDING_WIDTH = 4
TRANSFORMER_WIDTH = 8
SESSION_LENGTH = 8
# Exports hold absolute paths of where they were made (Categorify's category tables).
NEUTRAL_DIRECTORY = "/tmp"

DATATYPES = {
    "int8": "INT8",
    "int32": "INT32",
    "int64": "INT64",
    "float32": "FP32",
    "float64": "FP64",
    "bool": "BOOL",
    "object": "BYTES",
}

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """One export: the workflows side by side, their predictor, and rows to ask about."""

    workflows: list[nvt.Workflow]
    predictor: PredictPyTorch
    rows: pd.DataFrame


class ClickModel(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """One probability a row, from a dict of tensors as libtorch hands it over."""

    def __init__(
        self, categorical: dict[str, int], continuous: list[str], ragged: dict[str, int]
    ) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleDict(
            {name: torch.nn.Embedding(size, EMBEDDING_WIDTH) for name, size in categorical.items()}
        )
        self.bags = torch.nn.ModuleDict(
            {
                name: torch.nn.EmbeddingBag(size, EMBEDDING_WIDTH, include_last_offset=True)
                for name, size in ragged.items()
            }
        )
        self.continuous = continuous
        width = EMBEDDING_WIDTH * (len(categorical) + len(ragged)) + len(continuous)
        self.hidden = torch.nn.Linear(width, 8)
        self.out = torch.nn.Linear(8, 1)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for name, table in self.tables.items():
            parts.append(table(batch[name]))
        for name, bag in self.bags.items():
            parts.append(bag(batch[name + "__values"], batch[name + "__offsets"].long()))
        for name in self.continuous:
            parts.append(batch[name].unsqueeze(1))
        hidden = torch.relu(self.hidden(torch.cat(parts, dim=1)))
        return torch.sigmoid(self.out(hidden)).squeeze(1)


def dense(staging: Path) -> Example:
    """user_id, item_id, age keep name and type, price its name only; visits_log is for nobody."""
    generator = np.random.default_rng(SEED)
    events = pd.DataFrame(
        {
            "user_id": generator.integers(1000, 1020, TRAINING_ROWS),
            "item_id": generator.integers(1, 30, TRAINING_ROWS),
            "age": generator.normal(40, 12, TRAINING_ROWS).astype("float32"),
            "price": generator.gamma(2.0, 10.0, TRAINING_ROWS),
            "visits": generator.integers(0, 50, TRAINING_ROWS),
        }
    )
    events.loc[events.index % 17 == 0, "price"] = np.nan
    workflow = fitted(
        (["user_id", "item_id"] >> categorify(staging))
        + (["age"] >> ops.Normalize(out_dtype=np.float32))
        + (["price"] >> ops.FillMissing(fill_val=0) >> ops.Normalize(out_dtype=np.float32))
        + (["visits"] >> ops.LogOp() >> ops.Rename(name="visits_log")),
        events,
    )
    rows = pd.DataFrame(
        {
            "user_id": np.array([1003, 1011, 5, 1019, 1000]),
            "item_id": np.array([7, 99999, 12, -1, 29]),
            "age": np.array([18.5, 44.0, 71.25, 33.0, 0.0], dtype="float32"),
            "price": np.array([3.99, 0.0, 120.5, 19.95, 1e-3]),
            "visits": np.array([0, 1, 49, 7, 1_000_000]),
        }
    )
    consumed = workflow.output_schema.select_by_name(["user_id", "item_id", "age", "price"])
    clicked = (events["item_id"] % 2 == 0) & (events["age"] > 35)
    return Example([workflow], click_predictor([workflow], consumed, events, clicked), rows)


def ragged(staging: Path) -> Example:
    """genres is a list of any length in, and a list of the same length out."""
    generator = np.random.default_rng(SEED + 1)
    events = pd.DataFrame(
        {
            "user_id": generator.integers(1000, 1020, TRAINING_ROWS),
            "genres": [
                generator.integers(1, 15, length).tolist()
                for length in generator.integers(1, 6, TRAINING_ROWS)
            ],
            "price": generator.gamma(2.0, 10.0, TRAINING_ROWS),
        }
    )
    workflow = fitted(
        (["user_id", "genres"] >> categorify(staging))
        + (["price"] >> ops.Normalize(out_dtype=np.float32)),
        events,
    )
    rows = pd.DataFrame(
        {
            "user_id": np.array([1003, 5, 1011, 1019, 1000]),
            "genres": [[3, 1, 14], [2], [], [99999, 7], [1, 2, 3, 4, 5, 6, 7]],
            "price": np.array([3.99, 0.0, 120.5, 19.95, 40.0]),
        }
    )
    clicked = events["genres"].map(lambda genres: 3 in genres or 7 in genres)
    predictor = click_predictor([workflow], workflow.output_schema, events, clicked)
    return Example([workflow], predictor, rows)


def two_workflows(staging: Path) -> Example:
    """The user's columns and the item's have workflows of their own and meet in the predictor."""
    generator = np.random.default_rng(SEED + 2)
    events = pd.DataFrame(
        {
            "user_id": generator.integers(1000, 1020, TRAINING_ROWS),
            "age": generator.normal(40, 12, TRAINING_ROWS).astype("float32"),
            "item_id": generator.integers(1, 30, TRAINING_ROWS),
            "price": generator.gamma(2.0, 10.0, TRAINING_ROWS),
        }
    )
    user = fitted(
        (["user_id"] >> categorify(staging / "user"))
        + (["age"] >> ops.Normalize(out_dtype=np.float32)),
        events,
    )
    item = fitted(
        (["item_id"] >> categorify(staging / "item"))
        + (["price"] >> ops.Normalize(out_dtype=np.float32)),
        events,
    )
    rows = pd.DataFrame(
        {
            "user_id": np.array([1003, 1011, 5, 1019, 1000]),
            "age": np.array([18.5, 44.0, 71.25, 33.0, 0.0], dtype="float32"),
            "item_id": np.array([7, 99999, 12, -1, 29]),
            "price": np.array([3.99, 0.0, 120.5, 19.95, 1e-3]),
        }
    )
    clicked = (events["item_id"] % 3 == 0) | (events["user_id"] % 5 == 0)
    schema = user.output_schema + item.output_schema
    return Example([user, item], click_predictor([user, item], schema, events, clicked), rows)


def session(staging: Path) -> Example:
    """Events are grouped into sessions of one length, and answered with a score for each item."""
    generator = np.random.default_rng(SEED + 3)
    events = pd.DataFrame(
        {
            "session_id": generator.integers(1, 60, TRAINING_ROWS),
            "item_id": generator.integers(100, 112, TRAINING_ROWS),
            "category": generator.integers(1, 5, TRAINING_ROWS),
            "timestamp": np.arange(TRAINING_ROWS),
        }
    )
    item = ["item_id"] >> categorify(staging) >> ops.TagAsItemID()
    category = ["category"] >> categorify(staging) >> ops.AddMetadata(tags=[Tags.CATEGORICAL])
    grouped = (item + category + ["session_id", "timestamp"]) >> ops.Groupby(
        groupby_cols=["session_id"],
        sort_cols=["timestamp"],
        aggs={"item_id": ["list"], "category": ["list"]},
        name_sep="-",
    )
    workflow = fitted(
        grouped["item_id-list", "category-list"]
        >> ops.ListSlice(-SESSION_LENGTH, pad=True)
        >> ops.ValueCount(),
        events,
    )
    inputs = tr.TabularSequenceFeatures.from_schema(
        workflow.output_schema,
        max_sequence_length=SESSION_LENGTH,
        # One width all through, as tying the weights asks for.
        embedding_dim_default=TRANSFORMER_WIDTH,
        d_output=TRANSFORMER_WIDTH,
        masking="causal",
    )
    transformer = tr.XLNetConfig.build(
        d_model=TRANSFORMER_WIDTH, n_head=2, n_layer=1, total_seq_length=SESSION_LENGTH
    )
    body = tr.SequentialBlock(
        inputs,
        tr.MLPBlock([TRANSFORMER_WIDTH]),
        tr.TransformerBlock(transformer, masking=inputs.masking),
    )
    head = tr.Head(body, tr.NextItemPredictionTask(weight_tying=True), inputs=inputs)
    model = tr.Model(head)
    batch = as_torch(predictor_inputs([workflow], workflow.output_schema, events))
    train(model, lambda: model(dict(batch), training=True)["loss"])
    traced = torch.jit.trace(model, batch, strict=False)
    rows = pd.DataFrame(
        {
            "session_id": np.array([2, 1, 1, 2, 3, 1, 2, 2, 2] + [4] * 10),
            "item_id": np.array([101, 100, 111, 99999, 105, 103, 101, 102, 110, *range(100, 110)]),
            "category": np.array([1, 2, 3, 4, 77, 1, 2, 3, 4] + [2] * 10),
            "timestamp": np.array([5, 1, 2, 3, 1, 9, 1, 2, 4, *range(20, 10, -1)]),
        }
    )
    predictor = PredictPyTorch(traced, workflow.output_schema, model.output_schema)
    return Example([workflow], predictor, rows)


EXAMPLES: dict[str, Callable[[Path], Example]] = {
    "dense": dense,
    "ragged": ragged,
    "two_workflows": two_workflows,
    "session": session,
}


def categorify(staging: Path) -> ops.Categorify:
    return ops.Categorify(out_path=str(staging))


def fitted(node: Any, events: pd.DataFrame) -> nvt.Workflow:
    workflow = nvt.Workflow(node)
    workflow.fit(Dataset(events))
    return workflow


def click_predictor(
    workflows: list[nvt.Workflow], schema: Schema, events: pd.DataFrame, clicked: pd.Series
) -> PredictPyTorch:
    """A scripted ClickModel, trained on what the workflows make of the events."""
    sizes = {
        column.name: int(column.properties["embedding_sizes"]["cardinality"])
        for column in schema
        if "embedding_sizes" in column.properties
    }
    model = ClickModel(
        categorical={name: size for name, size in sizes.items() if not schema[name].is_list},
        continuous=[column.name for column in schema if column.name not in sizes],
        ragged={name: size for name, size in sizes.items() if schema[name].is_list},
    )
    batch = as_torch(predictor_inputs(workflows, schema, events))
    target = torch.from_numpy(clicked.to_numpy().astype("float32"))
    train(model, lambda: torch.nn.functional.binary_cross_entropy(model(batch), target))
    answer = Schema([ColumnSchema("click", dtype=np.float32, dims=(None,))])
    return PredictPyTorch(torch.jit.script(model), schema, answer)


def train(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    model.train()
    for _ in range(TRAINING_STEPS):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()


def predictor_inputs(workflows: list[nvt.Workflow], schema: Schema, rows: pd.DataFrame) -> Tensors:
    """What the workflows make of the rows, as the tensors that the predictor gets in serving."""
    transformed: Tensors = {}
    for workflow in workflows:
        columns = rows[workflow.input_schema.column_names]
        frame = workflow.transform(Dataset(columns)).compute()
        transformed.update(TensorTable.from_df(frame.reset_index(drop=True)).to_dict())
    return dict(match_representations(schema, transformed))


def as_torch(tensors: Tensors) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()}


def answer(example: Example) -> Tensors:
    """The predictor's output for the rows, without any server."""
    tensors = predictor_inputs(example.workflows, example.predictor.input_schema, example.rows)
    with torch.inference_mode():
        output = example.predictor.model(as_torch(tensors))
    (name,) = example.predictor.output_schema.column_names
    return {name: output.numpy()}


def v2_tensors(tensors: Tensors) -> list[dict[str, Any]]:
    """JSON tensors of the v2 inference protocol; every float reads back as itself."""
    return [
        {
            "name": name,
            "datatype": DATATYPES[array.dtype.name],
            "shape": list(array.shape),
            "data": array.ravel().tolist(),
        }
        for name, array in tensors.items()
    ]


def build_graph(example: Example) -> Any:
    branches = [
        workflow.input_schema.column_names >> TransformWorkflow(workflow, max_batch_size=0)
        for workflow in example.workflows
    ]
    joined = branches[0]
    for branch in branches[1:]:
        joined = joined + branch
    return joined >> example.predictor


def without_debug_records(model: torch.jit.ScriptModule, path: Path) -> Path:
    """Saves the model without debug records: half its size, and paths of this machine's files."""
    full = path.with_suffix(".full.pt")
    model.save(str(full))
    reader = torch._C.PyTorchFileReader(str(full))
    writer = torch._C.PyTorchFileWriter(str(path))
    # The writer makes these two itself.
    own = {"version", ".data/serialization_id"}
    for record in reader.get_all_records():
        if record not in own and not record.endswith(".debug_pkl"):
            content = reader.get_record(record)
            writer.write_record(record, content, len(content))
    writer.write_end_of_file()
    return path


def export(name: str, destination: Path) -> None:
    """Makes DEST/<name> anew."""
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    with tempfile.TemporaryDirectory(prefix="merlin-exports-", dir=NEUTRAL_DIRECTORY) as made_in:
        staging = Path(made_in)
        example = EXAMPLES[name](staging / "fitted")
        # Before the export, which puts Triton's operators into the graph.
        expected = answer(example)
        inputs = sum((workflow.input_schema for workflow in example.workflows), Schema())
        ensemble = Ensemble(build_graph(example), inputs)
        predictor = example.predictor
        # PredictPyTorch copies the file at its path, if it has one, and else saves the model.
        predictor.path = str(without_debug_records(predictor.model, staging / "model.pt"))
        ensemble.export(str(staging / name))
        target = destination / name
        target.mkdir(parents=True, exist_ok=True)  # a page about the example may lie in it
        shutil.rmtree(target / "repository", ignore_errors=True)
        shutil.copytree(staging / name, target / "repository")
    table = TensorTable.from_df(example.rows).to_dict()
    request = match_representations(ensemble.input_schema, table)
    write_tensors(target / "request.json", "inputs", request)
    write_tensors(target / "expected.json", "outputs", expected)


def write_tensors(path: Path, key: str, tensors: Tensors) -> None:
    """A line a tensor, so that differences can be read."""
    lines = ",\n".join("  " + json.dumps(tensor) for tensor in v2_tensors(tensors))
    path.write_text(f'{{"{key}": [\n{lines}\n]}}\n', encoding="utf-8")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    parser.add_argument("--only", choices=EXAMPLES, help="this one alone")
    arguments = parser.parse_args(argv)
    names = [arguments.only] if arguments.only else list(EXAMPLES)
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name}", flush=True)
        export(name, arguments.destination)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
