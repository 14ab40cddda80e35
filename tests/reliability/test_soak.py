"""Loading, asking and unloading leaves nothing: the short form of `make soak`."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.reliability import soak
from tests.reliability.census import NAMES, Census

CYCLES = 30


@pytest.mark.thorough
def test_thirty_cycles() -> None:
    """After thirty cycles, three at a time, it holds what it held after the first six."""
    with tempfile.TemporaryDirectory(prefix="soak-", dir=soak.ELSEWHERE) as work:
        found = soak.soaked(Path(work), lambda _, cycles: cycles / CYCLES, exports=(), every=1)
    assert found.failures == (), found.text()


def _look(cycles: int, **more: float) -> Census:
    counted = dict.fromkeys(NAMES, 1)
    return Census(**{**counted, "cycles": cycles, **more})  # type: ignore[arg-type]


def test_what_is_left_is_told() -> None:
    """A zombie at the end, and a thread more than after the warm-up, are failures."""
    looks = [_look(0), _look(100), _look(200), _look(300), _look(400, threads=2, zombies=2)]
    assert soak.left(looks) == [
        "zombies: 1 before, 2 at the end",
        "threads: 1 before, 2 at the end",
    ]
    assert soak.left(looks[:-1]) == []


def test_growth_is_told_from_a_warm_up_and_from_an_outlier() -> None:
    """The slope is the growth after the warm-up; one look that is off does not move it."""
    flat = [_look(100 * at, server_rss_mb=100.0 if at else 10.0) for at in range(11)]
    assert soak.slope(flat, "server_rss_mb") == 0
    grows = [_look(100 * at, server_rss_mb=100 + at * 1.0) for at in range(11)]
    assert soak.slope(grows, "server_rss_mb") == pytest.approx(10_000)
    grows[7] = _look(700, server_rss_mb=500.0)
    assert soak.slope(grows, "server_rss_mb") == pytest.approx(10_000, rel=0.2)
    run = soak.Run({}, [], grows, Counter())
    assert "server_rss_mb grows by" in soak.failures(run)[0]
