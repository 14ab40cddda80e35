"""What the README says, held against the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from container.settings import UNITS, settings_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_settings_table_is_the_codes() -> None:
    """Every setting stands in the README with the code's own effect and default."""
    assert settings_table().strip() in README
    assert UNITS in README


def test_make_targets_exist() -> None:
    """Each `make` target that the README names is one."""
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    listed = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert named <= set(re.findall(r"^\s+make ([a-z]+)", listed, re.MULTILINE))


def test_links_lead_somewhere() -> None:
    """Each relative link of the README leads to a file or folder of the checkout."""
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_expected_numbers_of_the_session_are_the_examples() -> None:
    """The transcript's expected numbers are the committed ones."""
    expected = (ROOT / "examples" / "merlin" / "dense" / "expected.json").read_text()
    assert expected.strip() in README
