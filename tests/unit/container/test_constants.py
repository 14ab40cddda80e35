"""What no variable sets."""

from __future__ import annotations

from container.constants import Constants


def test_a_start_with_gpus_may_take_longer() -> None:
    """From a cold disk CUDA's libraries are read first."""
    assert Constants().start_timeout(0) == 120
    assert Constants().start_timeout(4) == 300


def test_the_platform_hears_of_an_unload_that_is_given_up() -> None:
    """It waits for 360 s, and giving one up takes up to ten."""
    assert Constants().unload_timeout_s + 10 <= 360
