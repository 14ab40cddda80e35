"""An export with Merlin's PredictImplicit, and what Merlin answers with it.

Run in the environment that has implicit: implicit_export.py DEST

DEST/export          what Ensemble.export wrote
DEST/answers.json    lists of users -> ids and scores that Merlin's own operator recommends
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import implicit
import numpy as np
from merlin.schema import ColumnSchema, Schema
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.implicit import PredictImplicit
from merlin.table import TensorTable
from scipy.sparse import csr_matrix

USERS, ITEMS, RECOMMENDED = 40, 30, 5
ASKED: tuple[list[list[int]], ...] = ([[3]], [[0], [39], [7]])


def main(destination: str) -> None:
    target = Path(destination)
    generator = np.random.default_rng(1)
    seen = csr_matrix((generator.random((USERS, ITEMS)) < 0.2).astype("float32"))
    answers: dict[str, list[object]] = {}
    for kind in ("als.AlternatingLeastSquares", "bpr.BayesianPersonalizedRanking"):
        module, _, name = kind.partition(".")
        library = getattr(implicit, module)
        model = getattr(library, name)(factors=8, iterations=5, random_state=1)
        model.fit(seen, show_progress=False)
        found = ["user_id"] >> PredictImplicit(model, num_to_recommend=RECOMMENDED)
        schema = Schema([ColumnSchema("user_id", dtype=np.int64, dims=(None, 1))])
        ensemble = Ensemble(found, schema)
        (target / module).mkdir(parents=True)
        ensemble.export(str(target / module / "export"))
        answers[module] = []
        for users in ASKED:
            table = TensorTable({"user_id": np.array(users, dtype="int64")})
            made = ensemble.transform(table)
            arrays = {column: made[column].values.ravel().tolist() for column in made}
            answers[module].append((users, arrays))
    (target / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
