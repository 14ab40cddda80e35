"""Reads a Python model's own files: the strings in them, and whether they make requests.

Nothing is imported or run. Files come from archives: their number, their sizes and the nesting of
what is in them are bounded, and a file that is no Python says nothing.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.archive.files import is_directory, is_file, names_in, read_bounded
from ensemble_tools.errors import EntryRefused

#: A larger file is a table, not Python code. Parsing takes some 50 times its size in memory.
MAX_FILE_BYTES = 512 * 1024
#: Of all files of a model together; some seconds of parsing.
MAX_BYTES = 2 * 1024 * 1024
#: Entries of directories that are looked at; a package with its tests has some hundreds.
MAX_ENTRIES = 5_000
#: Longer strings are no names of directories (NAME_MAX, in bytes).
MAX_STRING = 255
#: Operators, calls and attributes in one expression, as in `a.b.c`: each is nested in the next. The
#: parser of Python 3.10 ends the process at some 100,000 (seen with 3.10.13; later ones refuse
#: 5,000), and people write some ten.
MAX_CHAIN = 20_000

#: Texts, comments, words, and marks. A mark that begins a new expression ends a chain. A text that
#: does not end goes to the end of its line or of the file: nothing is looked at twice.
_TOKEN = re.compile(
    rb"""(?s)(?P<text>[rRbBuUfF]{0,2}(?:\"{3}(?:[^\\]|\\.)*?(?:\"{3}|\Z)|'{3}(?:[^\\]|\\.)*?(?:'{3}|\Z)"""
    rb"""|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?))"""
    rb"""|(?P<skip>\#[^\n]*|[^\S\n]+|\\\n)|(?P<word>[\w\x80-\xff]+)"""
    rb"""|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>[,;\n])|(?P<mark>.)"""
)

#: How a file says in which encoding it is (PEP 263), and those in which ASCII is itself.
_CODING = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*(?P<coding>[-\w.]+)")
_PLAIN_CODING = re.compile(rb"(?i)utf[-_]?8(-sig)?|ascii|us-ascii|latin-?1|iso-8859-\d+|cp125\d")

_REQUEST_CLASS = "InferenceRequest"


@dataclass(frozen=True)
class PythonFiles:
    """The strings and requests in Python files."""

    #: Their string literals, each whole.
    strings: frozenset[str] = frozenset()
    #: Whether they name the class of requests.
    makes_requests: bool = False


def read_python_files(*tops: Path, with_requests_only: bool = False) -> PythonFiles:
    """Read the .py files among these, in them as directories and below, those at the top first.

    with_requests_only: files in which the request class does not stand are not parsed.

    Links to directories are not followed. What is no Python says nothing, and what may not be read
    neither: Triton will say so. Raises ResourceLacking and SourceUnreadable, since a file that was
    overlooked may be the one that names other models.
    """
    strings: set[str] = set()
    names: set[str] = set()
    bytes_left = MAX_BYTES
    marker = _REQUEST_CLASS.encode() if with_requests_only else b""
    for path in _find_python_files(tops):
        source = _read_source(path, min(bytes_left, MAX_FILE_BYTES))
        bytes_left -= len(source)
        if marker not in source:
            continue
        for node in _walk_nodes(source):
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


def _find_python_files(tops: Sequence[Path]) -> Iterator[Path]:
    yield from (top for top in tops if top.suffix == ".py" and is_file(top))
    waiting = deque(tops)
    looked_at = 0
    while waiting:
        directory = waiting.popleft()
        for name in names_in(directory)[: MAX_ENTRIES - looked_at]:
            looked_at += 1
            path = directory / name
            if name.endswith(".py") and is_file(path):
                yield path
            elif not path.is_symlink() and is_directory(path):
                waiting.append(path)


def _read_source(path: Path, limit: int) -> bytes:
    """The whole file, or nothing when it is longer than the limit or may not be read."""
    try:
        data = read_bounded(path, limit) or b""
    except EntryRefused:
        return b""
    return data if len(data) <= limit else b""


def _walk_nodes(source: bytes) -> Iterator[ast.AST]:
    if is_chained(source):
        return iter(())
    try:
        tree = ast.parse(source)
    except Exception:  # SyntaxError, ValueError for null bytes, MemoryError, RecursionError
        return iter(())
    return ast.walk(tree)


def is_chained(source: bytes) -> bool:
    """Whether an expression in it is chained beyond MAX_CHAIN, brackets in brackets apart."""
    if len(source) < 2 * MAX_CHAIN:  # a link of a chain has two characters and more
        return False
    declared = _CODING.match(source)
    if declared and not _PLAIN_CODING.fullmatch(declared["coding"]):
        return True  # its text is another than these bytes: +AC4- is a dot in UTF-7
    lengths = [0]
    for token in _TOKEN.finditer(source):
        match token.lastgroup:
            case "text" if len(token.group()) > 2 * MAX_CHAIN and b"f" in token.group()[:2].lower():
                return True  # expressions inside of it
            case "open":
                lengths.append(0)
            case "close":
                if len(lengths) > 1:
                    lengths.pop()
                lengths[-1] += 1
            case "end" if len(lengths) == 1 or token.group() != b"\n":
                lengths[-1] = 0
            case "mark":
                lengths[-1] += 1
        if lengths[-1] > MAX_CHAIN:
            return True
    return False
