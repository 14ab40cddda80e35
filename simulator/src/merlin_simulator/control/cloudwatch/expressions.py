"""Metric math: what an expression of GetMetricData or of an alarm means. No I/O.

SEARCH, Metrics Insights and anomaly detection are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from merlin_simulator.control.cloudwatch.series_math import (
    FUNCTIONS,
    Value,
    WrongExpression,
    between,
    combined,
    each,
    filled,
    joined,
)

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<sign><=|>=|==|!=|&&|\|\||[-+*/^(),<>\[\]]))"
)
#: Of an expression that is too long to be shown.
_SHOWN_CHARACTERS = 80
#: Operators from the loosest on; those of a row bind alike, from left to right.
_ROWS: Sequence[Sequence[str]] = (
    ("||", "OR"),
    ("&&", "AND"),
    ("==", "!=", "<", ">", "<=", ">="),
    ("+", "-"),
    ("*", "/"),
)


@dataclass(frozen=True)
class Given:
    """What expressions read. values: by id; metrics: ids of queries that are no expressions.

    times: when the periods begin that are asked for. period_s: their length.
    """

    values: Mapping[str, Value]
    metrics: Sequence[str]
    times: Sequence[float]
    period_s: float


def evaluate(expression: str, given: Given) -> Value:
    """Raises WrongExpression."""
    reader = _Reader(expression, given)
    try:
        value = reader.read(0)
    except RecursionError as error:
        shown = expression[:_SHOWN_CHARACTERS]
        raise WrongExpression(f"The expression {shown!r}... is nested too deeply.") from error
    reader.end()
    return value


def names_in(expression: str) -> frozenset[str]:
    """The ids that an expression may read: its words that begin with a small letter."""
    words = (found["name"] for found in _TOKEN.finditer(expression) if found["name"])
    return frozenset(word for word in words if word[0].islower())


class _Reader:
    """Reads and reckons at once, from left to right."""

    def __init__(self, expression: str, given: Given) -> None:
        self._whole, self._given = expression, given
        self._tokens = list(_tokens(expression))
        self._next = 0

    def end(self) -> None:
        if self._peek():
            raise WrongExpression(f"The expression {self._whole!r} goes on at {self._peek()!r}.")

    def read(self, row: int) -> Value:
        if row == len(_ROWS):
            return self._power()
        left = self.read(row + 1)
        while self._peek().upper() in _ROWS[row]:
            operator = self._take().upper()
            left = combined(operator, left, self.read(row + 1))
        return left

    def _power(self) -> Value:
        base = self._signed()
        if self._peek() == "^":
            self._take()
            return combined("^", base, self._power())
        return base

    def _signed(self) -> Value:
        if self._peek() == "-":
            self._take()
            return combined("*", -1.0, self._power())
        return self._single()

    def _single(self) -> Value:
        token = self._take()
        if token == "(":
            value = self.read(0)
            self._expect(")")
            return value
        if token == "[":
            return joined(self._listed("]"))
        if token[:1].isdigit() or token[:1] == ".":
            return float(token)
        if self._peek() == "(":
            return self._call(token.upper())
        if token in self._given.values:
            return self._given.values[token]
        raise WrongExpression(
            f"The expression {self._whole!r} names {token!r}, and no query has that Id."
        )

    def _call(self, name: str) -> Value:
        self._take()
        if name == "METRICS":
            return self._metrics()
        if name == "PERIOD":
            self._listed(")")
            return float(self._given.period_s)
        if name == "FILL":
            return self._fill()
        function = FUNCTIONS.get(name)
        if function is None:
            raise WrongExpression(
                f"The expression {self._whole!r} calls {name}, which this simulator does not "
                f"know: it knows METRICS, FILL, PERIOD, {', '.join(sorted(FUNCTIONS))}."
            )
        count, call = function
        arguments = self._listed(")")
        if len(arguments) != count:
            raise WrongExpression(
                f"{name} has {len(arguments)} arguments in {self._whole!r}: expected {count}."
            )
        return call(*arguments)

    def _metrics(self) -> Value:
        """Those whose id has the text in it; all of them without a text."""
        part = ""
        if self._peek() != ")":
            part = self._take()[1:-1]
        self._expect(")")
        found = [self._given.values[name] for name in self._given.metrics if part in name]
        return joined(found)

    def _fill(self) -> Value:
        value = self.read(0)
        self._expect(",")
        by: Value | None = None
        way = self._peek().upper()
        if way in ("REPEAT", "LINEAR"):
            self._take()
        else:
            by = self.read(0)
        self._expect(")")
        times = self._given.times
        return each(
            value,
            lambda series: (
                filled(series, times, by) if by is not None else between(series, times, way)
            ),
        )

    def _listed(self, closing: str) -> list[Value]:
        values = list[Value]()
        while self._peek() != closing:
            values.append(self.read(0))
            if self._peek() == ",":
                self._take()
            elif self._peek() != closing:
                raise WrongExpression(f"A {closing!r} is missing in {self._whole!r}.")
        self._take()
        return values

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise WrongExpression(f"The expression {self._whole!r} ends in the middle.")
        self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise WrongExpression(f"A {sign!r} is missing in {self._whole!r}.")
        self._take()


def _tokens(expression: str) -> Iterator[str]:
    position, text = 0, expression.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise WrongExpression(f"The expression {expression!r} cannot be read at {position}.")
        position = found.end()
        yield found[0].strip()
