"""Files that run something when they are unpickled, as attackers and as frameworks write them."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any


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


#: Entries of what torch.save and torch.jit.save write.
SAVED = ("data.pkl", "byteorder", "data/0", "version")
SCRIPTED = ("data.pkl", "code/__torch__.py", "constants.pkl", "version")
