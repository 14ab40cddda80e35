"""What is read from two replays: how many models fit, and what each of them holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from bench.rows import fitting
from bench.rows.fitting import Replay
from bench.rows.row import extend_seconds


def report(loaded: int, failures: int, cold: float | None) -> dict[str, Any]:
    """The parts of report.json that are read: three models, the last never asked."""
    return {
        "requests": {"planned": 40, "right": 30},
        "hit_ratio": 0.5,
        "latency_s": {"cold": {"p50": cold}, "warm": {"p50": 0.01}},
        "loading": {
            "most_loaded": loaded,
            "model_memory_bytes": {"p50": 250_000_000},
        },
        "seconds": 4.0,
        "over_time": {
            "loaded_models": {"instance-1": {"at_s": [0.0, 2.0], "models": [0, loaded]}},
            "memory": {"instance-1": {"at_s": [0.0], "bytes": [200_000_000]}},
            "memory_limit_bytes": {"instance-1": 8_000_000_000},
        },
        "models": [
            {"requests": 20, "failures": failures},
            {"requests": 20, "failures": 20},
            {"requests": 0, "failures": 0},
        ],
    }


def test_lines_compare_the_compiled_with_the_ensemble() -> None:
    """What fits, what was answered, what one holds; where nothing was cold there is no latency."""
    replays = {
        "ensemble": Replay(report(10, 1, 4.0), 4500.0),
        "compiled": Replay(report(30, 0, None), 600.0),
    }
    lines = {
        line.what.removeprefix("dense: "): line for line in fitting.list_lines("dense", replays)
    }
    fits = lines["loaded at once in 8GB"]
    assert fits.ratio == pytest.approx(3)
    assert lines["room for, by the memory of one"].median("compiled") == 28
    assert lines["answered from, in all"].values == {"ensemble": [1.0], "compiled": [1.0]}
    assert lines["requests answered rightly"].median("compiled") == 0.75
    assert lines["p50 of a cold one"].values == {"ensemble": [4.0]}
    assert lines["p50 of a cold one"].ratio is None
    assert lines["proportional memory of all"].values == {"ensemble": [4500.0], "compiled": [600.0]}


def test_a_process_that_ends_while_it_is_looked_at_counts_nothing() -> None:
    """The others do."""

    def size(pids: Iterable[int]) -> float:
        (pid,) = pids
        if pid == 3:
            raise FileNotFoundError
        return 100.0 * pid

    assert fitting.list_sizes([1, 2, 3, 7], size) == [100.0, 200.0, 700.0]


@pytest.mark.parametrize(("answer", "seconds"), [(0.01, 1.0), (0.5, 2.0), (100.0, 12.0)])
def test_slow_answers_are_given_time(answer: float, seconds: float) -> None:
    """For four of them, and not for ever."""
    assert extend_seconds(1.0, answer, 4) == seconds
