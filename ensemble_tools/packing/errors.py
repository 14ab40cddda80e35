"""What cannot become an archive as it is. Its message is one sentence.

EnsembleToolsError
└── TreeUnusable  a link, a special file or a name that no archive should carry
"""

from __future__ import annotations

from pathlib import Path

from ensemble_tools.errors import EnsembleToolsError


class TreeUnusable(EnsembleToolsError):
    """Something below a directory that cannot be copied or archived as it is."""

    def __init__(self, path: Path, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}; {remedy}")
