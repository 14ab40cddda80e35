"""Tables as files, and keys of which there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableUnusable, write_tables
from ensemble_tools.workflows.tables.lookup_files import LookupFiles
from tests.support.category_files import parquet


def test_two_categories_of_one_hash_are_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "f", a=["beer", "ale"])
    lookups = LookupFiles(tmp_path, hash_words=lambda words: np.zeros(len(words), np.uint64))
    with pytest.raises(TableUnusable, match="have one hash"):
        write_tables([Table(path, ("a",), ("text",))], tmp_path, lookups=lookups)
