"""Docstrings and comments, held against the tree: the modules and files that they name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.architecture.listings import ROOT
from tests.architecture.test_docs import PAGES, PROJECTS, USERS, WRITTEN, exists

FOLDERS = ("container", "ensemble_tools", "serve", "verification", "bench", "images", "tests")
ROOTS = (ROOT, *(ROOT / project / "src" for project in PROJECTS))
_PACKAGES = (*FOLDERS, "merlin_deploy", "merlin_simulator")
#: Files of customers, of other projects' packages, and of one program that writes a page.
_OTHERS = {"etl.py", "speed.md"} | WRITTEN | USERS
_THEIRS = ("merlin/", "/")
#: What is written with dots and is no module: tables of deploy's and the plan's TOML, a logger.
_DOTTED = {"container.environment", "container.speed", "serve.access"}
_FILE = re.compile(r"(?<![\w./<>*…-])[\w./-]+\.(?:py|md|toml|sh)\b(?![\w(*])")
_MODULE = re.compile(rf"(?<![\w./-])(?:{'|'.join(_PACKAGES)})(?:\.[A-Za-z_]\w*)+(?![\w/(])")


@pytest.mark.parametrize("folder", [*FOLDERS, *PROJECTS])
def test_files_and_modules_that_docstrings_name_are_there(folder: str) -> None:
    """What ends like a file is one; what begins with a package leads to a name in it."""
    stale = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "repository" not in path.parts
        if _find_stale(path.read_text())  # in code and strings as well, but without parsing
        for text in _prose(path.read_text())
        for name in _find_stale(text)
    ]
    assert stale == []


def test_modules_that_pages_name_are_there() -> None:
    """A dotted name of a page that begins with a package leads to a name in it."""
    named = {(page, name) for page in PAGES for name in _find_modules(page.read_text())}
    assert named
    assert [(page.name, name) for page, name in named if not _leads_somewhere(name)] == []


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        ("The arguments are api/wire.py's, as serve.errors.CallerError says.", []),
        ("The rest is in gone_file.py.", ["gone_file.py"]),
        ("As serve/gone/errors.py does.", ["serve/gone/errors.py"]),
        ("Raises serve.errors.NoSuchError.", ["serve.errors.NoSuchError"]),
        ("See container.gone.", ["container.gone"]),
        ("As merlin/dag/executors.py does with etl.py.", []),
    ],
)
def test_what_is_stale(text: str, stale: list[str]) -> None:
    """A name is held against the whole tree, another project's is not."""
    assert _find_stale(text) == stale


def _find_stale(text: str) -> list[str]:
    files = (
        name
        for name in _FILE.findall(text)
        if name not in _OTHERS and not name.startswith(_THEIRS) and not exists(name.lstrip("./"))
    )
    return [*files, *(name for name in _find_modules(text) if not _leads_somewhere(name))]


def _find_modules(text: str) -> Iterator[str]:
    for name in _MODULE.findall(text):
        if name not in _DOTTED and not _FILE.fullmatch(name):
            yield name


@cache
def _leads_somewhere(name: str) -> bool:
    """Whether it is a folder, a module, or a word in a module."""
    parts = name.split(".")
    if any(root.joinpath(*parts).is_dir() for root in ROOTS):
        return True
    for length in range(len(parts), 0, -1):
        for root in ROOTS:
            for module in (
                root.joinpath(*parts[:length]).with_suffix(".py"),
                root.joinpath(*parts[:length], "__init__.py"),
            ):
                if module.is_file():
                    return length == len(parts) or bool(
                        re.search(rf"\b{parts[length]}\b", module.read_text())
                    )
    return False


def _prose(source: str) -> Iterator[str]:
    """Docstrings and comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node, clean=False) or ""
    yield from re.findall(r"(?:^|\s)#:? .*", source)
