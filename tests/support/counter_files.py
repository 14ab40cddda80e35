"""Files of counts, as the process of a compiled workflow keeps them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ensemble_tools.workflows.runtime.counter_file import CounterFile, Sums
from ensemble_tools.workflows.runtime.feature_counts import COUNTS, SUMS, ColumnCounts


def write_counts(directory: Path, *columns: ColumnCounts) -> CounterFile:
    """The file of one process, which holds it for as long as the result is kept."""
    header = [
        {
            "column": it.column,
            **asdict(it.fitted),
            "has_buckets": bool(it.buckets),
            "has_keys": it.has_keys,
        }
        for it in columns
    ]
    file, sums = CounterFile(directory, header), Sums(len(columns))
    for number, counts in enumerate(columns):
        sums.add(number, **{name: getattr(counts, name) for name in (*COUNTS, *SUMS)})
        sums.integers[number, len(COUNTS) :] = counts.buckets or 0
    file.add(max(it.rows_seen for it in columns), sums)
    return file
