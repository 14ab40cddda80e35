"""When a scheduled action is due: at(…), rate(…) and cron(…) in a time zone. No I/O.

AWS, "Scheduled scaling using cron expressions" and "PutScheduledAction".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

from merlin_simulator.control.autoscaling.cron import Cron, read_cron
from merlin_simulator.control.errors import ServiceError

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
class At:
    """Once."""

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
class Times:
    """By the calendar of a time zone."""

    cron: Cron
    zone: tzinfo

    def after(self, moment: float) -> float | None:
        try:
            first = datetime.fromtimestamp(moment, self.zone).date()
        except (OverflowError, ValueError, OSError):
            return None
        found = (time for time in self._from(first) if time > moment)
        return next(found, None)

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
    if found := _AT.fullmatch(text):
        try:
            return At(datetime.fromisoformat(found[1]).replace(tzinfo=zone).timestamp())
        except ValueError as error:
            raise _refused(text, str(error)) from error
    if found := _RATE.fullmatch(text):
        if not 1 <= int(found[1]) <= _LONGEST_RATE:
            raise _refused(text, f"the rate is not 1 to {_LONGEST_RATE}")
        return Rate(int(found[1]) * _SECONDS[found[2]], anchor)
    if found := _CRON.fullmatch(text):
        try:
            return Times(read_cron(found[1]), zone)
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
