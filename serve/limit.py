"""Numbers that know the setting they come from, for the sentences of those who refuse. No I/O.

They are an int and a float, so that whoever compares with them need not know. Who hands them in
names the setting; a plain number has none, and then no sentence names one.
"""

from __future__ import annotations

#: A body up to this many bytes is not counted: the number of those that wait bounds them.
UNCOUNTED = 16 * 1024


class Limit(int):
    """How many there may be; setting: the variable that says it, as a message names it."""

    setting: str

    def __new__(cls, value: int, setting: str) -> Limit:
        """So many, because of that setting."""
        limit = super().__new__(cls, value)
        limit.setting = setting
        return limit


class TimeLimit(float):
    """How long something may take, in seconds; setting: as a Limit's."""

    setting: str

    def __new__(cls, seconds: float, setting: str) -> TimeLimit:
        """So long, because of that setting."""
        limit = super().__new__(cls, seconds)
        limit.setting = setting
        return limit


class RateLimit(TimeLimit):
    """How many there may be in a second; setting: as a Limit's."""


def name_setting(limit: float) -> str:
    """The setting that a number comes from; empty for a plain one."""
    return limit.setting if isinstance(limit, (Limit, TimeLimit)) else ""


def named(limit: float) -> str:
    """` (SETTING)`, as it stands in a sentence behind the number; empty for a plain one."""
    setting = name_setting(limit)
    return f" ({setting})" if setting else ""


def add_setting(most: int) -> str:
    """`64 bytes (SETTING)`, or the number alone where no setting says it."""
    return f"{most} bytes{named(most)}"
