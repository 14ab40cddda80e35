"""What the README says and how long it may be; test_docs.py holds what it shares with the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.test_docs import DOCS, THEIRS, relative

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


# CONTRIBUTING.md has 80 lines for what to do, and 20 for the words of the code.
@pytest.mark.parametrize(("page", "most"), [("README.md", 200), ("CONTRIBUTING.md", 100)])
def test_the_front_door_is_short(page: str, most: int) -> None:
    """A stranger reads it whole."""
    assert len((ROOT / page).read_text().splitlines()) <= most


def test_order_of_the_sections() -> None:
    """What it is and shows, with the two commands, stands in front of the first heading."""
    first, *sections = re.split(r"^## (.+)\n", README, flags=re.MULTILINE)
    assert {"make demo", "make test"} <= set(re.findall(r"^make \w+", first, re.MULTILINE))
    assert sections[::2] == [
        "On SageMaker",
        "One session with curl",
        "What is served",
        "How fast",
        "Where to read on",
    ]


def test_every_page_is_led_to() -> None:
    """Whoever reads on finds each page from the README, or from a page that it leads to."""
    links = set(re.findall(r"\]\(([^)#]+)", README))
    pages = {relative(page) for page in (*DOCS, *THEIRS)}
    # From docs/archives.md and simulator/README.md.
    linked_to = {"docs/explain-format.md", "simulator/docs/aws-calls.md"}
    assert pages - links == linked_to


def test_expected_numbers_of_the_session_are_the_examples() -> None:
    """The transcript's expected numbers are the committed ones."""
    expected = (ROOT / "examples" / "merlin" / "dense" / "expected.json").read_text()
    assert expected.strip() in README
