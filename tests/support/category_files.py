"""Category files that NVTabular reads and that are not compiled."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet


def with_a_category_twice(path: Path) -> None:
    """Writes the file again with all of its rows twice, and without pandas' metadata."""
    table = pyarrow.parquet.read_table(path).replace_schema_metadata(None)
    pyarrow.parquet.write_table(pyarrow.concat_tables([table, table]), path)
