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


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.000205, "205 µs"),
        (0.0032, "3.20 ms"),
        (0.0264, "26.4 ms"),
        (0.412, "412 ms"),
        (1.344, "1.34 s"),
        (-0.01, "-10.0 ms"),
    ],
)
def test_durations_below_each_other_keep_their_zeros(value: float, words: str) -> None:
    """Three digits that matter; whole microseconds."""
    assert quantities.format_aligned_seconds(value) == words


def test_a_share_is_of_a_hundred() -> None:
    """Three digits."""
    assert quantities.format_share(0.8731) == "87.3 %"


@pytest.mark.parametrize(("value", "words"), [(0.05, "0.050"), (1.5, "1.50"), (None, "–")])
def test_a_ratio_has_three_digits_where_it_is_small(value: float | None, words: str) -> None:
    """A dash where there is none."""
    assert quantities.format_ratio(value) == words


def test_memory_of_a_machine_is_in_gibibytes() -> None:
    """One digit after the point, zero or not."""
    assert quantities.format_gibibytes(2**33) == "8.0 GiB"
