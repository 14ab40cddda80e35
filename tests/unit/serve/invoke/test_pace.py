"""How long it is worth waiting for a translation."""

from __future__ import annotations

import pytest

from serve.invoke.pace import TRITON_S_PER_BYTE, Pace

SIZE = 1_000_000


def test_as_long_as_tritonserver_would_take() -> None:
    """Less what the translation takes itself."""
    pace = Pace()
    assert pace.estimate_worth_s(SIZE) == pytest.approx(TRITON_S_PER_BYTE * SIZE)
    for _ in range(50):
        pace.tell(SIZE, 0.4 * TRITON_S_PER_BYTE * SIZE)
    assert pace.estimate_worth_s(SIZE) == pytest.approx(0.6 * TRITON_S_PER_BYTE * SIZE)


def test_what_is_slow_is_tried_again_now_and_then() -> None:
    """Once a second, without waiting; it comes back when it is fast again."""
    now = 100.0
    pace = Pace(lambda: now)
    pace.tell(SIZE, 1.0)
    assert pace.estimate_worth_s(SIZE) == 0.0
    assert pace.estimate_worth_s(SIZE) is None
    now += 1.1
    assert pace.estimate_worth_s(SIZE) == 0.0
    assert pace.estimate_worth_s(SIZE) is None
    for _ in range(50):
        pace.tell(SIZE, 0.0)
    assert pace.estimate_worth_s(SIZE)
