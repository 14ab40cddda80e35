"""Writes a plan as text: a line for each candidate, the best of them, and what breaks it first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from merlin_simulator.measuring.quantities import format_seconds, format_share
from merlin_simulator.plan_command.answers import Answer, MissedGoal, Plan, explain, find_equals

_GOALS = {"p99_s": "p99", "cold_share": "cold share", "failures": "failures"}


def write_plan(plan: Plan) -> str:
    """The plan as text, as `plan` prints it."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    yield f"{plan.traffic}, {plan.models} models, seed {plan.seed}"
    yield ""
    rows: list[tuple[str, ...]] = [_HEAD, *(_row(answer) for answer in plan.answers)]
    if any(answer.candidate.most for answer in plan.answers):
        means = ("on average", *(f"{find_mean(plan, answer):.3g}" for answer in plan.answers))
        rows = [(row[0], mean, *row[1:]) for row, mean in zip(rows, means, strict=True)]
    yield from _align(rows)
    yield ""
    yield from say_verdict(plan)


def say_verdict(plan: Plan) -> Iterator[str]:
    """Lines: the best and what breaks it first, or why there is none."""
    if plan.best is None:
        yield "No candidate meets the goals:"
        for answer in plan.answers:
            yield f"  {answer.candidate.label}: {say_missed(answer.missed)}: {explain(answer)}"
        return
    best = plan.answers[plan.best]
    paid = best.cost is not None
    subject = "cheapest" if paid else "smallest (no prices are given)"
    if plan.goals:
        yield f"The {subject} that meets the goals: {best.candidate.label}"
    else:
        options = "--p99, --cold-share, --failures"
        yield f"No goals are given ({options}). The {subject}: {best.candidate.label}"
    if equals := find_equals(plan):
        message = ", ".join(answer.candidate.label for answer in equals)
        yield f"{'At the same cost' if paid else 'With as few cores'}: {message}"
    if plan.breaking is None:
        return
    if plan.breaking.times is None:
        yield f"What breaks first: {plan.breaking.why}"
    else:
        yield (
            f"What breaks first: at {plan.breaking.times:g} times the requests "
            f"{say_missed(plan.breaking.missed)}: {plan.breaking.why}"
        )


def find_mean(plan: Plan, answer: Answer) -> float:
    """How many instances a candidate has on average."""
    return answer.instance_hours * 3600.0 / plan.duration_s


def say_missed(missed: Sequence[MissedGoal]) -> str:
    """As p99 4.1 s > 1 s."""
    return ", ".join(
        f"{_GOALS[goal.goal]} of no answer"
        if goal.found is None
        else f"{_GOALS[goal.goal]} {_value(goal, goal.found)} > {_value(goal, goal.wanted)}"
        for goal in missed
    )


def _value(missed: MissedGoal, value: float) -> str:
    return format_seconds(value) if missed.goal == "p99_s" else format_share(value)


_HEAD = (
    "instances",
    "hits",
    "cold p50",
    "cold p99",
    "warm p50",
    "warm p99",
    "p99",
    "failed",
    "evictions/h",
    "cores",
    "cost",
    "",
)


def _row(answer: Answer) -> tuple[str, ...]:
    return (
        answer.candidate.label,
        "-" if answer.hit_ratio is None else format_share(answer.hit_ratio),
        *map(
            _seconds,
            (
                answer.cold.p50,
                answer.cold.p99,
                answer.warm.p50,
                answer.warm.p99,
                answer.latency.p99,
            ),
        ),
        format_share(answer.failed_share),
        f"{answer.evictions_an_hour:.0f}",
        format_share(answer.utilization),
        "-" if answer.cost is None else f"{answer.cost:.2f}",
        "" if answer.good else "misses " + ", ".join(_GOALS[goal.goal] for goal in answer.missed),
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)


def _align(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        yield "  ".join([*cells, row[-1]]).rstrip()
