"""The plans of simulator/examples are what the planner makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from merlin_simulator.plan_command.candidates import evaluate_all
from merlin_simulator.plan_command.plan_toml import read_settings
from merlin_simulator.plan_command.traffic import make_traffic
from tests.support.container import ROOT

EXAMPLES = sorted((ROOT / "simulator/examples").glob("*.toml"))
PAGE = (ROOT / "simulator/docs/planning.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_a_plan(path: Path) -> None:
    """A tenth of its models and requests for a while, on its first candidate."""
    settings = read_settings(path)
    models, rps = settings.demand.models // 10, settings.demand.rps / 10
    demand = replace(settings.demand, models=models, rps=rps, hours=0.5)
    small = replace(
        settings,
        demand=replace(demand, bursts=[]),
        types=settings.types[:1],
        counts=settings.counts[:1],
    )
    plan = evaluate_all(small, make_traffic(small), lambda what, share: None)
    (answer,) = plan.answers
    assert answer.requests > 100
    assert answer.cold.p50
    assert answer.warm.p50
    assert f"plan simulator/examples/{path.name}" in PAGE


def test_the_examples_differ_by_compiling_alone() -> None:
    """Same demand, same instances, same goals; a compiled archive is smaller and faster."""
    as_exported, compiled = (
        read_settings(ROOT / f"simulator/examples/{name}.toml")
        for name in ("nvtabular", "compiled")
    )
    assert replace(as_exported, kinds=()) == replace(compiled, kinds=())
    for one, other in zip(as_exported.kinds, compiled.kinds, strict=True):
        assert one.figures.memory > other.figures.memory
        assert one.figures.mean_service_s > 10 * other.figures.mean_service_s
