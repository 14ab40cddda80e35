"""Scores of any number of items are summed up exactly, and kept by lot once they are too many."""

from __future__ import annotations

import numpy as np
import pytest

from verification.ranking.shifts import QUANTILES, ShiftTally


def test_few_items() -> None:
    """All are kept: every figure is exact."""
    tally = ShiftTally()
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(2, size)) for size in (5, 0, 40)]
    for part in parts:
        tally.add(part)
    shift, differences = tally.summarize(), np.concatenate([new - old for old, new in parts])
    assert shift is not None
    assert (shift.items, shift.sampled) == (45, 45)
    assert shift.mean == pytest.approx(differences.mean())
    assert shift.largest == np.abs(differences).max()
    assert shift.quantiles == pytest.approx(np.quantile(differences, QUANTILES))


def test_many_items() -> None:
    """Mean and largest stay exact, memory is bounded, quantiles are near, every list is in it."""
    tally = ShiftTally(most=4000)
    for _ in range(30):
        tally.add(np.stack([np.zeros(1000), np.linspace(0, 1, 1000)]))
    shift = tally.summarize()
    assert shift is not None
    assert (shift.items, shift.largest) == (30_000, 1.0)
    assert 1000 < shift.sampled <= 4000
    assert shift.mean == pytest.approx(0.5)
    assert shift.quantiles == pytest.approx(QUANTILES, abs=0.05)


def test_nothing() -> None:
    """No item, no figure."""
    assert ShiftTally().summarize() is None
