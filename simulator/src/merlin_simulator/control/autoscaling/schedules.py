"""When scheduled actions are due: cron, rate and at, in any time zone."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

from merlin_simulator.control.errors import ServiceError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_SATURDAY, _SUNDAY = 7, 1
_YEARS = (1970, 2199)


@dataclass(frozen=True)
class Cron:
    """A cron expression."""

    minutes: frozenset[int]  # of an hour
    hours: frozenset[int]  # of a day
    on: Callable[[date], bool]  # whether a day is one of its days
    years: frozenset[int]  # empty for all


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
        weekday, nth = _number(name, 1, 7, _WEEKDAYS), _number(count, 1, 5)
        return lambda day: _weekday(day) == weekday and (day.day - 1) // 7 + 1 == nth
    numbers = _numbers(text, 1, 7, _WEEKDAYS)
    return lambda day: _weekday(day) in numbers


def _weekday(day: date) -> int:
    return day.isoweekday() % 7 + 1


def _length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _working(day: date, count_wanted: int) -> int:
    """The working day nearest that day of the month, within the month."""
    weekday = _weekday(day.replace(day=count_wanted))
    if weekday == _SATURDAY:
        return count_wanted - 1 if count_wanted > 1 else count_wanted + 2
    if weekday == _SUNDAY:
        return count_wanted + 1 if count_wanted < _length(day) else count_wanted - 2
    return count_wanted


def _numbers(text: str, least: int, most: int, names: Sequence[str] = ()) -> frozenset[int]:
    results = set[int]()
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
            results.update(range(low, high + 1, every))
        elif names:  # FRI-MON
            results.update(range(low, most + 1, every), range(least, high + 1, every))
        else:
            raise ValueError(f"{part} goes backwards")
    return frozenset(results)


def _number(text: str, least: int, most: int, names: Sequence[str] = ()) -> int:
    number = names.index(text) + 1 if text in names else int(text) if text.isdecimal() else None
    if number is None or not least <= number <= most:
        raise ValueError(f"{text!r} is not one of {least} to {most}")
    return number


_RATE = re.compile(r"rate\(\s*(\d+)\s+(minute|hour|day)s?\s*\)")
_AT = re.compile(r"at\(\s*(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)\s*\)")
_CRON = re.compile(r"cron\((.*)\)")
_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
#: How far ahead a cron expression is looked for: 29 February comes within eight years.
_DAYS = 9 * 366
#: Of what a rate counts; the last year of the calendar.
_LONGEST_RATE, _LAST_YEAR = 10_000_000, 9999


class Schedule(Protocol):
    """Times on the platform's clock, seconds since the epoch."""

    def after(self, moment: float) -> float | None:
        """The first time after this one; None: there is none."""


@dataclass(frozen=True)
class Once:
    """One moment alone."""

    moment: float

    def after(self, moment: float) -> float | None:
        return self.moment if self.moment > moment else None


@dataclass(frozen=True)
class Rate:
    """Again and again, from the anchor on."""

    every_s: float
    anchor: float

    def after(self, moment: float) -> float | None:
        if moment < self.anchor:
            return self.anchor
        return self.anchor + ((moment - self.anchor) // self.every_s + 1) * self.every_s


@dataclass(frozen=True)
class CronTimes:
    """By the calendar of a time zone."""

    cron: Cron
    zone: tzinfo

    def after(self, moment: float) -> float | None:
        try:
            first = datetime.fromtimestamp(moment, self.zone).date()
        except (OverflowError, ValueError, OSError):
            return None
        later = (time for time in self._from(first) if time > moment)
        return next(later, None)

    def _from(self, first: date) -> Iterator[float]:
        day = first
        last = first + timedelta(days=_DAYS) if first.year < _LAST_YEAR - 9 else date.max
        while day < last:
            if (years := self.cron.years) and day.year not in years:
                later = [year for year in years if year > day.year]
                if not later:
                    return
                day = date(min(later), 1, 1)
                last = day + timedelta(days=_DAYS)
                continue
            if self.cron.on(day):
                for hour in sorted(self.cron.hours):
                    for minute in sorted(self.cron.minutes):
                        time = datetime(day.year, day.month, day.day, hour, minute)
                        yield time.replace(tzinfo=self.zone).timestamp()
            day += timedelta(days=1)


def read_schedule(text: str, zone_name: str | None, anchor: float) -> Schedule:
    """anchor: what a rate counts from, platform seconds. Raises ServiceError."""
    zone = _zone(zone_name or "UTC")
    if match := _AT.fullmatch(text):
        try:
            return Once(datetime.fromisoformat(match[1]).replace(tzinfo=zone).timestamp())
        except ValueError as error:
            raise _refused(text, str(error)) from error
    if match := _RATE.fullmatch(text):
        if not 1 <= int(match[1]) <= _LONGEST_RATE:
            raise _refused(text, f"the rate is not 1 to {_LONGEST_RATE}")
        return Rate(int(match[1]) * _SECONDS[match[2]], anchor)
    if match := _CRON.fullmatch(text):
        try:
            return CronTimes(read_cron(match[1]), zone)
        except ValueError as error:
            raise _refused(text, str(error)) from error
    raise _refused(text, "it is none of the three")


def _refused(text: str, why: str) -> ServiceError:
    return ServiceError(
        f"Invalid schedule expression {text!r} ({why}): expected at(yyyy-mm-ddThh:mm:ss), "
        "rate(value unit) with minutes, hours or days, or cron(minutes hours day-of-month month "
        "day-of-week year)."
    )


def _zone(name: str) -> tzinfo:
    if name == "UTC":  # also where the system has no database
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ServiceError(
            f"Timezone is {name!r}: expected a name of the IANA database, as Europe/Berlin."
        ) from error
