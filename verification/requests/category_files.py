"""The categories that an archive's workflows know, read by the models' Python.

NVTabular writes them as parquet (`unique.<column>.parquet`), which the server's
own environment cannot read. Where this fails, requests hold small integers instead: nothing that a
verification needs depends on it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from container.machine.children import die_with_parent
from ensemble_tools.archive.repository import ModelRepository
from verification.requests.columns import Categories

#: Categories read of each file; their files may hold millions.
MOST_VALUES = 1000
_TIMEOUT_S = 60.0
_READER = """
import json, sys
import pyarrow.parquet as parquet
categories = {}
for path in sys.argv[2:]:
    try:
        file = parquet.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if not name.endswith("_size")]
        batch = next(file.iter_batches(batch_size=int(sys.argv[1]), columns=names))
        for name in names:
            values = [v for v in batch.column(name).to_pylist() if isinstance(v, (int, str))]
            categories.setdefault(name, []).extend(values)
    except Exception as error:
        print(path, error, file=sys.stderr)
print(json.dumps(categories))
"""


def find_category_files(repository: ModelRepository) -> tuple[Path, ...]:
    """The category files of every model's served version, where its workflow has them."""
    return tuple(
        path
        for model in repository.models.values()
        if model.workflow is not None
        for path in model.workflow.categories
    )


def read_categories(files: tuple[Path, ...], interpreter: Path | None) -> Categories:
    """The categories of each column; empty where nothing can be read. Blocking, under a second."""
    if not files or interpreter is None:
        return {}
    command = [
        *die_with_parent(),
        str(interpreter),
        *("-I", "-c", _READER, str(MOST_VALUES)),
        *map(str, files),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
        categories: Any = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return {str(name): list(values) for name, values in categories.items()}
