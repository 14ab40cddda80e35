"""The step of an operator that is not compiled: NVTabular runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import Column, RequestError
from .records import Parameters

#: A node's number, the request's columns that it needs, and the request -> what the node puts out.
Original = Callable[[int, "list[str]", "dict[str, Any]"], "dict[str, Any]"]

#: numpy's letters for what a column may hold.
_LETTERS = {"int": "iu", "float": "f", "bool": "b", "text": "O"}


@dataclass(frozen=True)
class KeptNode(Parameters):
    """A node of the workflow's graph, and what it puts out.

    inputs: the request's columns that it and those before it read. families: what each of `columns`
    holds, `int`, `float`, `bool` or `text`.
    """

    name = "kept"
    node: int
    inputs: tuple[str, ...]
    columns: tuple[str, ...]
    families: tuple[str, ...]

    def run(self, original: Original, tensors: dict[str, Any], rows: int) -> list[Column]:
        """The node's columns; raises RequestError where they are not what the schema says."""
        put_out = original(self.node, list(self.inputs), tensors)
        return [
            Column(_foreseen(name, family, put_out.get(name), rows))
            for name, family in zip(self.columns, self.families, strict=True)
        ]


def _foreseen(name: str, family: str, values: Any, rows: int) -> Any:
    letters = _LETTERS[family]
    if values is None or values.shape != (rows,) or values.dtype.kind not in letters:
        raise RequestError(f"column {name!r}: NVTabular made something else of it than {family}")
    if family != "text":
        return values
    if not all(_is_plain(text) for text in values):
        raise RequestError(f"column {name!r}: not all of it is text in ASCII without zeros")
    return np.array([text.encode() for text in values], dtype="S")


def _is_plain(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and "\0" not in text
