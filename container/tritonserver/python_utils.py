"""Triton's file of Python functions that models import, made faster.

tritonserver's stub imports it before the model, and calls its functions for strings by their names.
Functions are replaced only where they are those that were compared with the new ones (2.36 to 2.51
have the same). Generated steps are spared a part of numpy.
"""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

UTILS = "triton_python_backend_utils.py"
#: Between them stands what is Triton's.
BEGIN, END = "\n\n# --- Triton's\n\n", "\n\n# --- by the container: the same, faster\n\n"

_SHARED = Path(__file__).parents[1] / "backends/shared"
_ABOVE, _BEHIND = _SHARED / "lean_numpy.py", _SHARED / "faster_utils.py"
#: Of functions' sources, without comments and docstrings (SHA-256).
_KNOWN = {
    "serialize_byte_tensor": "d16496faf3580c9c2f12df2c204e61e4f0edf5e192a930349a52cf0784a6e022",
    "deserialize_bytes_tensor": "27efc9524bb54b0c8aacca0ee00be95a8e99175655683c8ff993285f1c0f937c",
    "get_input_tensor_by_name": "7eb5680226445e07d29dfa453f2784f574459a51fd667ff61501565d67e34508",
}


def write_faster_utils(utils: Path) -> str | None:
    """The file's text with what is faster; None where Triton's functions are not the known ones.

    utils: the file, which need not be there.
    """
    if not utils.is_file():
        return None
    text = utils.read_text("utf-8")
    if digest_functions(text) != _KNOWN:
        return None
    return f"{_ABOVE.read_text('utf-8')}{BEGIN}{text}{END}{_BEHIND.read_text('utf-8')}"


def digest_functions(text: str) -> dict[str, str]:
    """By name, of the functions in question that a text defines."""
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
