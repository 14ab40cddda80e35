"""Simulates all candidates of a plan, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice

from pydantic_core import to_jsonable_python

from merlin_simulator.plan_command.answers import (
    Answer,
    Breaking,
    Candidate,
    Plan,
    choose_best,
    explain,
    judge,
)
from merlin_simulator.plan_command.files import MOST_CANDIDATES, MOST_WITHOUT_CACHE, Impossible
from merlin_simulator.plan_command.instance_types import READ, InstanceType
from merlin_simulator.plan_command.settings import PlanSettings
from merlin_simulator.plan_command.traffic import Traffic
from merlin_simulator.rules import CacheSetting, Rules
from merlin_simulator.simulation.demand import TooManyRequests
from merlin_simulator.simulation.run import simulate
from merlin_simulator.simulation.scenario import (
    ArchiveFigures,
    InstanceSpec,
    Quantiles,
    Scaling,
    Scenario,
)

#: Factors of the requests that are tried, until one is too many.
_FACTORS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)

#: Called with the label of what is simulated, and the share that is done.
Advance = Callable[[str, float], object]


def evaluate_all(settings: PlanSettings, traffic: Traffic, advance: Advance) -> Plan:
    """Raises Impossible where there is no candidate, or one cannot hold an archive."""
    candidates = list(islice(list_candidates(settings), MOST_CANDIDATES + 1))
    if not candidates:
        raise Impossible("found no candidate, expected [instances] with types, or --instance")
    if len(candidates) > MOST_CANDIDATES:
        raise Impossible(
            f"found more than {MOST_CANDIDATES:,} candidates, expected fewer; each type is tried "
            "with each count, or bounds"
        )
    for kind in settings.types:
        _check_fit(settings, kind, traffic.archives)
        _find_price(settings, kind.name)
    answers = [_evaluate(settings, traffic, candidate, 1.0, advance) for candidate in candidates]
    best = choose_best(answers)
    goals = settings.goals
    named = {"p99_s": goals.p99_s, "cold_share": goals.cold_share, "failures": goals.failures}
    breaking = None
    if best is not None and any(goal is not None for goal in named.values()):
        breaking = _find_breaking_point(settings, traffic, candidates[best], advance)
    return Plan(
        traffic.source,
        len(traffic.archives),
        traffic.make(1.0).duration,
        settings.seed,
        {name: goal for name, goal in named.items() if goal is not None},
        READ,
        answers,
        best,
        breaking,
        to_jsonable_python(asdict(settings)),
    )


def list_candidates(settings: PlanSettings) -> Iterator[Candidate]:
    """By type, then count, then bounds."""
    for kind in settings.types:
        if settings.autoscaling is None:
            for count in settings.counts:
                yield Candidate(kind.name, count)
        else:
            for least, most in settings.autoscaling.bounds:
                yield Candidate(kind.name, least, most)


def make_scenario(
    settings: PlanSettings, traffic: Traffic, candidate: Candidate, more: float = 1.0
) -> Scenario:
    """The scenario of a candidate. more: the factor of the requests."""
    kind = next(kind for kind in settings.types if kind.name == candidate.instance_type)
    scaling = None
    if candidate.most is not None and settings.autoscaling is not None:
        given = settings.autoscaling
        scaling = Scaling(
            candidate.count,
            candidate.most,
            given.target,
            given.out_cooldown_s,
            given.in_cooldown_s,
        )
    rules = replace(Rules(), loads_at_once=2 * kind.cores)
    return Scenario(
        traffic.make(more),
        [_scale_speed(figures, settings.container.speed) for figures in traffic.archives],
        _make_spec(settings, kind),
        replace(rules, **settings.rules),
        candidate.count,
        scaling,
        settings.seed,
    )


def _evaluate(
    settings: PlanSettings, traffic: Traffic, candidate: Candidate, more: float, advance: Advance
) -> Answer:
    label = candidate.label if more == 1.0 else f"{candidate.label}, {more:g} times the requests"
    scenario = make_scenario(settings, traffic, candidate, more)
    advance(label, 0.0)
    _check_requests(scenario, label)
    try:
        outcome = simulate(scenario, lambda share: advance(label, share))
    except TooManyRequests as error:
        raise Impossible(f"{label}: {error}") from error
    price = _find_price(settings, candidate.instance_type)
    return judge(candidate, scenario, outcome, settings.goals, price)


def _find_price(settings: PlanSettings, name: str) -> float | None:
    """The price of an hour; None if no prices are given at all. Raises Impossible."""
    if settings.prices is None:
        return None
    if name not in settings.prices:
        raise Impossible(
            f"found no price of {name}, expected one of each type (instance_type,price_an_hour)"
        )
    return settings.prices[name]


def _find_breaking_point(
    settings: PlanSettings, traffic: Traffic, candidate: Candidate, advance: Advance
) -> Breaking:
    steps: list[tuple[float, Answer]] = []
    for times in _FACTORS:
        try:
            answer = _evaluate(settings, traffic, candidate, times, advance)
        except Impossible as error:
            return Breaking(times, (), f"the reckoning ({error})", steps)
        steps.append((times, answer))
        if not answer.good:
            return Breaking(times, answer.missed, explain(answer), steps)
    return Breaking(None, (), f"nothing up to {_FACTORS[-1]:g} times the requests", steps)


def _check_requests(scenario: Scenario, message: str) -> None:
    """Raise Impossible for too many. Without a cache each request is an event."""
    demand = scenario.demand
    count = demand.count_all(0.0, demand.duration) if _without_cache(scenario) else 0
    if count > MOST_WITHOUT_CACHE:
        raise Impossible(
            f"{message}: found {count:.3g} requests with cache Disabled, expected at most "
            f"{MOST_WITHOUT_CACHE:,}; take fewer of them, or fewer hours"
        )


def _without_cache(scenario: Scenario) -> bool:
    return scenario.rules.cache is CacheSetting.DISABLED


def _check_fit(
    settings: PlanSettings, kind: InstanceType, archives: Sequence[ArchiveFigures]
) -> None:
    container = settings.container
    memory = kind.memory - container.base_memory
    gpu = (kind.gpu_memory or 0) - container.base_gpu_memory
    for figures in archives:
        for what, needed, room in (
            ("memory", figures.memory, memory),
            ("GPU memory", figures.gpu_memory, gpu),
            ("disk", figures.disk, container.disk),
        ):
            if room is not None and needed > room:
                raise Impossible(
                    f"found {figures.name}, which needs {needed:,} bytes of {what}, expected one "
                    f"that {kind.name} can hold, which has {max(0, room):,} beside the container; "
                    "take a larger type"
                )


def _make_spec(settings: PlanSettings, kind: InstanceType) -> InstanceSpec:
    container = settings.container
    return InstanceSpec(
        kind.memory,
        kind.cores,
        container.base_memory,
        container.disk,
        container.ready_s,
        kind.memory,
        kind.gpu_memory,
        container.base_gpu_memory,
    )


def _scale_speed(figures: ArchiveFigures, speed: float) -> ArchiveFigures:
    """The figures on cores that are so many times as fast; a download is not faster."""
    if speed == 1.0:
        return figures

    def faster(seconds: Quantiles) -> Quantiles:
        return tuple(quantile / speed for quantile in seconds)

    return replace(
        figures,
        load_s=faster(figures.load_s),
        unload_s=faster(figures.unload_s),
        service_s=faster(figures.service_s),
        first_answer_s=figures.first_answer_s and faster(figures.first_answer_s),
    )
