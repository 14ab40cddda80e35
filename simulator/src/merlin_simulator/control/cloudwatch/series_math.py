"""What metric math does with numbers and time series. No I/O.

AWS, "Using math expressions with CloudWatch metrics". A value is a number, a time series or several
of them. Between two series only those times count that both have; a division by zero leaves out its
time.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

#: Values by when their periods begin.
Series = Mapping[float, float]
Value = float | Series | tuple[Series, ...]


class WrongExpression(ValueError):
    """What is wrong with an expression, in one sentence."""


def joined(values: Sequence[Value]) -> Value:
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


def _reckon(operator: str, left: float, right: float) -> float | None:
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


def combined(operator: str, left: Value, right: Value) -> Value:
    """An operator's value. Raises WrongExpression where two numbers have none."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        raise WrongExpression(f"{operator} is between several time series and several others.")
    if isinstance(left, tuple):
        return tuple(_series(combined(operator, one, right)) for one in left)
    if isinstance(right, tuple):
        return tuple(_series(combined(operator, left, one)) for one in right)
    if not isinstance(left, Mapping) and not isinstance(right, Mapping):
        value = _reckon(operator, left, right)
        if value is None:
            raise WrongExpression(f"{left} {operator} {right} is no number.")
        return value
    series = dict[float, float]()
    for time in _times(left, right):
        reckoned = _reckon(operator, _at(left, time), _at(right, time))
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


def each(value: Value, change: Callable[[Series], Series]) -> Value:
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


def between(series: Series, times: Sequence[float], way: str) -> Series:
    """REPEAT the value before; LINEAR: on the line from the value before to the one after."""
    known, filled = sorted(series), dict[float, float]()
    for time in sorted({*times, *series}):
        if time in series:
            filled[time] = series[time]
            continue
        place = bisect.bisect(known, time)
        before = known[place - 1] if place else None
        after = known[place] if place < len(known) else None
        if way == "REPEAT" and before is not None:
            filled[time] = series[before]
        elif way == "LINEAR" and before is not None and after is not None:
            share = (time - before) / (after - before)
            filled[time] = series[before] + share * (series[after] - series[before])
    return filled


def _reduced(reduce: Callable[[Sequence[float]], float]) -> Callable[[Value], Value]:
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


def _changed(change: Callable[[float], float]) -> Callable[[Value], Value]:
    """Every value of each series."""

    def call(value: Value) -> Value:
        if not isinstance(value, Mapping | tuple):
            if not math.isfinite(value):
                raise WrongExpression("A function was given a number that is too large.")
            return change(value)
        return each(value, lambda series: {time: change(one) for time, one in series.items()})

    return call


def _steps(change: Callable[[float, float], float]) -> Callable[[Value], Value]:
    """change: of the difference to the value before, and of the seconds since."""

    def step(series: Series) -> Series:
        times = sorted(series)
        return {
            time: change(series[time] - series[before], time - before)
            for before, time in itertools.pairwise(times)
        }

    return lambda value: each(value, step)


def _running(series: Series) -> Series:
    whole, sums = 0.0, dict[float, float]()
    for time in sorted(series):
        whole += series[time]
        sums[time] = whole
    return sums


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


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


#: Each with the number of its arguments.
FUNCTIONS: Mapping[str, tuple[int, Callable[..., Value]]] = {
    "SUM": (1, _reduced(sum)),
    "AVG": (1, _reduced(lambda values: sum(values) / len(values))),
    "MIN": (1, _reduced(min)),
    "MAX": (1, _reduced(max)),
    "STDDEV": (1, _reduced(_deviation)),
    "DATAPOINT_COUNT": (1, _reduced(lambda values: float(len(values)))),
    "ABS": (1, _changed(abs)),
    "CEIL": (1, _changed(lambda value: float(math.ceil(value)))),
    "FLOOR": (1, _changed(lambda value: float(math.floor(value)))),
    "DIFF": (1, _steps(lambda difference, _: difference)),
    "RATE": (1, _steps(lambda difference, seconds: difference / seconds)),
    "RUNNING_SUM": (1, lambda value: each(value, _running)),
    "IF": (3, _if),
}
