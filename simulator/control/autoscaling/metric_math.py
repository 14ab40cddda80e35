"""Metric math as far as scaling policies use it: arithmetic of series, FILL, SUM, AVG, MIN, MAX.

A series has a value for each minute, or None where none came; so has whatever is calculated with
it. No I/O.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

#: A value for each minute, the newest last.
Series = Sequence[float | None]

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_ACROSS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "SUM": sum,
    "AVG": lambda values: sum(values) / len(values),
    "MIN": min,
    "MAX": max,
}
_LONGEST = 2048


class NotMath(ValueError):
    """The expression is none that is calculated here; the message says what of it."""


class Expression:
    """One expression over series by their ids. Raises NotMath where it cannot be calculated."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            if len(text) > _LONGEST:
                raise NotMath(f"it has more than {_LONGEST} characters")
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NotMath(f"it cannot be read: {error}") from error
        self.names = frozenset(_names(self._tree))

    def value(self, series: Mapping[str, Series], minutes: int) -> Series:
        """series: those of names, each of so many minutes."""
        return _Evaluation(series, minutes).of(self._tree)


def _names(tree: ast.expr) -> set[str]:
    """What it refers to. Raises NotMath for what is not calculated."""
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        return set()
    if isinstance(tree, ast.Name):
        return {tree.id}
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _names(tree.left) | _names(tree.right)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _names(tree.operand)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        name, arguments = tree.func.id, tree.args
        if name == "FILL" and len(arguments) == 2:
            return _names(arguments[0]) | _names(arguments[1])
        if name in _ACROSS and len(arguments) == 1 and isinstance(arguments[0], ast.List):
            elements = arguments[0].elts
            if elements:
                return set().union(*map(_names, elements))
    raise NotMath(
        f"{ast.unparse(tree)!r} is not calculated here, only + - * /, FILL(m, number) and "
        f"{', '.join(_ACROSS)} of [m, ...]"
    )


class _Evaluation:
    def __init__(self, series: Mapping[str, Series], minutes: int) -> None:
        self._series, self._minutes = series, minutes

    def of(self, tree: ast.expr) -> Series:
        if isinstance(tree, ast.Constant):
            return [float(tree.value)] * self._minutes  # type: ignore[arg-type]
        if isinstance(tree, ast.Name):
            return self._series[tree.id]
        if isinstance(tree, ast.UnaryOp):
            return [None if value is None else -value for value in self.of(tree.operand)]
        if isinstance(tree, ast.BinOp):
            calculate = _OPERATORS[type(tree.op)]
            pairs = zip(self.of(tree.left), self.of(tree.right), strict=True)
            return [_calculated(calculate, left, right) for left, right in pairs]
        assert isinstance(tree, ast.Call)
        assert isinstance(tree.func, ast.Name)
        return self._called(tree.func.id, tree.args)

    def _called(self, name: str, arguments: Sequence[ast.expr]) -> Series:
        if name == "FILL":
            pairs = zip(self.of(arguments[0]), self.of(arguments[1]), strict=True)
            return [filler if value is None else value for value, filler in pairs]
        assert isinstance(arguments[0], ast.List)
        columns = zip(*map(self.of, arguments[0].elts), strict=True)
        known = ([value for value in column if value is not None] for column in columns)
        return [_ACROSS[name](values) if values else None for values in known]


def _calculated(
    calculate: Callable[[float, float], float], left: float | None, right: float | None
) -> float | None:
    """None where CloudWatch has no datapoint: one lacks, or it would be divided by zero."""
    if left is None or right is None:
        return None
    try:
        return calculate(left, right)
    except (ZeroDivisionError, OverflowError):
        return None
