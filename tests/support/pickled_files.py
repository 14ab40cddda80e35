"""Files that run something when they are unpickled, as attackers and as frameworks write them."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet


class Touches:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def hostile(marker: Path) -> bytes:
    """A pickle that makes the file."""
    return pickle.dumps(Touches(marker))


def write_torch(path: Path, *entries: str, content: bytes = b"some") -> None:
    """A zip archive as torch writes it, with these entries in the folder that it names."""
    with zipfile.ZipFile(path, "w") as archive:
        for entry in entries:
            archive.writestr(f"{path.stem}/{entry}", content)


def write_parquet(path: Path, marker: Path) -> None:
    """Numbers of a type that pyarrow before 14.0.1 unpickles, which makes the file."""
    described = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": hostile(marker),
    }
    schema = pyarrow.schema([pyarrow.field("a", pyarrow.int64(), metadata=described)])
    pyarrow.parquet.write_table(pyarrow.table([pyarrow.array([10, 20])], schema=schema), path)


#: Entries of what torch.save and torch.jit.save write.
SAVED = ("data.pkl", "byteorder", "data/0", "version")
SCRIPTED = ("data.pkl", "code/__torch__.py", "constants.pkl", "version")
