"""Quantities in a few characters."""

from __future__ import annotations

import pytest

from deploy.terminal import show_bytes, show_duration, show_ms, sparkline


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (show_bytes(999), "999 bytes"),
        (show_bytes(8_800_000), "8.8 MB"),
        (show_bytes(1_234_000_000_000_000), "1,234 TB"),
        (show_bytes(999_700), "1,000 kB"),
        (show_ms(4.321), "4.32 ms"),
        (show_ms(12_345), "12.3 s"),
        (show_duration(59), "59 s"),
        (show_duration(7200), "2 h"),
        (show_duration(259_200), "3 d"),
    ],
)
def test_words(shown: str, words: str) -> None:
    """With three digits, in the unit that people would take."""
    assert shown == words


def test_sparkline_shows_every_request() -> None:
    """The largest is the highest; one request among thousands is still seen."""
    assert sparkline([0, 1, 500, 1000]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"


def test_sparkline_fits_a_line() -> None:
    """A day has 60 blocks, in which every minute is counted."""
    assert len(sparkline([1] * 1440)) == 60
    assert sparkline([0] * 1439 + [1])[-1] == "█"
