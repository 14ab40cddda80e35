"""report.html of a plan: one file that opens from a disk, without a script or another file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from merlin_simulator.measuring.page import describe_seconds, render
from merlin_simulator.measuring.quantities import format_seconds, format_share, format_size
from merlin_simulator.planning.archives import average
from merlin_simulator.plans.candidates.answers import Answer, Plan
from merlin_simulator.plans.candidates.judging import explain
from merlin_simulator.plans.report.figures import HOUR_S, draw_cold_shares, draw_day, draw_trade_off
from merlin_simulator.plans.table import find_mean, say_missed, say_verdict
from merlin_simulator.replay.report.figures import PART_WORDS

_GOALS = {"p99_s": "p99 of all requests", "cold_share": "cold requests", "failures": "failures"}


def write_plan_page(plan: Plan) -> str:
    """The whole page."""
    chosen = find_shown(plan)
    kinds = plan.settings["kinds"]
    parts = sorted(chosen.cold_parts.items(), key=lambda part: -part[1])
    return render(
        "plans/report/plan.html",
        plan=plan,
        chosen=chosen,
        goals=", ".join(f"{_GOALS[name]} ≤ {_goal(name, at)}" for name, at in plan.goals.items()),
        verdict=say_verdict(plan),
        figures=_tiles(plan, chosen),
        tradeoffs=(draw_trade_off(plan), draw_cold_shares(plan)),
        candidates=[_candidate(plan, place, answer) for place, answer in enumerate(plan.answers)],
        day=draw_day(chosen),
        cold_parts=", ".join(
            f"{PART_WORDS[part]} {format_share(share)}" for part, share in parts if share
        ),
        steps=[*_steps(plan)],
        limits=[(limit.name, format_share(limit.used)) for limit in chosen.limits],
        archives=[_archive(number, kind) for number, kind in enumerate(kinds, 1)],
        sources="; ".join(dict.fromkeys(kind["source"] for kind in kinds)),
        settings=_settings(plan),
        instance_types=[_instance_type(kind) for kind in plan.settings["types"]],
    )


def find_shown(plan: Plan) -> Answer:
    """The best; where none meets the goals, that which misses fewest, then has fewest cold ones."""
    if plan.best is not None:
        return plan.answers[plan.best]
    return min(plan.answers, key=lambda answer: (len(answer.missed), answer.cold_share))


def _tiles(plan: Plan, answer: Answer) -> list[tuple[str, str]]:
    times = plan.breaking.times if plan.breaking else None
    rows = [
        ("instances", answer.candidate.words),
        ("p99", describe_seconds(answer.latency.p99)),
        ("hit ratio", _share(answer.hit_ratio)),
        ("cold p50", describe_seconds(answer.cold.p50)),
        ("cold p99", describe_seconds(answer.cold.p99)),
        ("failed", format_share(answer.failed_share)),
        ("evictions an hour", f"{answer.evictions_an_hour:,.0f}"),
        ("cores, at most", format_share(answer.busiest)),
    ]
    if answer.cost is not None:
        rows.insert(1, (f"cost of {plan.duration_s / HOUR_S:g} h", f"{answer.cost:,.2f}"))
    if answer.candidate.most is not None:
        rows.insert(1, ("instances on average", f"{find_mean(plan, answer):.3g}"))
    if times is not None:
        rows.append(("breaks at", f"{times:g} × the requests"))
    return rows


def _candidate(plan: Plan, place: int, answer: Answer) -> dict[str, Any]:
    numbers = (
        f"{find_mean(plan, answer):.3g}",
        _share(answer.hit_ratio),
        describe_seconds(answer.latency.p99),
        describe_seconds(answer.cold.p50),
        describe_seconds(answer.cold.p99),
        format_share(answer.failed_share),
        f"{answer.evictions_an_hour:,.0f}",
        format_share(answer.utilization),
        f"{answer.fits:,}",
        "–" if answer.cost is None else f"{answer.cost:,.2f}",
    )
    if answer.good:
        meets = "meets the goals" if plan.goals else "no goal is given"
        verdict = "chosen" if place == plan.best else meets
    else:
        verdict = f"refused: {say_missed(answer.missed)}: {explain(answer)}"
    return {"words": answer.candidate.words, "numbers": numbers, "verdict": verdict}


def _steps(plan: Plan) -> Iterator[tuple[str, ...]]:
    for times, step in plan.breaking.steps if plan.breaking else ():
        yield (
            f"{times:g} ×",
            describe_seconds(step.latency.p99),
            _share(step.hit_ratio),
            format_share(step.failed_share),
            format_share(step.busiest),
            say_missed(step.missed) or "meets the goals",
        )


def _archive(number: int, kind: dict[str, Any]) -> tuple[str, ...]:
    figures = kind["figures"]
    seconds = (
        _mean(figures[key]) for key in ("downloads", "loads", "unloads", "services", "firsts")
    )
    sizes = (format_size(figures[key]) for key in ("memory", "gpu_memory", "disk"))
    return (kind["match"] or f"kind {number}", *sizes, *seconds)


def _settings(plan: Plan) -> list[tuple[str, str]]:
    settings, demand = plan.settings, plan.settings["demand"]
    container = settings["container"]
    disk = container["disk"]
    rows = [
        ("traffic", plan.traffic),
        ("models", f"{plan.models:,}"),
        ("new models a day", f"{demand['new_a_day']:g}"),
        ("duration", f"{plan.duration_s / HOUR_S:g} h"),
        ("bursts", str(len(demand["wave"]["bursts"]))),
        ("container's own memory", format_size(container["base_memory"])),
        ("disk", "no bound" if disk is None else format_size(disk)),
        ("until an instance serves", format_seconds(container["ready_s"])),
        ("speed of a core", f"{container['speed']:g} × the measured one"),
    ]
    if demand["trace"] is None:
        rows.insert(1, ("popularity", f"Zipf, exponent {demand['zipf']:g}"))
    if settings["autoscaling"]:
        target = settings["autoscaling"]["target"]
        rows.append(("autoscaling", f"{target:g} invocations of an instance a minute"))
    return rows + [(f"rule {name}", str(value)) for name, value in settings["rules"].items()]


def _instance_type(kind: dict[str, Any]) -> tuple[str, str]:
    gpu = kind["gpu_memory"]
    words = f"{kind['cores']} vCPUs, {format_size(kind['memory'])}"
    return kind["name"], words + (f", GPU {format_size(gpu)}" if gpu else "")


def _goal(name: str, value: float) -> str:
    return format_seconds(value) if name == "p99_s" else format_share(value)


def _mean(quantiles: Sequence[float] | None) -> str:
    return "–" if quantiles is None else format_seconds(average(tuple(quantiles)))


def _share(value: float | None) -> str:
    return "–" if value is None else format_share(value)
