"""Exports with Merlin's QueryFeast alone, and what Merlin answers with them.

Run in the environment that has Feast, with each online store's configuration as JSON by a name:
feast_export.py DEST '{"sqlite": {"type": "sqlite", "path": "online.db"}}'

DEST/<name>/features/repo  the feature repository: ten users with four features
DEST/<name>/export         what Ensemble.export wrote, and the repository beside its graph
DEST/<name>/answers.json   lists of ids -> what Merlin's own operator makes of them, or its error
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

os.environ["FEAST_USAGE"] = "False"
# isort: split
import feast
import numpy as np
import pandas as pd
from feast.types import Array, Float32, Int32, Int64
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.feast import QueryFeast
from merlin.table import TensorTable

USERS = 10
MADE_AT = datetime(2023, 8, 1)
ASKED: tuple[list[int], ...] = ([1, 3, 7], [4], [9, 9, 0], [], [4, 99])


def make_store(place: Path, online: dict[str, Any]) -> feast.FeatureStore:
    place.mkdir(parents=True)
    configuration = {
        "project": "shop",
        "provider": "local",
        "registry": "registry.db",
        "online_store": online,
        "entity_key_serialization_version": 2,
    }
    (place / "feature_store.yaml").write_text(json.dumps(configuration))  # which is YAML, too
    users = pd.DataFrame(
        {
            "user_id": np.arange(USERS),
            "age": np.arange(20, 20 + USERS, dtype="int32"),
            "score": np.arange(USERS, dtype="float32") / 3,
            "clicks": [list(range(user + 1)) for user in range(USERS)],
            "tastes": [[float(user), 2.0] for user in range(USERS)],
            "made_at": MADE_AT,
        }
    )
    offline = place.parent / "users.parquet"
    users.to_parquet(offline)
    user = feast.Entity(name="user_id", join_keys=["user_id"], value_type=feast.ValueType.INT64)
    fields = {"age": Int32, "score": Float32, "clicks": Array(Int64), "tastes": Array(Float32)}
    view = feast.FeatureView(
        name="users",
        entities=[user],
        schema=[feast.Field(name=name, dtype=kind) for name, kind in fields.items()],
        source=feast.FileSource(path=str(offline), timestamp_field="made_at"),
    )
    store = feast.FeatureStore(str(place))
    store.apply([user, view])
    store.materialize(datetime(2023, 7, 1), datetime(2023, 9, 1))
    return store


def ask(ensemble: Ensemble, ids: list[int]) -> Any:
    """Tensor -> its type and its values; or the error."""
    try:
        found = ensemble.transform(TensorTable({"user": np.array(ids, dtype="int64")}))
    except Exception as error:
        return str(error)
    arrays = {}
    for name, column in found.items():
        if column.offsets is None:
            arrays[name] = column.values
        else:
            arrays[f"{name}__values"] = column.values
            arrays[f"{name}__offsets"] = column.offsets
    return {name: array.tolist() for name, array in arrays.items()}


def export(target: Path, online: dict[str, Any]) -> None:
    store = make_store(target / "features/repo", online)
    found = ["user"] >> QueryFeast.from_feature_view(
        store, "users", "user", output_prefix="of", include_id=True
    )
    ensemble = Ensemble(found, Schema([ColumnSchema("user", dtype=np.int64)]))
    ensemble.export(str(target / "export"))
    beside = target / "export/executor_model/1/ensemble/repo"
    shutil.copytree(target / "features/repo", beside)
    answers = [(ids, ask(ensemble, ids)) for ids in ASKED]
    (target / "answers.json").write_text(json.dumps(answers))


def main(destination: str, stores: str) -> None:
    logging.disable(logging.ERROR)  # of what Merlin fails at
    for name, online in json.loads(stores).items():
        export(Path(destination, name), online)


if __name__ == "__main__":
    main(*sys.argv[1:])
