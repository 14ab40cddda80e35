"""Trains three tiny models of other frameworks than torch and exports them with Merlin 23.08.

Run it from the checkout, with the environment that has the frameworks:
.venv-frameworks/bin/python -m examples.merlin.export_frameworks DEST

What it writes is laid out as export.py's: repository/, request.json, expected.json. Of what Merlin
wrote one file is changed, xgboost.json: see as_older_xgboost.

forest_xgboost    an XGBoost classifier behind PredictForest
forest_lightgbm   a LightGBM regressor on some of a workflow's columns, in an order of its own
tensorflow_ragged a Keras model behind PredictTensorflow, a ragged column among its inputs

A forest knows its features by their places. PredictForest takes the columns as its parent hands
them over: the schema that it is given does not sort them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# TensorFlow tells of its builds; and oneDNN sums in an order that depends on the CPU.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

from examples.merlin.export import (
    NEUTRAL_DIRECTORY,
    SEED,
    TRAINING_ROWS,
    Tensors,
    categorify,
    fitted,
    predictor_inputs,
    write_tensors,
)

# The module above sets what Merlin reads when it is imported.
# isort: split
import lightgbm
import numpy as np
import nvtabular as nvt
import pandas as pd
import tensorflow as tf
import xgboost
from merlin.schema import Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.fil import PredictForest
from merlin.systems.dag.ops.tensorflow import PredictTensorflow
from merlin.systems.dag.ops.workflow import TransformWorkflow
from merlin.systems.triton.conversions import match_representations
from merlin.table import TensorTable
from nvtabular import ops

TREES = 8
EPOCHS = 5
EMBEDDING_WIDTH = 4


@dataclass(frozen=True)
class Example:
    """One export: the workflow, the predictor behind it, and rows to ask about.

    `selected` are the workflow's columns that the predictor gets; None: all of them.
    """

    workflow: nvt.Workflow
    predictor: Any
    rows: pd.DataFrame
    selected: list[str] | None = None


def forest_xgboost(staging: Path) -> Example:
    """Whether a user clicks; each of the four columns decides it for some."""
    events, rows = visits(SEED + 4)
    workflow = visits_workflow(events, staging)
    schema = workflow.output_schema
    clicked = (
        ((events["item_id"] % 2 == 0) & (events["age"] > 35))
        | (events["price"] > 30)
        | (events["user_id"] % 5 == 0)
    )
    data = xgboost.DMatrix(features(workflow, schema, events), label=clicked.to_numpy())
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 4, "seed": SEED, "nthread": 1}, data, TREES
    )
    return Example(workflow, PredictForest(booster, schema), rows)


def forest_lightgbm(staging: Path) -> Example:
    """How long a user stays; who it is does not matter."""
    events, rows = visits(SEED + 5)
    workflow = visits_workflow(events, staging)
    selected = ["price", "item_id", "age"]
    schema = workflow.output_schema.select_by_name(selected)
    seconds = events["age"] * (events["item_id"] % 3) + 2 * events["price"].fillna(0)
    booster = lightgbm.train(
        {
            "objective": "regression",
            "num_leaves": 7,
            "seed": SEED,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        },
        lightgbm.Dataset(features(workflow, schema, events), label=seconds.to_numpy()),
        TREES,
    )
    return Example(workflow, PredictForest(booster, schema), rows, selected)


def tensorflow_ragged(staging: Path) -> Example:
    """A probability for each row from a category, a list of any length, and a number."""
    generator = np.random.default_rng(SEED + 6)
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
    model = keras_model(workflow.output_schema)
    clicked = events["genres"].map(lambda genres: 3 in genres or 7 in genres)
    train_keras(model, predictor_inputs([workflow], workflow.output_schema, events), clicked)
    return Example(workflow, PredictTensorflow(model), rows)


EXAMPLES: dict[str, Callable[[Path], Example]] = {
    "forest_xgboost": forest_xgboost,
    "forest_lightgbm": forest_lightgbm,
    "tensorflow_ragged": tensorflow_ragged,
}


def visits(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Events to train on, and rows to ask about: unseen categories and a missing price in them."""
    generator = np.random.default_rng(seed)
    events = pd.DataFrame(
        {
            "user_id": generator.integers(1000, 1020, TRAINING_ROWS),
            "item_id": generator.integers(1, 30, TRAINING_ROWS),
            "age": generator.normal(40, 12, TRAINING_ROWS).astype("float32"),
            "price": generator.gamma(2.0, 10.0, TRAINING_ROWS),
        }
    )
    events.loc[events.index % 17 == 0, "price"] = np.nan
    rows = pd.DataFrame(
        {
            "user_id": np.array([1003, 1011, 5, 1019, 1000]),
            "item_id": np.array([6, 99999, 13, -1, 28]),
            "age": np.array([18.5, 44.0, 71.25, 33.0, 52.0], dtype="float32"),
            "price": np.array([3.99, 0.0, 60.5, 19.95, 35.0]),
        }
    )
    return events, rows


def visits_workflow(events: pd.DataFrame, staging: Path) -> nvt.Workflow:
    return fitted(
        (["user_id", "item_id"] >> categorify(staging))
        + (["age"] >> ops.Normalize(out_dtype=np.float32))
        + (["price"] >> ops.FillMissing(fill_val=0) >> ops.Normalize(out_dtype=np.float32)),
        events,
    )


def features(workflow: nvt.Workflow, schema: Schema, rows: pd.DataFrame) -> np.ndarray:
    """FP32 [rows, columns of the schema], as PredictForest stacks them."""
    columns = predictor_inputs([workflow], schema, rows)
    stacked: np.ndarray = np.stack([columns[name] for name in schema.column_names], axis=1)
    return stacked.astype(np.float32)


class MeanOfList(tf.keras.layers.Layer):  # type: ignore[misc]  # tensorflow has no types in the checker's environment
    """The mean embedding of each row's values; rows begin and end at the offsets [rows + 1]."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(size, width)

    def call(self, inputs: tuple[Any, Any]) -> Any:
        values, offsets = inputs
        rows = tf.RaggedTensor.from_row_splits(self.embedding(values), offsets, validate=False)
        # Of an empty row the sum is 0, where the mean would be no number.
        lengths = tf.maximum(rows.row_lengths(), 1)
        return tf.reduce_sum(rows, axis=1) / tf.cast(lengths[:, None], tf.float32)


def keras_model(schema: Schema) -> Any:
    """Inputs named as the tensors that Merlin sends: a list column is its values and offsets."""
    sizes = {
        column.name: int(column.properties["embedding_sizes"]["cardinality"])
        for column in schema
        if "embedding_sizes" in column.properties
    }
    scalar = {"user_id": "int64", "price": "float32"}
    ragged = {"genres__values": "int64", "genres__offsets": "int32"}
    inputs = {
        name: tf.keras.Input(shape=(), dtype=dtype, name=name)
        for name, dtype in (scalar | ragged).items()
    }
    user = tf.keras.layers.Embedding(sizes["user_id"], EMBEDDING_WIDTH)(inputs["user_id"])
    genres = MeanOfList(sizes["genres"], EMBEDDING_WIDTH)(
        (inputs["genres__values"], inputs["genres__offsets"])
    )
    price = inputs["price"][:, None]
    hidden = tf.keras.layers.Dense(8, activation="relu")(tf.concat([user, genres, price], axis=1))
    click = tf.keras.layers.Dense(1, activation="sigmoid", name="click")(hidden)
    return tf.keras.Model(inputs, {"click": click})


def train_keras(model: Any, tensors: Tensors, clicked: pd.Series) -> None:
    """In one batch: Keras' own loop would cut values and offsets as if they were rows."""
    batch = {name: tf.constant(array) for name, array in tensors.items()}
    target = tf.constant(clicked.to_numpy().astype("float32")[:, None])
    optimizer = tf.keras.optimizers.Adam(0.02)
    for _ in range(EPOCHS * TREES):
        with tf.GradientTape() as tape:
            loss = tf.keras.losses.binary_crossentropy(target, model(batch)["click"])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def answer(example: Example) -> Tensors:
    """The predictor's output for the rows by its own framework, without any server."""
    schema = example.predictor.input_schema
    if isinstance(example.predictor, PredictForest):
        model = example.predictor.fil_op.fil_model_class
        output = model.predict(features(example.workflow, schema, example.rows))
        return {"output__0": output.astype(np.float32)}
    tensors = predictor_inputs([example.workflow], schema, example.rows)
    output = example.predictor.model({name: tf.constant(tensors[name]) for name in tensors})
    return {name: tensor.numpy() for name, tensor in output.items()}


def build_graph(example: Example) -> Any:
    workflow = TransformWorkflow(example.workflow, max_batch_size=0)
    columns = example.workflow.input_schema.column_names >> workflow
    if example.selected is not None:
        columns = columns[example.selected]
    return columns >> example.predictor


def as_older_xgboost(path: Path) -> None:
    """Takes out of a model what XGBoost 1.6, the one of Merlin 23.08, does not write yet.

    treelite, by which the FIL of Merlin's Triton reads the file, refuses fields that it does not
    know. XGBoost itself puts in what these hold for a model like this.
    """
    model = json.loads(path.read_text("utf-8"))
    del model["learner"]["gradient_booster"]["model"]["iteration_indptr"]
    del model["learner"]["learner_model_param"]["boost_from_average"]
    path.write_text(json.dumps(model, separators=(",", ":")), encoding="utf-8")


def export(name: str, destination: Path) -> None:
    """Makes DEST/<name> anew."""
    tf.keras.utils.set_random_seed(SEED)
    with tempfile.TemporaryDirectory(prefix="merlin-exports-", dir=NEUTRAL_DIRECTORY) as made_in:
        staging = Path(made_in)
        example = EXAMPLES[name](staging / "fitted")
        expected = answer(example)
        ensemble = Ensemble(build_graph(example), example.workflow.input_schema)
        ensemble.export(str(staging / name))
        for forest in (staging / name).glob("*/1/xgboost.json"):
            as_older_xgboost(forest)
        target = destination / name
        target.mkdir(parents=True, exist_ok=True)  # a page about the example may lie in it
        shutil.rmtree(target / "repository", ignore_errors=True)
        shutil.copytree(staging / name, target / "repository")
    table = TensorTable.from_df(example.rows).to_dict()
    request = match_representations(ensemble.input_schema, table)
    write_tensors(target / "request.json", "inputs", request)
    write_tensors(target / "expected.json", "outputs", expected)


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
