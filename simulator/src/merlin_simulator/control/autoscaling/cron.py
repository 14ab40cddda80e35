"""AWS's cron expressions: minutes hours day-of-month month day-of-week year. No I/O.

AWS, "Cron expressions reference": lists, ranges, steps and names; ? for one of the two days; L is
the last day of the month or week, 5L the last Thursday, 15W the working day nearest the 15th, 3#2
the second Tuesday. The week begins with SUN, 1.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SATURDAY, _SUNDAY = 7, 1
_YEARS = (1970, 2199)


@dataclass(frozen=True)
class Cron:
    """minutes, hours: of a day. on: whether a day is one of them. years: empty for all."""

    minutes: frozenset[int]
    hours: frozenset[int]
    on: Callable[[date], bool]
    years: frozenset[int]


def read_cron(text: str) -> Cron:
    """The six fields, without cron( and ). Raises ValueError with what is wrong."""
    fields = text.upper().split()
    if len(fields) != 6:
        raise ValueError(f"it has {len(fields)} fields, not 6")
    minutes, hours, monthday, month, weekday, year = fields
    if (monthday == "?") == (weekday == "?"):
        raise ValueError("one of day-of-month and day-of-week must be ?, and only one")
    months = _numbers(month, 1, 12, _MONTHS)
    days = _by_month(monthday) if weekday == "?" else _by_week(weekday)
    return Cron(
        _numbers(minutes, 0, 59),
        _numbers(hours, 0, 23),
        lambda day: day.month in months and days(day),
        frozenset() if year == "*" else _numbers(year, *_YEARS),
    )


def _by_month(text: str) -> Callable[[date], bool]:
    if text == "L":
        return lambda day: day.day == _length(day)
    if text == "LW":
        return lambda day: day.day == _working(day, _length(day))
    if text.endswith("W"):
        nearest = _number(text[:-1], 1, 31)
        return lambda day: nearest <= _length(day) and day.day == _working(day, nearest)
    numbers = _numbers(text, 1, 31)
    return lambda day: day.day in numbers


def _by_week(text: str) -> Callable[[date], bool]:
    if text == "L":
        return lambda day: _weekday(day) == _SATURDAY
    if text.endswith("L"):
        last = _number(text[:-1], 1, 7, _WEEKDAYS)
        return lambda day: _weekday(day) == last and day.day + 7 > _length(day)
    if "#" in text:
        name, _, count = text.partition("#")
        wanted, nth = _number(name, 1, 7, _WEEKDAYS), _number(count, 1, 5)
        return lambda day: _weekday(day) == wanted and (day.day - 1) // 7 + 1 == nth
    numbers = _numbers(text, 1, 7, _WEEKDAYS)
    return lambda day: _weekday(day) in numbers


def _weekday(day: date) -> int:
    return day.isoweekday() % 7 + 1


def _length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _working(day: date, wanted: int) -> int:
    """The working day nearest that day of the month, within the month."""
    weekday = _weekday(day.replace(day=wanted))
    if weekday == _SATURDAY:
        return wanted - 1 if wanted > 1 else wanted + 2
    if weekday == _SUNDAY:
        return wanted + 1 if wanted < _length(day) else wanted - 2
    return wanted


def _numbers(text: str, least: int, most: int, names: Sequence[str] = ()) -> frozenset[int]:
    found = set[int]()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        every = _number(step, 1, most) if slash else 1
        if span == "*":
            low, high = least, most
        else:
            first, dash, last = span.partition("-")
            low = _number(first, least, most, names)
            high = _number(last, least, most, names) if dash else (most if slash else low)
        if low <= high:
            found.update(range(low, high + 1, every))
        elif names:  # FRI-MON
            found.update(range(low, most + 1, every), range(least, high + 1, every))
        else:
            raise ValueError(f"{part} goes backwards")
    return frozenset(found)


def _number(text: str, least: int, most: int, names: Sequence[str] = ()) -> int:
    number = names.index(text) + 1 if text in names else int(text) if text.isdecimal() else None
    if number is None or not least <= number <= most:
        raise ValueError(f"{text!r} is not one of {least} to {most}")
    return number
