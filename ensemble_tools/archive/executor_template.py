"""Whether an executor's model.py, or a workflow step's, is the one that merlin-systems exports.

An ensemble does what Merlin's own model.py does with the graph. A user's change to that file would
be lost in it without a word, so only the known files pass. They are compared in meaning: comments,
docstrings and layout do not count. Of each only the digest of that form is kept here.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ensemble_tools.archive.files import is_file, read_bounded
from ensemble_tools.errors import shortened

#: Merlin's own are of some 6,000 bytes.
MAX_TEMPLATE_BYTES = 64 * 1024
#: Merlin's own are nested some 40 lists and nodes deep.
MAX_NESTING = 200

#: Digest of the file -> the release of merlin-systems, or the commit between two, that had it.
_MERLIN_SYSTEMS = {
    "e2eed2b93975684b6dd7c7db4a612df9bca65f5091eee4bed6d8b602edca4d98": "commit 1fb8cabe",
    "0f201c9f85d9a4f3a1b06e07fd15f361f50595fae21fc9be3920632132fc7d38": "commit 53725d4c",
    "11989f7d535df61977579254611f3b8640c8c719dfe23d3e8d88592353cada68": "commit 9a5deabc",
    "2bffd2a771db716af2236e9502418f7b55305f678d4b1d953fbb361704c9b650": "0.8",
    "fa351d0c7ee5480311e91b2ff3e866d2b53bb3189e976b66ec081f25062569ae": "0.9",
    "6805bf63e0afb10c52a41cf3bb074f4521f5e77a8f7fe2d5e7d31b60fd5ee7dc": "23.02",
    "ee839b74a15fbf27931c0139fdf5a102c287dca9eca2e91658ce2ad03418e56d": "23.04",
    "2c1b4277dc77fc21a2c05b3cbd822737dee9272a481e4c6b48748b125d4568f0": "commit 20d12423",
    "3b653041ce8a25a8017d80834f7dc65ae863cc02982b6820911a7b5a4e41074a": "commit e94d2a92",
    "1dfa56f0527423bd7fee1f059c3877f9c0497cf930678761a4347cd5f94b7141": "23.05",
    "1c028060b03bde1ebc4281ef2ba7eaa4d4ce7e3d20e566bdbfeeda176259f7b8": "23.06",
    "be3e3504c7979386b384e21ceacfe607c74603af7b647aca9840e3a9c685cb62": "23.08",
}
#: merlin/systems/triton/conversions.py is the same in these, and another one before.
_CONVERTING = {"23.06", "23.08"}

#: The workflow step's file; releases since 23.05 have this one.
_WORKFLOW_MODEL = "b05fb45ea474116d2d4cd9daad8c0bee21e3f69835da294a6b931ca3b8d3ee94"


@dataclass(frozen=True)
class Template:
    """How an executor's model.py was recognised."""

    #: The release of merlin-systems that exports this file.
    release: str = ""
    #: How it differs from all files that are known; empty for one of them, and for a file that is
    #: not there, which is another fault.
    customised: str = ""

    @property
    def converts(self) -> bool:
        """Whether it comes from a release whose executor converts columns as those since 23.06."""
        return self.release in _CONVERTING


def read_template(model_file: Path) -> Template:
    """Recognise an executor's model.py; raises as read_bounded does, and nothing for its text."""
    data = read_bounded(model_file, MAX_TEMPLATE_BYTES) if is_file(model_file) else None
    if data is None:
        return Template()
    try:
        file_digest = digest(data.decode()) if len(data) <= MAX_TEMPLATE_BYTES else "too long"
    except Exception as error:  # what is no Python makes the parser raise SyntaxError and others
        return Template(customised=f"it does not parse: {shortened(str(error))}")
    if file_digest in _MERLIN_SYSTEMS:
        return Template(_MERLIN_SYSTEMS[file_digest])
    return Template(customised="it differs in more than comments")


def is_workflow_model(model_file: Path) -> bool:
    """Whether a workflow step's model.py is Merlin's of 23.08; False for what is no Python.

    Raises as read_bounded does.
    """
    data = read_bounded(model_file, MAX_TEMPLATE_BYTES) if is_file(model_file) else None
    if data is None or b"nvtabular" not in data or len(data) > MAX_TEMPLATE_BYTES:
        return False
    try:
        return digest(data.decode()) == _WORKFLOW_MODEL
    except Exception:  # what is no Python makes the parser raise SyntaxError and others
        return False


@lru_cache(maxsize=16)  # most archives have the same two
def digest(source: str) -> str:
    """Equal for sources of one meaning, docstrings left out; the same in all Pythons.

    Raises what the parser raises.
    """
    form = "".join(_normalize(ast.parse(source)))
    return hashlib.sha256(form.encode(errors="surrogatepass")).hexdigest()


def _normalize(node: object, depth: int = 0) -> Iterator[str]:
    """The tree as text, without positions and empty fields: newer Pythons add some of those."""
    if depth > MAX_NESTING:
        raise ValueError("nested too deeply")
    if isinstance(node, list):
        yield "["
        for item in node:
            yield from _normalize(item, depth + 1)
        yield "]"
    elif isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            body = _drop_docstring(node, value) if name == "body" else value
            if body is not None and body != [] and name not in ("kind", "type_comment"):
                yield f" {name}="
                yield from _normalize(body, depth + 1)
        yield ")"
    else:
        yield f" {node!r}"


def _drop_docstring(node: ast.AST, body: object) -> object:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return body
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
