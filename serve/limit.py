"""PURE. A number of bytes that knows the setting it comes from.

It is an int, so that whoever compares with it need not know. Who refuses names the setting.
"""

from __future__ import annotations

#: A body up to this many bytes is not counted: the number of those that wait bounds them.
UNCOUNTED = 16 * 1024


class Limit(int):
    """setting: the variable that says it, as a message names it."""

    setting: str

    def __new__(cls, value: int, setting: str) -> Limit:
        """So many bytes, because of that setting."""
        made = super().__new__(cls, value)
        made.setting = setting
        return made


def with_its_setting(most: int) -> str:
    """`64 bytes (SERVE_…)`, or the number alone where no setting says it."""
    named = f" ({most.setting})" if isinstance(most, Limit) else ""
    return f"{most} bytes{named}"
