"""When scheduled actions are due."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from merlin_simulator.control.autoscaling.schedules import read_schedule
from merlin_simulator.control.errors import ServiceError


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("expression", "zone", "moment", "following"),
    [
        ("at(2026-03-01T08:00:00)", None, "2026-02-01", "2026-03-01T08:00"),
        ("at(2026-03-01T08:00:00)", "Europe/Berlin", "2026-02-01", "2026-03-01T07:00"),
        ("at(2026-03-01T08:00:00)", None, "2026-03-01T08:00", None),
        ("rate(5 minutes)", None, "2026-01-01T00:07", "2026-01-01T00:10"),
        ("rate(1 hour)", None, "2026-01-01T01:00", "2026-01-01T02:00"),
        ("rate(1 day)", None, "2025-01-01", "2026-01-01"),
        ("cron(0 8 * * ? *)", None, "2026-01-01T08:00", "2026-01-02T08:00"),
        ("cron(0 8 * * ? *)", "America/New_York", "2026-07-01", "2026-07-01T12:00"),
        ("cron(0/15 * * * ? *)", None, "2026-01-01T08:50", "2026-01-01T09:00"),
        ("cron(30 9-17/4 ? * MON-FRI *)", None, "2026-01-02T13:30", "2026-01-02T17:30"),
        ("cron(30 9 ? * MON-FRI *)", None, "2026-01-02T13:30", "2026-01-05T09:30"),
        ("cron(0 0 L * ? *)", None, "2026-02-01", "2026-02-28"),
        ("cron(0 0 ? * 6L *)", None, "2026-01-01", "2026-01-30"),
        ("cron(0 0 ? * TUE#2 *)", None, "2026-01-01", "2026-01-13"),
        ("cron(0 0 15W * ? *)", None, "2026-08-01", "2026-08-14"),
        ("cron(0 0 LW * ? *)", None, "2026-01-01", "2026-01-30"),
        ("cron(0 0 ? * FRI-MON *)", None, "2026-01-05T01:00", "2026-01-09"),
        ("cron(0 0 29 2 ? *)", None, "2026-01-01", "2028-02-29"),
        ("cron(0 0 1 1 ? 2150)", None, "2026-01-01", "2150-01-01"),
        ("cron(0 0 1 1 ? 2020)", None, "2026-01-01", None),
        ("cron(0 0 31 FEB ? *)", None, "2026-01-01", None),
    ],
)
def test_the_next_time(
    expression: str, zone: str | None, moment: str, following: str | None
) -> None:
    schedule = read_schedule(expression, zone, seconds("2026-01-01"))
    expected = None if following is None else seconds(following)
    assert schedule.after(seconds(moment)) == expected


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("every day", "none of the three"),
        ("rate(0 minutes)", "the rate is not 1 to"),
        ("rate(5 weeks)", "none of the three"),
        ("at(2026-02-30T00:00:00)", "day is out of range|day .* must be in range"),
        ("cron(0 8 * * ?)", "5 fields, not 6"),
        ("cron(0 8 * * * *)", "one of day-of-month and day-of-week"),
        ("cron(60 8 * * ? *)", "'60' is not one of 0 to 59"),
        ("cron(0 20-8 * * ? *)", "backwards"),
    ],
)
def test_a_schedule_that_is_none(expression: str, words: str) -> None:
    with pytest.raises(ServiceError, match=words):
        read_schedule(expression, None, 0)


def test_a_zone_that_is_none() -> None:
    with pytest.raises(ServiceError, match="Timezone is 'Mars/Base'"):
        read_schedule("rate(1 day)", "Mars/Base", 0)


@pytest.mark.parametrize("rate", ["0", "9" * 20, "9" * 1000])
def test_a_rate_that_no_clock_has(rate: str) -> None:
    with pytest.raises(ServiceError, match="the rate is not 1 to 10000000"):
        read_schedule(f"rate({rate} minutes)", None, 0.0)


@pytest.mark.parametrize("moment", [seconds("9999-12-30T23:00:00"), 1e18])
def test_nothing_is_due_after_the_end_of_the_calendar(moment: float) -> None:
    assert read_schedule("cron(0 0 31 12 ? *)", None, 0.0).after(moment) is None
