"""Category files of which no table is made."""

from __future__ import annotations

from pathlib import Path


class TableUnusable(Exception):
    """A category file that is missing, or of another schema than the operator's."""


class TableBroken(TableUnusable):
    """A category file that NVTabular cannot read either, so that each of its requests fails."""

    def __init__(self, path: Path, found: str) -> None:
        self.path, self.found = path, found
        super().__init__(f"the category file {path.name} {found}")
