"""docs/security.md names tests that exist, and one for each vulnerability."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text()
NAMED = re.compile(r"`((?:\w+/)?test_\w+\.py)::(test_\w+)`")
ROWS = re.findall(r"^\| (CVE-\d{4}-\d{4,}) \|(.*)\|$", PAGE, re.MULTILINE)


def test_named_tests_exist() -> None:
    """Each stands in the file that is named, which there is once."""
    named = NAMED.findall(PAGE)
    assert len(named) > 100
    folders = (ROOT / "tests", ROOT / "simulator/tests")
    paths = [path for folder in folders for path in folder.rglob("test_*.py")]
    for file, test in named:
        (path,) = (path for path in paths if path.match(file))
        assert re.search(rf"^(?:async )?def {test}\(", path.read_text(), re.MULTILINE), (file, test)


def test_each_vulnerability_has_a_row_and_a_test() -> None:
    """In the order of their numbers, none twice; only what nothing holds has no test."""
    ids = [name for name, _ in ROWS]
    assert ids == sorted(set(ids), key=lambda name: [int(part) for part in name.split("-")[1:]])
    assert len(ids) >= 65
    for name, row in ROWS:
        what, alone, reaches, stops, held = row.strip().split(" | ")
        assert NAMED.search(held) or (held == "none" and reaches in ("open", "no")), name
        assert what, name
        assert alone, name
        assert stops, name


def test_merlins_vulnerabilities_have_rows() -> None:
    """Of each library in the order of their numbers, none twice, with what stops it."""
    rows = re.findall(r"^\| ([\w]+) \| (CVE-\d{4}-\d{4,}) \|(.*)\|$", PAGE, re.MULTILINE)
    ids = [name for _, name, _ in rows]
    assert len(set(ids)) == len(ids) >= 9
    for library in {name for name, _, _ in rows}:
        of_one = [name for found, name, _ in rows if found == library]
        assert of_one == sorted(of_one)
    for _, name, row in rows:
        what, reaches, stops = row.strip().split(" | ")
        assert what, name
        assert stops, name
        assert reaches == "no" or NAMED.search(stops) or re.search(r"as CVE-", stops), name


def test_links_lead_somewhere() -> None:
    """Each relative link of the page leads to a file of the checkout."""
    for page in (ROOT / "docs/security.md", ROOT / "SECURITY.md"):
        links = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
        assert links
        assert [link for link in links if not (page.parent / link).exists()] == []
