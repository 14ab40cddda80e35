"""Trains a multi-stage recommender and exports it with Merlin 23.08: one user in, ten items out.

Run it from the checkout, with the environment that has FAISS and Feast:
.venv-merlin/bin/python -m examples.multistage.export DEST

DEST/repository      what merlin.systems' Ensemble.export wrote, untouched, and beside its graph
                     the feature repository, which Merlin leaves where it was
DEST/request.json    one user as a v2 inference request
DEST/expected.json   that user's hundred candidates and their scores, without tritonserver; and
                     which outputs of an answer are drawn of these

The stages, each fed by the one before:

1. QueryFeast looks the user's features up in a Feast store;
2. a workflow makes numbers of the user's columns;
3. the user's tower of a two-tower model makes a vector of these;
4. QueryFaiss finds the hundred items whose vectors are nearest;
5. QueryFeast looks their features up;
6. a workflow makes numbers of these;
7. UnrollFeatures puts the user's columns beside each item;
8. a ranker says how likely each item is to be clicked;
9. SoftmaxSampling draws ten of them, likely ones first.

The data are made up: users and items have hidden tastes, and a click is likely where they agree.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from examples.merlin.export import (
    NEUTRAL_DIRECTORY,
    SEED,
    Tensors,
    as_torch,
    categorify,
    fitted,
    predictor_inputs,
    without_debug_records,
    write_tensors,
)

# The module above sets what Merlin reads when it is imported, this what keeps Feast from reporting.
os.environ.setdefault("FEAST_USAGE", "False")
# isort: split
import faiss
import feast
import numpy as np
import nvtabular as nvt
import pandas as pd
import torch
from feast.types import Float32, Int32, Int64
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.faiss import QueryFaiss, setup_faiss
from merlin.systems.dag.ops.feast import QueryFeast
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.softmax_sampling import SoftmaxSampling
from merlin.systems.dag.ops.unroll_features import UnrollFeatures
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import ops

USERS, ITEMS, EVENTS = 200, 2_000, 20_000
CANDIDATES, ANSWERED = 100, 10
TASTES, WIDTH = 4, 16
STEPS = 150
#: Outputs of an answer -> the columns of expected.json that they are drawn of.
DRAWN = {"ordered_ids": "candidate_ids", "ordered_scores": "click"}
#: Who is asked about.
USER = 1003
#: The graph keeps this path. Merlin's executor reads the feature repository there and nowhere else.
FEATURES = Path(NEUTRAL_DIRECTORY, "merlin-multistage/feature_repo")
#: Paths in it are relative to it.
FEATURE_STORE = """\
project: multistage
provider: local
registry: registry.db
online_store:
  type: sqlite
  path: online.db
entity_key_serialization_version: 2
"""


class Tower(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """A vector for each user."""

    def __init__(self, users: int) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(users, WIDTH)
        self.hidden = torch.nn.Linear(WIDTH + 1, WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        parts = [self.table(batch["user_id"]), batch["age"].unsqueeze(1)]
        return self.out(torch.relu(self.hidden(torch.cat(parts, dim=1))))


class Ranker(torch.nn.Module):  # type: ignore[misc]
    """How likely the user of each row clicks on the row's item."""

    def __init__(self, users: int, items: int) -> None:
        super().__init__()
        self.users = torch.nn.Embedding(users, WIDTH)
        self.items = torch.nn.Embedding(items, WIDTH)
        self.hidden = torch.nn.Linear(3 * WIDTH + 2, WIDTH)
        self.out = torch.nn.Linear(WIDTH, 1)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        user, item = self.users(batch["user_user_id"]), self.items(batch["item_id"])
        age, price = batch["user_age"].unsqueeze(1), batch["price"].unsqueeze(1)
        parts = [user, item, user * item, age, price]
        hidden = torch.relu(self.hidden(torch.cat(parts, dim=1)))
        return torch.sigmoid(self.out(hidden)).squeeze(1)


def make_data() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.Series]:
    """Users and items with their features; users with items; and whether they clicked."""
    generator = np.random.default_rng(SEED)
    users, items = generator.normal(size=(USERS, TASTES)), generator.normal(size=(ITEMS, TASTES))
    user, item = generator.integers(0, USERS, EVENTS), generator.integers(0, ITEMS, EVENTS)
    agree = (users[user] * items[item]).sum(1)
    age = pd.DataFrame(
        {"user_id": 1000 + np.arange(USERS), "age": (40 + 8 * users[:, 0]).astype("float32")}
    )
    price = pd.DataFrame(
        {
            "item_id": np.arange(ITEMS, dtype="int32"),
            "price": (30 + 9 * items[:, 1]).astype("float32"),
        }
    )
    events = pd.concat(
        [age.iloc[user].reset_index(drop=True), price.iloc[item].reset_index(drop=True)], axis=1
    )
    clicked = pd.Series(generator.uniform(size=EVENTS) < 1 / (1 + np.exp(1 - agree)))
    return age, price, events, clicked


def fill_store(**views: tuple[str, pd.DataFrame]) -> feast.FeatureStore:
    """A store with a view for each table; views: of each its entity."""
    shutil.rmtree(FEATURES.parent, ignore_errors=True)
    FEATURES.mkdir(parents=True)
    (FEATURES / "feature_store.yaml").write_text(FEATURE_STORE)
    store = feast.FeatureStore(str(FEATURES))
    made_at = datetime(2023, 8, 1)
    for name, (entity, table) in views.items():
        offline = FEATURES.parent / f"{name}.parquet"
        table.assign(made_at=made_at).to_parquet(offline)
        wide = table[entity].dtype == np.int64
        kind = feast.ValueType.INT64 if wide else feast.ValueType.INT32  # as FAISS's ids are
        of = feast.Entity(name=entity, join_keys=[entity], value_type=kind)
        fields = [feast.Field(name=entity, dtype=Int64 if wide else Int32)]
        fields += [feast.Field(name=it, dtype=Float32) for it in table if it != entity]
        source = feast.FileSource(path=str(offline), timestamp_field="made_at")
        store.apply([of, feast.FeatureView(name=name, entities=[of], schema=fields, source=source)])
    store.materialize(datetime(2023, 7, 1), datetime(2023, 9, 1))
    return store


def train(model: torch.nn.Module, loss: Any) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    model.eval()


def train_towers(
    batch: dict[str, torch.Tensor], target: torch.Tensor, users: int, items: torch.Tensor
) -> tuple[Tower, np.ndarray]:
    """The user's tower, and a vector for each item: their product says who clicks on what."""
    tower, table = Tower(users), torch.nn.Embedding(ITEMS, WIDTH)
    both = torch.nn.ModuleList([tower, table])

    def loss() -> torch.Tensor:
        scores = (tower(batch) * table(items)).sum(1)
        return torch.nn.functional.binary_cross_entropy_with_logits(scores, target)

    train(both, loss)
    vectors: np.ndarray = table.weight.detach().numpy()
    return tower, vectors


def build(staging: Path) -> tuple[Ensemble, Tensors]:
    """Trains the stages and joins them; and the candidates of USER with their scores."""
    age, price, events, clicked = make_data()
    store = fill_store(users=("user_id", age), items=("item_id", price))
    user_workflow = fitted(
        (["user_id"] >> categorify(staging / "user"))
        + (["age"] >> ops.Normalize(out_dtype=np.float32)),
        events,
    )
    item_workflow = fitted(
        (["item_id"] >> categorify(staging / "item"))
        + (["price"] >> ops.Normalize(out_dtype=np.float32)),
        events,
    )
    users, items = user_workflow.output_schema, item_workflow.output_schema
    target = torch.from_numpy(clicked.to_numpy().astype("float32"))
    columns = as_torch(predictor_inputs([user_workflow], users, events))
    item_ids = torch.from_numpy(events["item_id"].to_numpy().astype("int64"))
    tower, vectors = train_towers(columns, target, cardinality(users, "user_id"), item_ids)
    ranker = Ranker(cardinality(users, "user_id"), cardinality(items, "item_id"))
    both = {
        **as_torch(predictor_inputs([item_workflow], items, events)),
        **{f"user_{name}": column for name, column in columns.items()},
    }
    train(ranker, lambda: torch.nn.functional.binary_cross_entropy(ranker(both), target))

    index = staging / "items.faiss"
    setup_faiss(pd.DataFrame({"item_id": np.arange(ITEMS), "embedding": [*vectors]}), str(index))

    features = (
        ["user_id"]
        >> QueryFeast.from_feature_view(store, "users", "user_id", include_id=True)
        >> TransformWorkflow(user_workflow, max_batch_size=0)
    )
    query = Schema([ColumnSchema("query", dtype=np.float32, dims=(None, WIDTH))])
    found = (
        features
        >> predictor(tower, users, query, staging / "tower.pt")
        >> QueryFaiss(index, topk=CANDIDATES)
    )
    candidates = (
        found["candidate_ids"]
        >> QueryFeast.from_feature_view(store, "items", "candidate_ids", include_id=True)
        >> TransformWorkflow(item_workflow, max_batch_size=0)
    )
    unrolled = candidates >> UnrollFeatures(
        "item_id", features[["user_id", "age"]], unrolled_prefix="user"
    )
    ranked = items + Schema([users[name].with_name(f"user_{name}") for name in ("user_id", "age")])
    click = Schema([ColumnSchema("click", dtype=np.float32, dims=(None,))])
    scores = unrolled >> predictor(ranker, ranked, click, staging / "ranker.pt")
    ordered = found["candidate_ids"] >> SoftmaxSampling(
        scores["click"], topk=ANSWERED, temperature=20.0
    )
    user = age[age["user_id"] == USER]
    expected = rank(
        user, price, user_workflow, item_workflow, tower, ranker, faiss.read_index(str(index))
    )
    return Ensemble(ordered, Schema([ColumnSchema("user_id", dtype=np.int64)])), expected


def rank(
    row: pd.DataFrame,
    price: pd.DataFrame,
    user_workflow: nvt.Workflow,
    item_workflow: nvt.Workflow,
    tower: Tower,
    ranker: Ranker,
    index: Any,
) -> Tensors:
    """What is drawn from for USER."""
    user = predictor_inputs([user_workflow], user_workflow.output_schema, row)
    with torch.inference_mode():
        query = tower(as_torch(user)).numpy()
        ids = index.search(query, CANDIDATES)[1].astype("int32").ravel()
        frame = price.iloc[ids].reset_index(drop=True)
        items = predictor_inputs([item_workflow], item_workflow.output_schema, frame)
        repeated = {f"user_{name}": column.repeat(len(ids)) for name, column in user.items()}
        scores = ranker(as_torch({**items, **repeated})).numpy()
    return {"candidate_ids": ids, "click": scores}


def cardinality(schema: Schema, name: str) -> int:
    return int(schema[name].properties["embedding_sizes"]["cardinality"])


def predictor(model: torch.nn.Module, given: Schema, answer: Schema, path: Path) -> PredictPyTorch:
    """The scripted model; PredictPyTorch copies the file at its path."""
    made = PredictPyTorch(torch.jit.script(model), given, answer)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.path = str(without_debug_records(made.model, path))
    return made


def note_drawn(path: Path) -> None:
    """Write down which outputs are drawn of which columns, for the simulator's replay."""
    text = path.read_text(encoding="utf-8").rstrip().removesuffix("}")
    path.write_text(f'{text}, "drawn": {json.dumps(DRAWN)}}}\n', encoding="utf-8")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    target = parser.parse_args(argv).destination
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    with tempfile.TemporaryDirectory(prefix="merlin-exports-", dir=NEUTRAL_DIRECTORY) as made_in:
        staging = Path(made_in)
        ensemble, expected = build(staging / "fitted")
        ensemble.export(str(staging / "repository"))
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target / "repository", ignore_errors=True)
        shutil.copytree(staging / "repository", target / "repository")
    shutil.copytree(FEATURES, target / "repository/executor_model/1/ensemble" / FEATURES.name)
    shutil.rmtree(FEATURES.parent)
    write_tensors(target / "request.json", "inputs", {"user_id": np.array([USER])})
    write_tensors(target / "expected.json", "outputs", expected)
    note_drawn(target / "expected.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
