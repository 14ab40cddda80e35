"""Becoming another program: commands that need more than this library knows are rooms above it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ensemble_tools.signals import hold


def become(module: str, arguments: Sequence[str]) -> None:
    """Become `python -m module`; does not return."""
    hold()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
