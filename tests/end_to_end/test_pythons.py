"""`make pythons`: what it says of a pair of Pythons is so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pythons.asking import ask
from tests.support.container import ROOT

pytestmark = [pytest.mark.thorough, pytest.mark.tritonserver]


def test_a_pair_that_serves_merlins_numbers() -> None:
    """Nothing is said against this checkout's own two."""
    assert ask(Path(sys.executable), ROOT / ".venv-merlin/bin/python") == ""


def test_a_pair_that_does_not(tmp_path: Path) -> None:
    """Models without numpy load nothing, and the line says why."""
    empty = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", empty], check=True, timeout=60)
    assert "No module named 'numpy'" in ask(Path(sys.executable), empty / "bin/python")
