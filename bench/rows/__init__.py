"""What is measured: one table of rows, in the order in which they are printed."""

from __future__ import annotations

from bench.rows import beside, invoking, loading, merlin, process
from bench.rows.row import Row, Run

__all__ = ["ROWS", "Row", "Run"]

ROWS: tuple[Row, ...] = (
    *loading.ROWS,
    *invoking.ROWS,
    *beside.ROWS,
    *merlin.ROWS,
    *process.ROWS,
)
