"""What is measured: tables of rows, in the order in which they are printed."""

from __future__ import annotations

from collections.abc import Mapping

from bench.report import FRONTEND, OBSERVING, WORKFLOWS, Suite
from bench.rows import (
    beside,
    fitting,
    invoking,
    loading,
    merlin,
    observing,
    process,
    sharing,
    tutorials,
    workflows,
)
from bench.rows.row import Row, Run

__all__ = ["ROWS", "SUITES", "Row", "Run"]

ROWS: tuple[Row, ...] = (
    *loading.ROWS,
    *invoking.ROWS,
    *beside.ROWS,
    *merlin.ROWS,
    *process.ROWS,
)

#: By the name that the command line gives them; the first is measured where none is named.
SUITES: Mapping[str, tuple[Suite, tuple[Row, ...]]] = {
    "frontend": (FRONTEND, ROWS),
    "workflows": (
        WORKFLOWS,
        (*workflows.ROWS, *tutorials.ROWS, *sharing.ROWS, *fitting.ROWS),
    ),
    "observing": (OBSERVING, observing.ROWS),
}
