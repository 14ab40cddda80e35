"""Metric math."""

from __future__ import annotations

import time

import pytest

from merlin_simulator.control.cloudwatch.math import (
    ExpressionInputs,
    Value,
    WrongExpression,
    evaluate,
    names_in,
)

M1 = {0.0: 10.0, 60.0: 20.0, 120.0: 30.0}
M2 = {0.0: 2.0, 60.0: 0.0, 180.0: 5.0}
GIVEN = ExpressionInputs(
    {"m1": M1, "m2": M2, "n": 4.0}, ["m1", "m2"], [0.0, 60.0, 120.0, 180.0], 60
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("m1/m2", {0.0: 5.0}),
        ("m1*100", {0.0: 1000.0, 60.0: 2000.0, 120.0: 3000.0}),
        ("100 * (m1 + m2) - 1", {0.0: 1199.0, 60.0: 1999.0}),
        ("1 + 2 * 3 ^ 2 / n", 5.5),
        ("-n ^ 2", -16.0),
        ("10 - 4 - 3", 3.0),
        ("m1 > 15", {0.0: 0.0, 60.0: 1.0, 120.0: 1.0}),
        ("m1 > 15 AND m1 < 25", {0.0: 0.0, 60.0: 1.0, 120.0: 0.0}),
        ("SUM(METRICS())", {0.0: 12.0, 60.0: 20.0, 120.0: 30.0, 180.0: 5.0}),
        ('SUM(METRICS("2"))', {0.0: 2.0, 60.0: 0.0, 180.0: 5.0}),
        ("AVG([m1, m2])", {0.0: 6.0, 60.0: 10.0, 120.0: 30.0, 180.0: 5.0}),
        ("MAX(m1)", 30.0),
        ("m1 / SUM(m1)", {0.0: 1 / 6, 60.0: 1 / 3, 120.0: 0.5}),
        ("FILL(m1, 0)", {0.0: 10.0, 60.0: 20.0, 120.0: 30.0, 180.0: 0.0}),
        ("FILL(m2, REPEAT)", {0.0: 2.0, 60.0: 0.0, 120.0: 0.0, 180.0: 5.0}),
        ("FILL(m2, m1)", {0.0: 2.0, 60.0: 0.0, 120.0: 30.0, 180.0: 5.0}),
        ("IF(m1 > 15, m1, 0)", {0.0: 0.0, 60.0: 20.0, 120.0: 30.0}),
        ("IF(FILL(m2, 0) == 0, 1, 2)", {0.0: 2.0, 60.0: 1.0, 120.0: 1.0, 180.0: 2.0}),
        ("m1 / PERIOD(m1)", {0.0: 1 / 6, 60.0: 1 / 3, 120.0: 0.5}),
        ("RATE(m1)", {60.0: 1 / 6, 120.0: 1 / 6}),
    ],
)
def test_an_expressions_value(expression: str, value: Value) -> None:
    assert evaluate(expression, GIVEN) == pytest.approx(value)


def test_several_series_at_once() -> None:
    doubled = ({0.0: 20.0, 60.0: 40.0, 120.0: 60.0}, {0.0: 4.0, 60.0: 0.0, 180.0: 10.0})
    assert evaluate("METRICS() * 2", GIVEN) == doubled


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("m3 + 1", "names 'm3', and no query has that Id"),
        ("SEARCH('x', 'Sum', 60)", "calls SEARCH, which this simulator does not know"),
        ("RUNNING_SUM(m1)", "it knows METRICS, FILL, PERIOD, AVG, IF, MAX, MIN, RATE, SUM."),
        ("m1 +", "ends in the middle"),
        ("(m1", "is missing"),
        ("m1 m2", "goes on at 'm2'"),
        ("m1 ? 2", "cannot be read"),
        ("IF(m1, 1)", "has 2 arguments"),
        ("1 / 0", "is no number"),
        ("RATE(3)", "was given a number"),
        ("IF(METRICS(), 1, 2)", "not several at once"),
        ("METRICS() + METRICS()", "several time series and several others"),
        ("(" * 2000 + "m1" + ")" * 2000, "nested too deeply"),
        ("-" * 2000 + "n", "nested too deeply"),
    ],
)
def test_a_wrong_expression_is_told_in_a_sentence(expression: str, words: str) -> None:
    with pytest.raises(WrongExpression, match=r"\.$") as raised:
        evaluate(expression, GIVEN)
    assert words in str(raised.value)


def test_what_an_expression_reads() -> None:
    assert names_in("IF(m1 > 3, errors_2, SUM(METRICS()))") == {"m1", "errors_2"}


def test_lines_over_many_times_are_drawn_at_once() -> None:
    """15 days of minutes, every second of which has a value: looked for one by one, it is hours."""
    times = [60.0 * number for number in range(21_600)]
    given = ExpressionInputs({"m1": {one: one for one in times[::2]}}, ["m1"], times, 60)
    start = time.process_time()
    value = evaluate("FILL(m1, REPEAT)", given)
    assert time.process_time() - start < 5
    assert value == pytest.approx({one: one - one % 120 for one in times})
