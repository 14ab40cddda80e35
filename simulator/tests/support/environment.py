"""What a Python that a test starts finds the package by."""

from __future__ import annotations

import os
from pathlib import Path

_SOURCES = Path(__file__).parents[2] / "src"


def environment_of_ours() -> dict[str, str]:
    """This process's, with the package that need not be installed."""
    return {**os.environ, "PYTHONPATH": str(_SOURCES)}
