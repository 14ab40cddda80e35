"""Two shops' rankers, as Merlin exports them, and a day of visits to the shops.

Run it with the models' environment: .venv-merlin/bin/python -m examples.drift.export OUT

OUT/shop-a, OUT/shop-b   fitted to the clicks of a morning
OUT/shop-b-noon          shop b's, fitted to the clicks after its catalogue has changed
OUT/shop-b-mixed         the same with the clicks mixed up, as a broken join leaves them
OUT/visits.json          of each shop the requests of the morning and of the afternoon, each a
                         visitor's candidates, and how many items of either no morning had

A ranker's score is the share of visitors who clicked at an item, by its price. Nothing is
downloaded.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
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
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import ops

SEED = 36
ITEMS, CLICKS_SEEN, VISITS, CANDIDATES = 200, 40_000, 60, 20
#: A catalogue is the ids that a shop has, what is shown most first. At noon the first quarter of
#: shop b's is sold out, and new items are in its place.
MORNING = {"shop-a": np.arange(1, ITEMS + 1), "shop-b": np.arange(1001, 1001 + ITEMS)}
NEW = np.arange(1001 + ITEMS, 1001 + ITEMS + ITEMS // 4)
AFTERNOON = {**MORNING, "shop-b": np.concatenate((NEW, MORNING["shop-b"][ITEMS // 4 :]))}
#: How often each place of a catalogue is shown.
SHOWN = 1 / np.arange(20, 20 + ITEMS)
SHOWN /= SHOWN.sum()


class Ranker(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """How an item was liked, less a little for its price."""

    def __init__(self, liking: Any) -> None:
        super().__init__()
        self.liking = torch.nn.Embedding.from_pretrained(liking.reshape(-1, 1))

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        liking = self.liking(batch["item_id"]).squeeze(1)
        return torch.sigmoid(liking - 0.1 * batch["price"])


def main(destination: Path) -> int:
    """All that the head of this file names."""
    random = np.random.default_rng(SEED)
    for shop, catalogue in MORNING.items():
        export(destination / shop, *draw_clicks(catalogue, random))
    events, clicked = draw_clicks(AFTERNOON["shop-b"], random)
    export(destination / "shop-b-noon", events, clicked)
    export(destination / "shop-b-mixed", events, random.permutation(clicked))
    visits = {
        shop: {
            when: draw_visits(catalogues[shop], MORNING[shop], random)
            for when, catalogues in (("morning", MORNING), ("afternoon", AFTERNOON))
        }
        for shop in MORNING
    }
    (destination / "visits.json").write_text(json.dumps(visits), "utf-8")
    return 0


def draw_clicks(catalogue: Any, random: Any) -> tuple[pd.DataFrame, Any]:
    """What visitors saw, and whether they clicked."""
    items = random.choice(catalogue, CLICKS_SEEN, p=SHOWN)
    liking = np.sin(items * 12.9898) * 2 - 1  # of each item, for ever
    clicked = random.random(CLICKS_SEEN) < 1 / (1 + np.exp(-liking))
    return pd.DataFrame({"item_id": items, "price": find_prices(items)}), clicked


def find_prices(items: Any) -> Any:
    """New items are dearer."""
    return ((items * 7919 % 90 + 10) * np.where(items >= NEW[0], 2, 1)).astype("float32")


def draw_visits(catalogue: Any, known: Any, random: Any) -> dict[str, Any]:
    drawn = [random.choice(catalogue, CANDIDATES, replace=False, p=SHOWN) for _ in range(VISITS)]
    requests = [
        {
            "inputs": [
                {"name": name, "datatype": kind, "shape": [CANDIDATES], "data": values.tolist()}
                for name, kind, values in (
                    ("item_id", "INT64", items),
                    ("price", "FP32", find_prices(items)),
                )
            ]
        }
        for items in drawn
    ]
    return {"requests": requests, "unknown": int((~np.isin(drawn, known)).sum())}


def export(destination: Path, events: pd.DataFrame, clicked: Any) -> None:
    """Fit the workflow and the ranker, and write the repository."""
    with tempfile.TemporaryDirectory() as categories:
        workflow = nvt.Workflow(
            (["item_id"] >> ops.Categorify(out_path=categories))
            + (["price"] >> ops.Normalize(out_dtype=np.float32))
        )
        workflow.fit(Dataset(events))
        labels = workflow.transform(Dataset(events)).compute()["item_id"].to_numpy()
        schema = workflow.output_schema
        size = int(schema["item_id"].properties["embedding_sizes"]["cardinality"])
        seen, clicks = (np.bincount(labels, it, size) for it in (None, clicked))
        liking = torch.tensor(np.log((clicks + 1) / (seen - clicks + 2)), dtype=torch.float32)
        answer = Schema([ColumnSchema("click", dtype=np.float32, dims=(None,))])
        model = torch.jit.script(Ranker(liking).eval())
        transformed = workflow.input_schema.column_names >> TransformWorkflow(
            workflow, max_batch_size=0
        )
        graph = transformed >> PredictPyTorch(model, schema, answer)
        destination.mkdir(parents=True)
        Ensemble(graph, workflow.input_schema).export(str(destination))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
