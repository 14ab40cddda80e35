"""Alarms' states by the tables of AWS's guide, and more; the reason in AWS's words."""

from __future__ import annotations

import pytest

from merlin_simulator.control.cloudwatch.alarm_states import (
    Condition,
    MissingData,
    Point,
    State,
    decide,
    reason,
    reason_data,
)

ALARM, OK, UNKNOWN, STAYS = State.ALARM, State.OK, State.INSUFFICIENT_DATA, None
#: 25/11/26 02:00:00 UTC.
START = 1795572000.0


def points(drawn: str) -> list[Point]:
    """As AWS draws them: 0 not breaching, X breaching, - missing; one a minute."""
    values = {"0": 0.0, "X": 9.0, "-": None}
    return [
        Point(START + 60 * number, values[sign], 1.0 if sign != "-" else 0.0)
        for number, sign in enumerate(drawn.split())
    ]


def condition(periods: int = 3, to_alarm: int | None = None, **more: object) -> Condition:
    return Condition("GreaterThanThreshold", 5.0, periods, to_alarm, **more)  # type: ignore[arg-type]


#: AWS, "Configuring how CloudWatch alarms treat missing data": three of three, then two of three.
#: In the order: missing, ignore, breaching, not breaching.
TABLES = [
    (3, "0 - X - X", (OK, OK, OK, OK)),
    (3, "0 - - - -", (OK, OK, OK, OK)),
    (3, "- - - - -", (UNKNOWN, STAYS, ALARM, OK)),
    (3, "0 X X - X", (ALARM, ALARM, ALARM, ALARM)),
    (3, "- - X - -", (ALARM, STAYS, ALARM, OK)),
    (2, "0 - X - X", (ALARM, ALARM, ALARM, ALARM)),
    (2, "0 0 X 0 X", (ALARM, ALARM, ALARM, ALARM)),
    (2, "0 - X - -", (OK, OK, ALARM, OK)),
    (2, "- - - - 0", (OK, OK, ALARM, OK)),
    (2, "- - - X -", (ALARM, STAYS, ALARM, OK)),
    # "Avoiding premature transitions": not at once, though treated as breaching they are enough.
    (3, "- - - - X", (STAYS, STAYS, ALARM, OK)),
    (3, "- - - X -", (STAYS, STAYS, ALARM, OK)),
]


@pytest.mark.parametrize(("to_alarm", "drawn", "states"), TABLES)
def test_the_tables_of_missing_data(
    to_alarm: int, drawn: str, states: tuple[State | None, ...]
) -> None:
    decided = tuple(
        decide(points(drawn), condition(to_alarm=to_alarm, missing=missing)).state
        for missing in (
            MissingData.MISSING,
            MissingData.IGNORE,
            MissingData.BREACHING,
            MissingData.NOT_BREACHING,
        )
    )
    assert decided == states


@pytest.mark.parametrize(
    ("comparison", "at_the_threshold"),
    [
        ("GreaterThanThreshold", OK),
        ("GreaterThanOrEqualToThreshold", ALARM),
        ("LessThanThreshold", OK),
        ("LessThanOrEqualToThreshold", ALARM),
    ],
)
def test_the_threshold_itself(comparison: str, at_the_threshold: State) -> None:
    asked = Condition(comparison, 5.0, 1)
    assert decide([Point(0.0, 5.0)], asked).state is at_the_threshold
    lower, higher = (decide([Point(0.0, value)], asked).state for value in (4.0, 6.0))
    greater = comparison.startswith("Greater")
    assert (lower, higher) == ((OK, ALARM) if greater else (ALARM, OK))


def test_the_range_is_two_periods_longer() -> None:
    assert condition(3).range == 5


@pytest.mark.parametrize(
    ("drawn", "asked", "words"),
    [
        (
            "X",
            condition(1),
            "Threshold Crossed: 1 datapoint [9.0 (25/11/26 02:00:00)] was greater than the "
            "threshold (5.0).",
        ),
        (
            "0",
            condition(1),
            "Threshold Crossed: 1 datapoint [0.0 (25/11/26 02:00:00)] was not greater than the "
            "threshold (5.0).",
        ),
        (
            "X",
            condition(1, 1),
            "Threshold Crossed: 1 out of the last 1 datapoints [9.0 (25/11/26 02:00:00)] was "
            "greater than the threshold (5.0) (minimum 1 datapoint for OK -> ALARM transition).",
        ),
        (
            "0 X X",
            condition(3, 2),
            "Threshold Crossed: 2 out of the last 3 datapoints [9.0 (25/11/26 02:02:00), 9.0 "
            "(25/11/26 02:01:00)] were greater than the threshold (5.0) (minimum 2 datapoints for "
            "OK -> ALARM transition).",
        ),
        (
            "0 X 0",
            condition(3, 2),
            "Threshold Crossed: 2 out of the last 3 datapoints [0.0 (25/11/26 02:02:00), 0.0 "
            "(25/11/26 02:00:00)] were not greater than the threshold (5.0) (minimum 2 datapoints "
            "for ALARM -> OK transition).",
        ),
        (
            "X X X X X",
            condition(5),
            "Threshold Crossed: 5 datapoints were greater than the threshold (5.0). The most "
            "recent datapoints which crossed the threshold: [9.0 (25/11/26 02:04:00), 9.0 "
            "(25/11/26 02:03:00), 9.0 (25/11/26 02:02:00), 9.0 (25/11/26 02:01:00), 9.0 "
            "(25/11/26 02:00:00)].",
        ),
        ("- -", condition(2), "Insufficient Data: 2 datapoints were unknown."),
        ("-", condition(1), "Insufficient Data: 1 datapoint was unknown."),
        (
            "-",
            condition(1, missing=MissingData.BREACHING),
            "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint "
            "was treated as [Breaching].",
        ),
        (
            "- - -",
            condition(3, missing=MissingData.NOT_BREACHING),
            "Threshold Crossed: no datapoints were received for 3 periods and 3 missing datapoints "
            "were treated as [NonBreaching].",
        ),
    ],
)
def test_the_reason_is_written_as_aws_writes_it(drawn: str, asked: Condition, words: str) -> None:
    assert reason(decide(points(drawn), asked), asked) == words


def test_a_reason_by_missing_data_alone_does_not_say_that_others_breached() -> None:
    asked = condition(3, 2, missing=MissingData.BREACHING)
    words = reason(decide(points("0 - -"), asked), asked)
    assert "[0.0 (25/11/26 02:00:00)] was not greater than the threshold (5.0)" in words
    assert "2 missing datapoints were treated as [Breaching]" in words


def test_the_reasons_data() -> None:
    asked = condition(2)
    data = reason_data(
        decide(points("0 X"), asked), asked, START + 121.5, {"statistic": "Sum", "period": 60}
    )
    assert data == {
        "version": "1.0",
        "queryDate": "2026-11-25T02:02:01.500+0000",
        "startDate": "2026-11-25T02:00:00.000+0000",
        "statistic": "Sum",
        "period": 60,
        "recentDatapoints": [0.0, 9.0],
        "threshold": 5.0,
        "evaluatedDatapoints": [
            {"timestamp": "2026-11-25T02:01:00.000+0000", "sampleCount": 1.0, "value": 9.0},
            {"timestamp": "2026-11-25T02:00:00.000+0000", "sampleCount": 1.0, "value": 0.0},
        ],
    }
