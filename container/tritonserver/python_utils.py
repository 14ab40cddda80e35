"""Triton's file of Python functions that models import, with those for strings made faster.

tritonserver's stub calls them by their names in that file. They are replaced only where they are
those that were compared with the new ones (2.36 to 2.51 have the same).
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

UTILS = "triton_python_backend_utils.py"
#: Behind it stands what is not Triton's.
MARK = "\n\n# --- by the container: the same, faster\n\n"

_FASTER = Path(__file__).parents[1] / "backends/shared/bytes_tensors.py"
#: Of their sources, without comments and docstrings (SHA-256).
_KNOWN = {
    "serialize_byte_tensor": "d16496faf3580c9c2f12df2c204e61e4f0edf5e192a930349a52cf0784a6e022",
    "deserialize_bytes_tensor": "27efc9524bb54b0c8aacca0ee00be95a8e99175655683c8ff993285f1c0f937c",
}


def write_faster_utils(utils: Path) -> str | None:
    """The file's text with the faster functions in it; None where Triton's are not the known ones.

    utils: the file, which need not be there.
    """
    if not utils.is_file():
        return None
    text = utils.read_text("utf-8")
    if digest_functions(text) != _KNOWN:
        return None
    return text + MARK + _FASTER.read_text("utf-8")


def digest_functions(text: str) -> dict[str, str]:
    """By name, of the two functions that a text defines."""
    try:
        defined = ast.parse(text).body
    except (SyntaxError, ValueError):
        return {}
    return {
        node.name: hashlib.sha256(_strip(node).encode()).hexdigest()
        for node in defined
        if isinstance(node, ast.FunctionDef) and node.name in _KNOWN
    }


def _strip(function: ast.FunctionDef) -> str:
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:]
    return ast.unparse(function)
