"""Functions that random workflows call by their names: graph.json has no place for their code."""

from __future__ import annotations

from typing import Any


def text_length(column: Any) -> Any:
    return column.str.len()


def plus_one(column: Any) -> Any:
    return column + 1


def above_two(column: Any) -> Any:
    return (column > 2).astype("int8")


def upper(name: str) -> str:
    return name.upper()


def title(name: str) -> str:
    return name.title()
