"""Metric math: expressions, and what they do to series."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: Values by when their periods begin.
Series = Mapping[float, float]
Value = float | Series | tuple[Series, ...]


class WrongExpression(ValueError):
    """An expression cannot be read: one sentence says why."""


def join(values: Sequence[Value]) -> Value:
    """Several series as one value. Raises WrongExpression for a number."""
    series = list[Series]()
    for value in values:
        if isinstance(value, tuple):
            series.extend(value)
        elif isinstance(value, Mapping):
            series.append(value)
        else:
            raise WrongExpression("A list has a number in it: expected time series.")
    return tuple(series)


def _calculate(operator: str, left: float, right: float) -> float | None:
    """None: there is no such number."""
    try:
        value = _OPERATORS[operator](left, right)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return value if isinstance(value, int | float) and math.isfinite(value) else None


_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "^": lambda left, right: left**right,
    "<": lambda left, right: float(left < right),
    ">": lambda left, right: float(left > right),
    "<=": lambda left, right: float(left <= right),
    ">=": lambda left, right: float(left >= right),
    "==": lambda left, right: float(left == right),
    "!=": lambda left, right: float(left != right),
    "AND": lambda left, right: float(bool(left) and bool(right)),
    "&&": lambda left, right: float(bool(left) and bool(right)),
    "OR": lambda left, right: float(bool(left) or bool(right)),
    "||": lambda left, right: float(bool(left) or bool(right)),
}


def combine(operator: str, left: Value, right: Value) -> Value:
    """An operator's value. Raises WrongExpression where two numbers have none."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        raise WrongExpression(f"{operator} is between several time series and several others.")
    if isinstance(left, tuple):
        return tuple(_series(combine(operator, member, right)) for member in left)
    if isinstance(right, tuple):
        return tuple(_series(combine(operator, left, member)) for member in right)
    if not isinstance(left, Mapping) and not isinstance(right, Mapping):
        value = _calculate(operator, left, right)
        if value is None:
            raise WrongExpression(f"{left} {operator} {right} is no number.")
        return value
    series = dict[float, float]()
    for time in _times(left, right):
        reckoned = _calculate(operator, _at(left, time), _at(right, time))
        if reckoned is not None:
            series[time] = reckoned
    return series


def _times(*values: Value) -> list[float]:
    """Those that all series among the values have."""
    series = [value for value in values if isinstance(value, Mapping)]
    return [time for time in series[0] if all(time in other for other in series[1:])]


def _at(value: Value, time: float) -> float:
    assert not isinstance(value, tuple)
    return value[time] if isinstance(value, Mapping) else value


def _series(value: Value) -> Series:
    assert isinstance(value, Mapping)
    return value


def map_series(value: Value, change: Callable[[Series], Series]) -> Value:
    """A change of each series. Raises WrongExpression for a number."""
    if isinstance(value, tuple):
        return tuple(change(series) for series in value)
    if not isinstance(value, Mapping):
        raise WrongExpression("A function of time series was given a number.")
    return change(value)


def filled(series: Series, times: Sequence[float], by: Value) -> Series:
    """FILL: by a number, or by another series where that has a value."""
    if isinstance(by, tuple):
        raise WrongExpression("FILL fills with a number or one time series, not with several.")
    return {
        time: series[time] if time in series else _at(by, time)
        for time in sorted({*times, *series})
        if time in series or not isinstance(by, Mapping) or time in by
    }


def repeat(series: Series, times: Sequence[float]) -> Series:
    """FILL(…, REPEAT): the value before."""
    last: float | None = None
    filled = dict[float, float]()
    for time in sorted({*times, *series}):
        last = series.get(time, last)
        if last is not None:
            filled[time] = last
    return filled


def _make_reducer(reduce: Callable[[Sequence[float]], float]) -> Callable[[Value], Value]:
    """Of one series a number, of several a series."""

    def call(value: Value) -> Value:
        if isinstance(value, tuple):
            times = sorted({time for series in value for time in series})
            return {
                time: reduce([series[time] for series in value if time in series]) for time in times
            }
        if isinstance(value, Mapping):
            return reduce(list(value.values())) if value else {}
        return reduce([value])

    return call


def _rate(series: Series) -> Series:
    """Of each value: its difference to the one before, by the seconds since."""
    times = sorted(series)
    return {
        time: (series[time] - series[before]) / (time - before)
        for before, time in itertools.pairwise(times)
    }


def _if(condition: Value, then: Value, otherwise: Value) -> Value:
    if any(isinstance(value, tuple) for value in (condition, then, otherwise)):
        raise WrongExpression("IF takes numbers and single time series, not several at once.")
    if not isinstance(condition, Mapping):
        return then if condition else otherwise
    chosen = dict[float, float]()
    for time, holds in condition.items():
        value = then if holds else otherwise
        if not isinstance(value, Mapping) or time in value:
            chosen[time] = _at(value, time)
    return chosen


#: Those of AWS's examples of policies and alarms, each with the number of its arguments.
FUNCTIONS: Mapping[str, tuple[int, Callable[..., Value]]] = {
    "SUM": (1, _make_reducer(sum)),
    "AVG": (1, _make_reducer(lambda values: sum(values) / len(values))),
    "MIN": (1, _make_reducer(min)),
    "MAX": (1, _make_reducer(max)),
    "RATE": (1, lambda value: map_series(value, _rate)),
    "IF": (3, _if),
}


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
class ExpressionInputs:
    """Values that expressions may read."""

    values: Mapping[str, Value]  # by id
    metrics: Sequence[str]  # ids of queries that are no expressions
    times: Sequence[float]  # when the periods begin that are asked for
    period_s: float  # their length


def evaluate(expression: str, inputs: ExpressionInputs) -> Value:
    """Raises WrongExpression."""
    parser = _Parser(expression, inputs)
    try:
        value = parser.read(0)
    except RecursionError as error:
        shown = expression[:_SHOWN_CHARACTERS]
        raise WrongExpression(f"The expression {shown!r}... is nested too deeply.") from error
    parser.end()
    return value


def names_in(expression: str) -> frozenset[str]:
    """The ids that an expression may read: its words that begin with a small letter."""
    names = (match["name"] for match in _TOKEN.finditer(expression) if match["name"])
    return frozenset(word for word in names if word[0].islower())


class _Parser:
    """Reads and reckons at once, from left to right."""

    def __init__(self, expression: str, inputs: ExpressionInputs) -> None:
        self._whole, self._inputs = expression, inputs
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
            left = combine(operator, left, self.read(row + 1))
        return left

    def _power(self) -> Value:
        base = self._signed()
        if self._peek() == "^":
            self._take()
            return combine("^", base, self._power())
        return base

    def _signed(self) -> Value:
        if self._peek() == "-":
            self._take()
            return combine("*", -1.0, self._power())
        return self._single()

    def _single(self) -> Value:
        token = self._take()
        if token == "(":
            value = self.read(0)
            self._expect(")")
            return value
        if token == "[":
            return join(self._listed("]"))
        if token[:1].isdigit() or token[:1] == ".":
            return float(token)
        if self._peek() == "(":
            return self._call(token.upper())
        if token in self._inputs.values:
            return self._inputs.values[token]
        raise WrongExpression(
            f"The expression {self._whole!r} names {token!r}, and no query has that Id."
        )

    def _call(self, name: str) -> Value:
        self._take()
        if name == "METRICS":
            return self._metrics()
        if name == "PERIOD":
            self._listed(")")
            return float(self._inputs.period_s)
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
        values = [self._inputs.values[name] for name in self._inputs.metrics if part in name]
        return join(values)

    def _fill(self) -> Value:
        value = self.read(0)
        self._expect(",")
        by: Value | None = None
        if self._peek().upper() == "REPEAT":
            self._take()
        else:
            by = self.read(0)
        self._expect(")")
        times = self._inputs.times
        return map_series(
            value,
            lambda series: filled(series, times, by) if by is not None else repeat(series, times),
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
        match = _TOKEN.match(text, position)
        if match is None:
            raise WrongExpression(f"The expression {expression!r} cannot be read at {position}.")
        position = match.end()
        yield match[0].strip()
