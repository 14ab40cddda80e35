"""python -m tests.support.damaged_container serve: the container, but with a compiler that errs.

Every label of the first table of each compiled workflow is one too large.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from container.__main__ import main
from container.workflows.table_process import TableProcesses
from ensemble_tools.workflows.program import Table

_written = TableProcesses.write


def write(self: TableProcesses, wanted: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
    """The tables, and the damage."""
    rows = _written(self, wanted, directory)
    labels = directory / "0.beside.0.npy"
    if labels.exists():  # files of a workflow that NVTabular serves are only checked
        np.save(labels, np.load(labels) + 1)
    return rows


TableProcesses.write = write  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
