"""Sizes as people write them."""

from __future__ import annotations

import pytest

from merlin_simulator.measuring.quantities import read_capacity, read_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 2**30), ("512MB", 2**29), ("1.5g", 3 * 2**29), ("20GiB", 20 * 2**30), ("7", 7)],
)
def test_sizes_are_powers_of_two(text: str, size: int) -> None:
    """GB, G and GiB are 2**30, as docker has it."""
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "4 apples", "0", "1e9", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """The sentence has what was found."""
    with pytest.raises(ValueError, match="found"):
        read_size(text)


@pytest.mark.parametrize("text", ["4", " 20 ", "1048575"])
def test_a_bare_number_that_is_next_to_nothing_is_no_memory(text: str) -> None:
    """The sentence has the bytes, and what was probably meant."""
    with pytest.raises(ValueError, match=f"did you mean {text.strip()}GB"):
        read_capacity(text)


@pytest.mark.parametrize(("text", "size"), [("150KB", 150 * 2**10), ("1048576", 2**20)])
def test_a_small_size_with_its_unit_is_one(text: str, size: int) -> None:
    """Who writes a unit, or megabytes as bytes, knows what they want."""
    assert read_capacity(text) == size
