"""The pages, held against the tree: their names, links, listings, commands and width."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from container.settings.reading import UNITS, format_settings_table
from tests.architecture.listings import (
    LISTINGS,
    ROOT,
    with_listing,
)

WIDTH = 100
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
#: Projects of their own under this roof, each with its pages.
PROJECTS = ("deploy", "simulator")
DOCS = [
    page for folder in ("", *PROJECTS) for page in sorted((ROOT / folder / "docs").glob("*.md"))
]
EXAMPLES = sorted((ROOT / "examples").rglob("README.md"))
FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
THEIRS = [ROOT / project / "README.md" for project in PROJECTS]
PAGES = [*FRONT, *DOCS, *DECISIONS, *EXAMPLES, *THEIRS]
#: Where modules name decisions.
PACKAGES = ("container", "ensemble_tools", "serve", "verification")
#: What a name of a file in the tree ends with.
SUFFIXES = {".md", ".py", ".sh", ".toml", ".txt", ".yml"}
#: What programs write, and what tritonserver has: no files of the tree.
WRITTEN = {"report.md", "served_model.py", "triton_python_backend_utils.py"}
#: What users write, under this name in all pages; and where sessions do.
USERS = {"CONFIG.toml", "PLAN.toml"}
SCRATCH = "/tmp/"


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


each_page = pytest.mark.parametrize("page", PAGES, ids=relative)


@pytest.mark.parametrize("page", LISTINGS, ids=relative)
def test_listings_are_those_of_the_tree(page: Path) -> None:
    """`make listings` would write what stands there."""
    assert with_listing(page.read_text(), LISTINGS[page]()) == page.read_text()


def test_contributing_has_every_package() -> None:
    """With what it is and may import."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("## How to add")[0]
    packages = [*PROJECTS, *(init.parent.name for init in ROOT.glob("*/__init__.py"))]
    assert [name for name in packages if f"`{name}/`" not in table] == []


@each_page
def test_names_of_files_are_the_trees(page: Path) -> None:
    """A page names no file and no folder that there is not."""
    assert [name for name in _names(page.read_text()) if not exists(name)] == []


def _names(text: str) -> Iterator[str]:
    """What looks like a path from the root, or like the end of one."""
    for token in re.findall(r"[\w./~-]+(?![\w./~…<*-])", re.sub(r"https?://\S+", "", text)):
        name = token.removeprefix("./").replace("../", "").rstrip(".").rstrip("/")
        if name.startswith(SCRATCH):
            continue
        top, slash, _ = name.partition("/")
        # What a page's commands make, wherever it is read.
        if name.startswith("/tmp/"):
            continue
        if (slash and top in _top()) or (
            Path(name).suffix in SUFFIXES and name not in WRITTEN | USERS
        ):
            yield name


@cache
def exists(name: str) -> bool:
    """In this checkout or in a project of it, whatever the machine has at an absolute path."""
    roots = (ROOT / project for project in ("", *PROJECTS))
    return any((root / name.lstrip("/")).exists() for root in roots) or (
        f"/{name}".replace("//", "/") in _ends()
    )


@cache
def _top() -> frozenset[str]:
    return frozenset(path.name for path in ROOT.iterdir() if not path.name.startswith("."))


@cache
def _ends() -> frozenset[str]:
    """Every end of a file's path that begins with a slash."""
    ends = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for file in files:
            parts = Path(folder, file).relative_to(ROOT).parts
            ends |= {f"/{'/'.join(parts[start:])}" for start in range(len(parts))}
    return frozenset(ends)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link leads to a file or folder of the checkout, and its anchor to a heading."""
    for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_every_story_has_its_row() -> None:
    """Each page in examples/ is linked in their table, beside a command that a test runs."""
    front = ROOT / "examples/README.md"
    rows = re.findall(r"^\| \[.+\]\((.+)\) \|.*\| `(.+)` \|$", front.read_text(), re.MULTILINE)
    assert {front.parent / page for page, _ in rows} == {*EXAMPLES} - {front}
    tests = (ROOT / "tests/end_to_end/test_stories.py").read_text()
    for _, command in rows:
        module = command.removeprefix(".venv/bin/python -m ").split()[0]
        assert f'"{module}"' in tests, command


def _anchors(page: Path) -> set[str]:
    """The headings as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_lines_are_short(page: Path) -> None:
    """At most 100 characters, but for tables, pictures and what stands as code."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "![", "# "))]
    assert [line for line in lines if len(line) > WIDTH] == []


def test_the_codes_decisions_are_there() -> None:
    """Each `decision N` of a module has its heading in a page of docs/decisions."""
    headings = "".join(page.read_text() for page in DECISIONS)
    known = set(re.findall(r"^## (\d+)\. ", headings, re.MULTILINE))
    modules = [path for top in PACKAGES for path in (ROOT / top).rglob("*.py")]
    named = {
        number for path in modules for number in re.findall(r"\bdecision (\d+)", path.read_text())
    }
    assert named
    assert named <= known


@pytest.mark.parametrize("page", DOCS, ids=relative)
def test_pages_say_for_whom_they_are(page: Path) -> None:
    """It is the first thing that a reader wants to know."""
    assert re.match(r"# [^\n]+\n\nFor (those|programs) ", page.read_text())


@each_page
def test_make_targets_exist(page: Path) -> None:
    """Each `make` target that a page names is one."""
    commands = re.findall(
        r"(?:^|`)make (?:-C (\w+) )?([a-z][a-z-]*)", page.read_text(), re.MULTILINE
    )
    here = page.parent.relative_to(ROOT).parts[:1]
    for folder, target in commands:
        folders = [folder] if folder else ["", *({*here} & {*PROJECTS})]
        assert any(target in _make_targets(each) for each in folders), target


@cache
def _make_targets(folder: str) -> frozenset[str]:
    """Of a project, or of the root."""
    listed = subprocess.run(
        ["make", "help"], cwd=ROOT / folder, capture_output=True, text=True, timeout=120, check=True
    ).stdout
    return frozenset(re.findall(r"^\s+make (?:-C \w+ )?([a-z-]+)", listed, re.MULTILINE))


def test_settings_table_is_the_codes() -> None:
    """Every setting stands in its page with the code's own effect and default."""
    page = (ROOT / "docs/settings.md").read_text()
    assert format_settings_table().strip() in page
    assert UNITS in page


def test_settings_of_the_pages_exist() -> None:
    """No page names a variable of ours that the container does not read."""
    known = set(re.findall(r"`((?:SERVE|SAGEMAKER)_[A-Z_]+)`", format_settings_table()))
    for page in PAGES:
        named = set(re.findall(r"\b(?:SERVE|SAGEMAKER_TRITON)_[A-Z_]+[A-Z]\b", page.read_text()))
        assert named <= known, relative(page)
