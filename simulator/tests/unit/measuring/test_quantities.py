"""Numbers for people."""

from __future__ import annotations

import pytest

from merlin_simulator.measuring import quantities


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0000421, "42.1 µs"),
        (0.0042, "4.2 ms"),
        (0.9996, "1 s"),
        (0.9994, "999 ms"),
        (1234.5, "1234 s"),
    ],
)
def test_durations_have_three_digits_and_a_unit(value: float, words: str) -> None:
    """Never an exponent."""
    assert quantities.format_seconds(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0 B"), (4 * 2**30, "4 GiB"), (1500, "1.46 KiB"), (2**50, "1024 TiB")]
)
def test_sizes_are_in_powers_of_1024(value: float, words: str) -> None:
    """As --memory is read."""
    assert quantities.format_size(value) == words


def test_a_share_is_of_a_hundred() -> None:
    """Three digits."""
    assert quantities.format_share(0.8731) == "87.3 %"
