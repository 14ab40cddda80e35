"""A Feast store for random graphs: users by ids of 64 bits, items by ids of 32 bits.

It lies at one place on this machine, where the executor and the steps find it.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from datetime import datetime
from functools import cache
from pathlib import Path

os.environ["FEAST_USAGE"] = "False"
# isort: split
import feast
import numpy as np
import pandas as pd
from feast.types import Array, Float32, Int32, Int64

#: Its version is in its name.
PLACE = Path(tempfile.gettempdir(), "merlin-random-graphs-features-1")
#: An id's type -> the view.
VIEWS = {"int64": "users", "int32": "items"}
KNOWN = 9
MADE_AT = datetime(2023, 8, 1)
CONFIGURATION = """
project: graphs
provider: local
registry: registry.db
online_store:
  type: sqlite
  path: online.db
entity_key_serialization_version: 2
"""


@cache
def opened() -> feast.FeatureStore:
    """Made once on a machine; of two that make it at a time one is kept."""
    if not PLACE.exists():
        with tempfile.TemporaryDirectory(dir=PLACE.parent) as made_in:
            with contextlib.redirect_stdout(io.StringIO()):
                _fill(Path(made_in, "made"))
            with contextlib.suppress(OSError):
                Path(made_in, "made").rename(PLACE)
    # QueryFeast would write to it, which others read.
    feast.FeatureStore.materialize_incremental = lambda *_, **__: None
    return feast.FeatureStore(str(PLACE))


def _fill(place: Path) -> None:
    place.mkdir()
    (place / "feature_store.yaml").write_text(CONFIGURATION)
    store = feast.FeatureStore(str(place))
    for dtype, view in VIEWS.items():
        name = f"{view}_id"
        ids: np.ndarray = np.arange(KNOWN, dtype=dtype)
        table = pd.DataFrame(
            {
                name: ids,
                f"{view}_int": ids.astype("int32") * 3,
                f"{view}_float": ids.astype("float32") / 7,
                f"{view}_list": [[*range(int(number) % 4)] for number in ids],
                "made_at": MADE_AT,
            }
        )
        offline = place / f"{view}.parquet"
        table.to_parquet(offline)
        kind = feast.ValueType.INT64 if dtype == "int64" else feast.ValueType.INT32
        fields = [
            feast.Field(name=name, dtype=Int64 if dtype == "int64" else Int32),
            feast.Field(name=f"{view}_int", dtype=Int32),
            feast.Field(name=f"{view}_float", dtype=Float32),
            feast.Field(name=f"{view}_list", dtype=Array(Int64)),
        ]
        entity = feast.Entity(name=name, join_keys=[name], value_type=kind)
        source = feast.FileSource(path=str(offline), timestamp_field="made_at")
        made = feast.FeatureView(name=view, entities=[entity], schema=fields, source=source)
        store.apply([entity, made])
    store.materialize(datetime(2023, 7, 1), datetime(2023, 9, 1))
