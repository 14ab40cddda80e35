"""What a python model's own files say: the strings in them, and whether they make requests.

Nothing is imported or run. Files come from archives: their number, their sizes and the nesting of
what is in them are bounded, and a file that is no Python says nothing.
"""

from __future__ import annotations

import ast
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: A larger file is a table, not a program. Parsing takes some 50 times its size in memory.
MAX_FILE_BYTES = 512 * 1024
#: Of all files of a model together; some seconds of parsing.
MAX_BYTES = 2 * 1024 * 1024
#: Entries of directories that are looked at; a package with its tests has some hundreds.
MAX_ENTRIES = 5_000
#: Longer strings are no names of directories (NAME_MAX, in bytes).
MAX_STRING = 255

_REQUEST_CLASS = "InferenceRequest"


@dataclass(frozen=True)
class PythonFiles:
    """strings: their string literals, each whole. makes_requests: they name the request class."""

    strings: frozenset[str] = frozenset()
    makes_requests: bool = False


def read_python_files(directory: Path) -> PythonFiles:
    """Read the .py files in the directory and below it, those at its top first.

    Links to directories are not followed. Raises nothing for what cannot be read: Triton will.
    """
    strings: set[str] = set()
    names: set[str] = set()
    left = MAX_BYTES
    for path in _python_files(directory):
        source = _source(path, min(left, MAX_FILE_BYTES))
        left -= len(source)
        for node in _nodes(source):
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str) and len(node.value) <= MAX_STRING:
                    strings.add(node.value)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.alias):
                names.add(node.name)
    return PythonFiles(frozenset(strings), _REQUEST_CLASS in names | strings)


def _python_files(top: Path) -> Iterator[Path]:
    waiting = deque([top])
    looked_at = 0
    while waiting:
        try:
            with os.scandir(waiting.popleft()) as entries:
                found = sorted(_at_most(entries, MAX_ENTRIES - looked_at), key=lambda e: e.name)
        except OSError:
            continue
        looked_at += len(found)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.name.endswith(".py") and entry.is_file():
                yield Path(entry.path)


def _at_most(entries: Iterator[os.DirEntry[str]], number: int) -> list[os.DirEntry[str]]:
    return [entry for entry, _ in zip(entries, range(number), strict=False)]


def _source(path: Path, limit: int) -> bytes:
    """The whole file, or nothing when it is longer than the limit or cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError:
        return b""
    return data if len(data) <= limit else b""


def _nodes(source: bytes) -> Iterator[ast.AST]:
    try:
        tree = ast.parse(source)
    except Exception:  # SyntaxError, ValueError for null bytes, MemoryError, RecursionError
        return iter(())
    return ast.walk(tree)
