"""Makes a wide workflow's export: 40 columns, 5 of them lists, one vocabulary of a million.

Run it from the checkout, with the models' environment:
.venv-merlin/bin/python -m examples.merlin.export_wide DEST

It is what recommenders look like in production, and too large to be committed: 40 MB, made in
half a minute. DEST/ is laid out as export.py's DEST/<name>: repository/, request.json,
expected.json. The bench makes it when it is asked for (bench/models.py).

Fit on few events, since what serving costs depends on the columns and on the vocabularies alone;
that of item_id is given to Categorify as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from examples.merlin import export

# The module above sets what Merlin reads when it is imported.
# isort: split
import numpy as np
import nvtabular as nvt
import pandas as pd
import torch
from nvtabular import ops

NAME = "wide"
ITEMS = 1_000_000
EVENTS = 20_000
ROWS = 64
LONGEST_LIST = 12

#: Whole numbers -> how many there are of them.
NUMBERS = {
    "user_id": 50_000,
    "category": 2_000,
    "brand": 5_000,
    "seller": 9_000,
    "region": 300,
    "campaign": 700,
    "shelf": 40,
    "hour": 24,
    "weekday": 7,
}
#: Words -> how many there are of them.
WORDS = {"country": 90, "city": 3_000, "device": 25, "referrer": 400}
HASHED = "query"
LISTS = {
    "genres": 60,
    "tags": 4_000,
    "viewed_brands": 5_000,
    "viewed_categories": 2_000,
    "friends": 50_000,
}
FILLED = ("price", "discount", "rating", "margin", "weight")
LOGGED = ("visits", "orders", "returns", "clicks", "views")
CLIPPED = ("age", "tenure", "distance", "delay", "basket")
BUCKETIZED = ("stock", "reviews", "width", "height", "seconds")
BOUNDARIES = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]


def events(generator: np.random.Generator, rows: int, asked: bool) -> pd.DataFrame:
    """All columns. Asked: some categories that no vocabulary has, and no NaN, which JSON lacks."""
    more = 1.1 if asked else 1.0
    columns: dict[str, object] = {"item_id": _ids(generator, int(ITEMS * more), rows)}
    for name, count in NUMBERS.items():
        columns[name] = _ids(generator, int(count * more) + 1, rows)
    for name, count in {**WORDS, HASHED: 100_000}.items():
        numbers = generator.integers(0, int(count * more) + 1, rows)
        columns[name] = np.array([f"{name}-{number}" for number in numbers], object)
    for name in FILLED:
        values, missing = generator.gamma(2.0, 10.0, rows), generator.random(rows) < 0.1
        columns[name] = values if asked else np.where(missing, np.nan, values)
    for name in LOGGED:
        columns[name] = generator.integers(0, 500, rows)
    for name in (*CLIPPED, *BUCKETIZED):
        columns[name] = generator.gamma(2.0, 10.0, rows).astype("float32")
    for name, count in LISTS.items():
        lengths = generator.integers(0 if asked else 1, LONGEST_LIST + 1, rows)
        columns[name] = [
            generator.integers(1, int(count * more) + 1, length).tolist() for length in lengths
        ]
    return pd.DataFrame(columns)


def _ids(generator: np.random.Generator, count: int, rows: int) -> Any:
    """Whole numbers with gaps between them, as ids have."""
    return 1_000 + 3 * generator.integers(0, count, rows)


def workflow(staging: Path, known: pd.DataFrame) -> nvt.Workflow:
    vocabulary = pd.Series(1_000 + 3 * np.arange(ITEMS), name="item_id")
    item = ["item_id"] >> ops.Categorify(
        vocabs={"item_id": vocabulary}, out_path=str(staging / "items")
    )
    categories = [*NUMBERS, *WORDS, *(name for name in LISTS if name != "tags")]
    normalize = ops.Normalize(out_dtype=np.float32)
    tags = ["tags"] >> ops.ListSlice(-5) >> export.categorify(staging / "tags")
    graph = (
        item
        + (categories >> export.categorify(staging / "others"))
        + tags
        + ([HASHED] >> ops.HashBucket(10_000))
        + (list(FILLED) >> ops.FillMissing(fill_val=0) >> normalize)
        + (list(LOGGED) >> ops.LogOp() >> ops.Normalize(out_dtype=np.float32))
        + (
            list(CLIPPED)
            >> ops.Clip(min_value=0, max_value=60)
            >> ops.NormalizeMinMax(out_dtype=np.float32)
        )
        + (list(BUCKETIZED) >> ops.Bucketize(dict.fromkeys(BUCKETIZED, BOUNDARIES)))
    )
    return export.fitted(graph, known)


def wide(staging: Path) -> export.Example:
    generator = np.random.default_rng(export.SEED + 4)
    known = events(generator, EVENTS, asked=False)
    fitted = workflow(staging, known)
    some = known.head(export.TRAINING_ROWS)
    predictor = export.click_predictor(
        [fitted], fitted.output_schema, some, (some["price"].fillna(0) > 15) & (some["hour"] > 1030)
    )
    return export.Example([fitted], predictor, events(generator, ROWS, asked=True))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    export.EXAMPLES[NAME] = wide
    export.export(NAME, arguments.destination)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
