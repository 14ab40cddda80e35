"""Candidates tried and judged: what is asked of an endpoint is answered, equal seeds alike."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from merlin_simulator.plan_command.answers import Plan, explain
from merlin_simulator.plan_command.candidates import evaluate_all
from merlin_simulator.plan_command.files import Impossible
from merlin_simulator.plan_command.instance_types import InstanceType
from merlin_simulator.plan_command.run import as_json
from merlin_simulator.plan_command.settings import (
    ArchiveKind,
    AutoscalingTable,
    ContainerTable,
    DemandTable,
    Goals,
    PlanSettings,
)
from merlin_simulator.plan_command.table import write_plan
from merlin_simulator.plan_command.traffic import make_traffic
from merlin_simulator.rules import MIB, CacheSetting
from merlin_simulator.simulation.scenario import ArchiveFigures
from simulator.tests.support.simulated import archives

pytestmark = pytest.mark.slow

FIGURES = replace(
    archives(1)[0],
    memory=40 * MIB,
    disk=10 * MIB,
    load_s=(0.5,),
    unload_s=(0.1,),
    service_s=(0.01,),
)
SMALL = InstanceType("ml.small", 2, 1000 * MIB, None)
LARGE = InstanceType("ml.large", 4, 4000 * MIB, None)
SETTINGS = PlanSettings(
    DemandTable(models=60, zipf=0.8, rps=10.0, hours=0.5),
    [ArchiveKind(FIGURES)],
    [SMALL, LARGE],
    counts=(1, 2),
    goals=Goals(p99_s=1.5, cold_share=0.05, failures=0.001),
    prices={"ml.small": 0.1, "ml.large": 0.3},
)


def planned(settings: PlanSettings) -> Plan:
    return evaluate_all(settings, make_traffic(settings), lambda what, share: None)


def test_the_cheapest_that_is_good_enough() -> None:
    """One small instance has room for 22 of 60 models; one large one has it for all."""
    plan = planned(SETTINGS)
    labels = [answer.candidate.label for answer in plan.answers]
    assert labels == ["1 x ml.small", "2 x ml.small", "1 x ml.large", "2 x ml.large"]
    alone, two, large, _ = plan.answers
    assert alone.fits == 22
    assert alone.evictions_an_hour > 100
    assert {one.goal for one in alone.missed} == {"p99_s", "cold_share"}
    assert (large.fits, large.evictions_an_hour, large.missed) == (60, 0.0, [])
    assert large.cost == pytest.approx(0.15)
    assert plan.best is not None
    best = plan.answers[plan.best]
    costs = [answer.cost or 0.0 for answer in (alone, two, large) if answer.good]
    assert best.cost == min(costs)
    text = write_plan(plan)
    assert f"The cheapest that meets the goals: {best.candidate.label}" in text
    assert "What breaks first" in text
    # The tree is JSON as it stands.
    assert json.loads(json.dumps(as_json(plan), allow_nan=False))["best"] == plan.best


def test_equal_seeds_are_equal_plans() -> None:
    """All of it; another seed is another run."""
    one, two, other = (
        planned(replace(SETTINGS, seed=seed, types=[SMALL], counts=(1,))) for seed in (1, 1, 2)
    )
    assert one == two
    assert one.answers[0].requests != other.answers[0].requests


def test_goals_that_nobody_meets() -> None:
    """Each candidate is told by what it misses, and why."""
    goals = Goals(cold_share=0.0)
    plan = planned(replace(SETTINGS, goals=goals, types=[SMALL], counts=(1,)))
    assert (plan.best, plan.breaking) == (None, None)
    text = write_plan(plan)
    assert "No candidate meets the goals:" in text
    assert "cold share" in text
    assert "the memory: 22 models fit on an instance" in text


def test_without_goals_nothing_is_said_to_meet_them() -> None:
    """What is best, and what is as good by costs or cores, is named; nothing can break."""
    twin = replace(SMALL, name="ml.twin", memory=2 * SMALL.memory)
    types = [SMALL, twin]
    plan = planned(replace(SETTINGS, goals=Goals(), prices=None, types=types, counts=(1,)))
    assert plan.breaking is None
    *_, verdict, equals = write_plan(plan).splitlines()
    assert verdict == (
        "No goals are given (--p99, --cold-share, --failures). "
        "The smallest (no prices are given): 1 x ml.small"
    )
    assert equals == "With as few cores: 1 x ml.twin"
    small, other = (replace(answer, cost=1.5) for answer in plan.answers)
    paid = replace(plan, answers=[small, other], goals={"failures": 1.0})
    assert write_plan(paid).endswith(
        "The cheapest that meets the goals: 1 x ml.small\nAt the same cost: 1 x ml.twin\n"
    )
    dear = replace(paid, answers=[small, replace(other, cost=1.6)])
    assert "At the same cost" not in write_plan(dear)


def test_a_goal_below_what_a_request_takes() -> None:
    """No number of instances helps, and neither cores nor memory are blamed."""
    plan = planned(replace(SETTINGS, types=[LARGE], counts=(1,), goals=Goals(p99_s=0.001)))
    assert "p99 10 ms > 1 ms: the archives: even the fastest warm request takes" in (
        write_plan(plan)
    )


def test_too_few_cores() -> None:
    """More than the cores can do is not answered in time, and is told by that."""
    busy = replace(FIGURES, service_s=(0.5,))
    plan = planned(
        replace(
            SETTINGS,
            kinds=[ArchiveKind(busy)],
            types=[LARGE],
            counts=(1,),
            goals=Goals(failures=0.1),
        )
    )
    (answer,) = plan.answers
    assert answer.failed_share > 0.1
    assert answer.busiest == 1.0
    # Who is answered has waited until the limit of 60 s.
    assert (answer.warm.p50, answer.latency.p99) == (60.0, 60.0)
    assert "the cores" in write_plan(plan)


@pytest.mark.parametrize(
    ("service", "concurrency", "rules", "why"),
    [
        (0.4, 64, {}, "the cores: the busiest"),
        (0.1, 1, {}, "a model's places (concurrency) are too few"),
        (0.01, 1, {"cache": CacheSetting.DISABLED, "cold_wait_s": 0.001}, "cold requests"),
    ],
)
def test_who_answers_too_late_has_no_good_p99(
    service: float, concurrency: int, rules: dict[str, Any], why: str
) -> None:
    """More is asked than 4 cores, or a model's one place, can do, or nothing is loaded in time: the
    p99 of the few that are answered, or of none, is no reason to rent it."""
    kinds = [ArchiveKind(replace(FIGURES, service_s=(service,), concurrency=concurrency))]
    demand = DemandTable(models=1, rps=0.1 if rules else 20.0, hours=0.1)
    settings = replace(SETTINGS, demand=demand, kinds=kinds, types=[LARGE], counts=(1,))
    (answer,) = planned(replace(settings, rules=rules)).answers
    assert {one.goal for one in answer.missed} >= {"p99_s", "failures"}
    assert answer.failed_share > 0.1
    assert why in explain(answer)


def test_without_prices_the_smallest_is_best() -> None:
    """By cores, not by how many instances there are: one of four is larger than one of two."""
    plan = planned(replace(SETTINGS, types=[LARGE, SMALL], counts=(1,), goals=Goals(), prices=None))
    assert plan.best == 1
    assert plan.answers[1].core_hours == pytest.approx(2 * 0.5)
    assert "The smallest (no prices are given): 1 x ml.small" in write_plan(plan)


def test_who_answers_nobody_meets_no_goal() -> None:
    """No request is answered before its caller gives up."""
    never = replace(FIGURES, load_s=(10_000.0,))
    demand = DemandTable(models=5, rps=1.0, hours=0.1)
    plan = planned(
        replace(
            SETTINGS,
            demand=demand,
            kinds=[ArchiveKind(never)],
            types=[SMALL],
            counts=(1,),
            goals=Goals(p99_s=2.0),
        )
    )
    assert plan.best is None
    assert "1 x ml.small: p99 of no answer" in write_plan(plan)


def test_gpu_memory_is_a_bound_beside_memory() -> None:
    """Models that fit the memory, and not the GPU's, leave by 507."""
    kind = replace(FIGURES, gpu_memory=100 * MIB)
    gpu = replace(LARGE, gpu_memory=1050 * MIB)
    plan = planned(replace(SETTINGS, kinds=[ArchiveKind(kind)], types=[gpu], counts=(1,)))
    (answer,) = plan.answers
    assert answer.fits == 10
    assert answer.evictions_an_hour > 100
    assert answer.limits[0].name == "GPU memory"


def test_autoscaling_has_a_candidate_for_each_bounds() -> None:
    """From the least up to the most, by the target."""
    scaling = AutoscalingTable(target=100.0, bounds=[(1, 3)])
    container = ContainerTable(ready_s=60.0)
    plan = planned(
        replace(SETTINGS, autoscaling=scaling, container=container, types=[LARGE], counts=(1,))
    )
    (answer,) = plan.answers
    assert answer.candidate.label == "1-3 x ml.large"
    assert answer.most_instances == 3
    _, _, head, row, *_ = write_plan(plan).splitlines()
    assert head.split()[:3] == ["instances", "on", "average"]
    assert float(row.split()[3]) == pytest.approx(answer.instance_hours / 0.5, rel=0.01)
    assert 0.5 < answer.instance_hours < 1.5


@pytest.mark.parametrize(
    ("figures", "container", "what"),
    [
        (
            replace(FIGURES, memory=999 * MIB),
            ContainerTable(base_memory=2 * MIB),
            "bytes of memory",
        ),
        (replace(FIGURES, gpu_memory=1), ContainerTable(), "bytes of GPU memory"),
        (FIGURES, ContainerTable(disk=MIB), "bytes of disk"),
    ],
)
def test_an_archive_that_no_instance_holds(
    figures: ArchiveFigures, container: ContainerTable, what: str
) -> None:
    """One sentence with the archive, and what it lacks."""
    settings = replace(SETTINGS, kinds=[ArchiveKind(figures)], types=[SMALL], container=container)
    with pytest.raises(Impossible, match=rf"model-01\.tar\.gz, which needs .* {what}"):
        planned(settings)


def test_no_price_is_said() -> None:
    """Prices are of the user's file alone."""
    with pytest.raises(Impossible, match=r"found no price of ml\.large"):
        planned(replace(SETTINGS, prices={}, types=[LARGE], counts=(1,)))


def test_a_lacking_price_is_said_before_anything_is_reckoned() -> None:
    """The first type has one, the second has not."""
    told: list[str] = []
    settings = replace(SETTINGS, prices={"ml.small": 0.1})
    with pytest.raises(Impossible, match=r"found no price of ml\.large"):
        evaluate_all(settings, make_traffic(settings), lambda what, share: told.append(what))
    assert not told
