"""Sizes as people write them."""

from __future__ import annotations

import pytest

from simulator.sizes import read_size


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
