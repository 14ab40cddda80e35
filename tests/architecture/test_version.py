"""The version stands in two files, which say the same."""

from __future__ import annotations

import re
from pathlib import Path

from container import __version__

ROOT = Path(__file__).parents[2]


def test_the_containers_version_is_the_projects() -> None:
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert found is not None
    assert found[1] == __version__
