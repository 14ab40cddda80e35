"""What is read from two replays: how many models fit, and what each of them holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from bench.proc import Process
from bench.rows import fitting
from bench.rows.fitting import HeldMemory, Replayed
from bench.rows.workflows import PREDICTOR, TRANSFORM, WHOLE, long_enough, part_of


def report(loaded: int, failures: int, cold: float | None) -> dict[str, Any]:
    """The parts of report.json that are read: three models, the last never asked."""
    return {
        "requests": {"planned": 40, "right": 30},
        "hit_ratio": 0.5,
        "latency_s": {"cold": {"p50": cold}, "warm": {"p50": 0.01}},
        "loading": {
            "most_loaded": loaded,
            "evictions": 3,
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
    found = {
        "ensemble": Replayed(
            report(10, 1, 4.0), HeldMemory({TRANSFORM: (10, 2500.0), PREDICTOR: (10, 2000.0)})
        ),
        "compiled": Replayed(report(30, 0, None), HeldMemory({TRANSFORM: (30, 600.0)})),
    }
    lines = {
        line.what.removeprefix("dense: "): line
        for line in fitting.list_lines("fit", "dense", found)
    }
    fits = lines["loaded at once in 8GB"]
    assert fits.ratio == pytest.approx(3)
    assert lines["room for, by the memory of one"].median("compiled") == 28
    assert lines["answered from, in all"].values == {"ensemble": [1.0], "compiled": [1.0]}
    assert lines["requests answered rightly"].median("compiled") == 0.75
    assert lines["p50 of a cold one"].values == {"ensemble": [4.0]}
    assert lines["p50 of a cold one"].ratio is None
    assert lines["memory of one, as the simulator counts"].median("ensemble") == 250
    assert lines["proportional memory of all"].median("ensemble") == 4500
    each = lines["transform, proportional memory of one"]
    assert each.values == {"ensemble": [250.0], "compiled": [20.0]}
    assert each.note == "processes at that moment: ensemble: 10, compiled: 30"
    assert lines["predictor, proportional memory of one"].values == {"ensemble": [200.0]}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/s/m.0_transformworkflowtriton/1/model.py", TRANSFORM),
        ("/s/m.1_predictpytorchtriton/1/model.pt", PREDICTOR),
        ("/s/m/1/model.py", WHOLE),
    ],
)
def test_parts_are_told_by_the_path(path: str, part: str) -> None:
    """merlin-systems names its steps so."""
    assert part_of(path) == part


def test_what_is_held_is_summed_by_part() -> None:
    """A process that ends while it is looked at counts nothing."""

    def size(pids: Iterable[int]) -> float:
        (pid,) = pids
        if pid == 3:
            raise FileNotFoundError
        return 100.0 * pid

    paths = ("/m.0_transformworkflow/1/model.py", "/m.1_predictpytorch/1/model.pt", "/x/1/model.py")
    stubs = [Process(pid, 1, ("stub", path), 0.0) for pid, path in enumerate(paths, start=1)]
    assert fitting.sum_by_part(stubs, False, size).parts == {
        TRANSFORM: (1, 100.0),
        PREDICTOR: (1, 200.0),
    }
    forked = Process(7, 1, ("merlin-model", "/m.1_predictpytorch/1"), 0.0)
    both = fitting.sum_by_part([*stubs, forked], False, size)
    assert both.parts[PREDICTOR] == (1, 900.0)
    alone = fitting.sum_by_part(stubs, True, size)
    assert alone.parts == {TRANSFORM: (2, 300.0)}
    assert (alone.processes, alone.each(TRANSFORM), alone.each(PREDICTOR)) == (2, 150.0, None)


@pytest.mark.parametrize(("answer", "seconds"), [(0.01, 1.0), (0.5, 2.0), (100.0, 12.0)])
def test_slow_answers_are_given_time(answer: float, seconds: float) -> None:
    """For four of them, and not for ever."""
    assert long_enough(1.0, answer, 4) == seconds
