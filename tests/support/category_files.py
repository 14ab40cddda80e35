"""Category files as NVTabular writes them, and with faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.runtime.lookups import Lookup, read_lookup
from ensemble_tools.workflows.tables import write_tables
from ensemble_tools.workflows.tables.category_files import CategoryFiles


def with_a_category_twice(path: Path) -> None:
    """Writes the file again with all of its rows twice, and without pandas' metadata."""
    table = pyarrow.parquet.read_table(path).replace_schema_metadata(None)
    pyarrow.parquet.write_table(pyarrow.concat_tables([table, table]), path)


def parquet(path: Path, index: Any = None, **columns: Any) -> Path:
    """A file as pandas writes it. index: a list of labels, or a dict of pandas' metadata."""
    data = {name: pyarrow.array(values) for name, values in columns.items()}
    described: Any = index
    if isinstance(index, (list, pyarrow.Array)):
        data["__index_level_0__"] = pyarrow.array(index)
        described = "__index_level_0__"
    table = pyarrow.table(data)
    if index is not None:
        table = table.replace_schema_metadata(
            {"pandas": json.dumps({"index_columns": [described]})}
        )
    pyarrow.parquet.write_table(table, path)
    return path


def span(start: int, stop: int, step: int = 1) -> dict[str, Any]:
    """pandas' metadata of an index that is a range."""
    return {"kind": "range", "name": None, "start": start, "stop": stop, "step": step}


def with_metadata(path: Path, metadata: Any) -> Path:
    """A file with that as pandas' metadata."""
    table = pyarrow.table({"a": np.array([10, 20, 30])})
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    pyarrow.parquet.write_table(table.replace_schema_metadata({"pandas": text}), path)
    return path


def write_broken(path: Path, fault: str) -> None:
    """A category file of `a` with whole numbers, and something wrong with it."""
    numbers = np.array([10, 20, 30])
    if fault == "missing":
        return
    if fault == "several parts":
        path.mkdir()
        parquet(path / "part.0.parquet", a=numbers)
        parquet(path / "part.1.parquet", a=numbers)
    elif fault == "no parts":
        path.mkdir()
    elif fault == "no parquet":
        path.write_bytes(b"PAR1 but not")
    elif fault == "empty":
        path.write_bytes(b"")
    elif fault == "cut off":
        parquet(path, a=numbers)
        path.write_bytes(path.read_bytes()[:-30])
    elif fault == "damaged":
        parquet(path, a=np.arange(10_000))
        content = bytearray(path.read_bytes())
        content[50:2000] = b"\xee" * 1950
        path.write_bytes(content)
    elif fault == "another column":
        parquet(path, b=numbers)
    elif fault == "texts":
        parquet(path, a=["10", "20"])
    elif fault == "lists":
        parquet(path, a=[[10], [20]])
    elif fault == "times":
        parquet(path, a=pyarrow.array([1, 2], pyarrow.timestamp("s")))
    elif fault == "twice":
        parquet(path, a=np.array([10, 20, 10]))
    elif fault == "several levels":
        parquet(path, a=numbers)
        table = pyarrow.table({"a": numbers}).replace_schema_metadata(
            {"pandas": json.dumps({"index_columns": ["a", "b"]})}
        )
        pyarrow.parquet.write_table(table, path)
    elif fault == "an index of another size":
        parquet(path, span(0, 9), a=numbers)
    elif fault == "an index that is not there":
        table = pyarrow.table({"a": numbers}).replace_schema_metadata(
            {"pandas": json.dumps({"index_columns": ["gone"]})}
        )
        pyarrow.parquet.write_table(table, path)
    elif fault == "an unknown index":
        parquet(path, {"kind": "calendar"}, a=numbers)
    elif fault == "no metadata":
        table = pyarrow.table({"a": numbers}).replace_schema_metadata({"pandas": "{"})
        pyarrow.parquet.write_table(table, path)
    elif fault == "texts as an index":
        parquet(path, ["x", "y", "z"], a=numbers)
    elif fault == "an index with nulls":
        parquet(path, [3, None, 5], a=numbers)


FAULTS = (
    "missing",
    "several parts",
    "no parts",
    "no parquet",
    "empty",
    "cut off",
    "damaged",
    "another column",
    "texts",
    "lists",
    "times",
    "twice",
    "several levels",
    "an index of another size",
    "an index that is not there",
    "an unknown index",
    "no metadata",
    "texts as an index",
    "an index with nulls",
)


def looked_up(directory: Path, table: Table, files: CategoryFiles | None = None) -> Lookup:
    """The table, written below the directory and read again."""
    place = directory / "written"
    place.mkdir(exist_ok=True)
    (row,) = write_tables([table], place, files)
    return read_lookup(place, row)


def labels(lookup: Lookup, asked: Any) -> list[int | None]:
    """What stands beside values as their label, None for those that are not found."""
    found, places = lookup.find([np.asarray(asked)])
    return [
        label if hit else None
        for hit, label in zip(found, lookup.beside("label", places).tolist(), strict=True)
    ]
