"""Arrivals and popularity."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merlin_simulator.replay.load import draw_arrivals, zipf_shares

#: Requests of a sample, and how many standard deviations it may be off; the seeds are fixed.
MANY, SIGMAS = 200_000, 5


@given(models=st.integers(1, 500), exponent=st.floats(0, 4))
def test_shares_sum_to_one_and_fall(models: int, exponent: float) -> None:
    """Shares are a distribution, and no model is more popular than one of a lower rank."""
    shares = zipf_shares(models, exponent)
    assert len(shares) == models
    assert math.isclose(sum(shares), 1)
    assert list(shares) == sorted(shares, reverse=True)


def test_shares_follow_the_power_law() -> None:
    """The share of rank k is that of rank 1 over k to the exponent."""
    shares = zipf_shares(50, 1.1)
    ranks = np.arange(1, 51)
    np.testing.assert_allclose(np.array(shares) / shares[0], ranks**-1.1)


@pytest.mark.slow
def test_drawn_models_have_their_shares() -> None:
    """Each model is asked as often as its share says, within five standard deviations."""
    shares = zipf_shares(20, 1.1)
    drawn = Counter(arrival.model for arrival in draw_arrivals(MANY, 1.0, shares, seed=7))
    total = sum(drawn.values())
    for model, share in enumerate(shares):
        deviation = math.sqrt(total * share * (1 - share))
        assert abs(drawn[model] - total * share) < SIGMAS * deviation, model


def test_gaps_are_exponential() -> None:
    """Mean and deviation of the gaps are 1/rate, and their median ln 2 over it."""
    times = [arrival.at for arrival in draw_arrivals(100.0, MANY / 100, (1.0,), seed=7)]
    gaps = np.diff(times)
    tolerance = SIGMAS / math.sqrt(len(gaps))
    assert np.mean(gaps) * 100 == pytest.approx(1, abs=tolerance)
    assert np.std(gaps) * 100 == pytest.approx(1, abs=3 * tolerance)
    assert np.median(gaps) * 100 == pytest.approx(math.log(2), abs=2 * tolerance)


def test_the_plan_is_fixed_by_the_seed() -> None:
    """The same seed plans the same, another seed something else; all of it inside the duration."""
    shares = zipf_shares(10, 1.0)
    first = draw_arrivals(50.0, 10.0, shares, seed=1)
    assert first == draw_arrivals(50.0, 10.0, shares, seed=1)
    assert first != draw_arrivals(50.0, 10.0, shares, seed=2)
    assert [arrival.number for arrival in first] == list(range(len(first)))
    assert all(0 < arrival.at < 10 for arrival in first)


def test_times_do_not_depend_on_popularity() -> None:
    """Another popularity is asked at the same times."""
    alike, skewed = (
        draw_arrivals(50.0, 5.0, zipf_shares(9, exponent), seed=3) for exponent in (0.0, 2.0)
    )
    assert [arrival.at for arrival in alike] == [arrival.at for arrival in skewed]
    assert [arrival.model for arrival in alike] != [arrival.model for arrival in skewed]
