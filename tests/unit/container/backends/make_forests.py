"""Writes the forests of test_fil.py; run by the models' Python that has the libraries.

python make_forests.py DIRECTORY -> DIRECTORY/<name>.<ending> and DIRECTORY/answers.json: the rows,
a missing value among them, and for each forest what its own library answers to them.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import treelite
import xgboost

SEED = 23
TREES = 4
ROWS, FEATURES = 300, 3


def main(directory: Path) -> None:
    warnings.filterwarnings("ignore")  # of XGBoost, that one of its formats is old
    generator = np.random.default_rng(SEED)
    features = generator.normal(size=(ROWS, FEATURES)).astype(np.float32)
    labels = {
        "number": features @ np.array([1, 2, 4]),
        "class": (features[:, 0] > features[:, 1]).astype(int),
        "third": np.digitize(features[:, 2], [-0.5, 0.5]),
        "pair": features[:, :2],
    }
    rows = features[:6].copy()
    rows[3, 1] = np.nan
    answers: dict[str, Any] = {
        "rows": [[None if np.isnan(x) else float(x) for x in row] for row in rows]
    }

    def of_xgboost(name: str, label: str, *endings: str, **parameters: Any) -> None:
        booster = xgboost.train(
            {"max_depth": 3, "seed": SEED, "nthread": 1, **parameters},
            xgboost.DMatrix(features, label=labels[label], feature_names=["x", "y", "z"]),
            TREES,
        )
        for ending in endings:
            booster.save_model(directory / f"{name}.{ending}")
        data = xgboost.DMatrix(rows, feature_names=["x", "y", "z"])
        answers[name] = booster.predict(data).tolist()

    def of_lightgbm(name: str, label: str, **parameters: Any) -> None:
        settings = {"num_leaves": 5, "seed": SEED, "num_threads": 1, "verbosity": -1}
        booster = lightgbm.train(
            {**settings, **parameters}, lightgbm.Dataset(features, label=labels[label]), TREES
        )
        booster.save_model(str(directory / f"{name}.txt"))
        answers[name] = booster.predict(rows).tolist()

    of_xgboost("regressor", "number", "json", objective="reg:squarederror")
    of_xgboost("binary", "class", "json", "ubj", "deprecated", objective="binary:logistic")
    of_xgboost("softprob", "third", "json", objective="multi:softprob", num_class=3)
    of_xgboost("softmax", "third", "json", objective="multi:softmax", num_class=3)
    of_xgboost("linear", "number", "json", booster="gblinear")
    of_xgboost("hinge", "class", "json", objective="binary:hinge")
    of_xgboost("targets", "pair", "json", objective="reg:squarederror")
    of_lightgbm("leaves", "number", objective="regression")
    of_lightgbm("binary_leaves", "class", objective="binary")
    of_lightgbm("multi_leaves", "third", objective="multiclass", num_class=3)
    checkpoint = treelite.Model.load(str(directory / "multi_leaves.txt"), "lightgbm")
    checkpoint.serialize(str(directory / "checkpoint.tl"))
    (directory / "garbage.json").write_text('{"no": "forest"}')
    (directory / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
