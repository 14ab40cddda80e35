"""The picture of a plan: what each candidate costs, and its p99."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from merlin_simulator.measuring import plots, quantities
from merlin_simulator.measuring.plots import Frame, Level, Series
from merlin_simulator.plan_command.answers import Answer, Plan
from merlin_simulator.plan_command.table import find_mean

#: Colours of the palette; with more types they begin anew.
_COLOURS = 6
#: Where the largest is so many times the least, an axis is logarithmic.
_WIDE = 20.0


def draw_trade_off(plan: Plan) -> str:
    """As SVG. A cross misses a goal; a ring is a point below another one."""
    goal = plan.goals.get("p99_s")
    levels = [] if goal is None else [Level(f"goal: {quantities.format_seconds(goal)}", goal)]
    paid = all(answer.cost is not None for answer in plan.answers)
    across = "cost of the whole time" if paid else "instances on average"

    def measure(answer: Answer) -> float:
        return answer.cost if paid and answer.cost is not None else find_mean(plan, answer)

    shown = list(_series(plan, measure))
    values = [y for series in shown for y in series.y if y > 0] + [level.y for level in levels]
    wide = bool(values) and max(values) > _WIDE * min(values)
    title, subject = f"{across.capitalize()} against p99 of all requests", "p99 of all requests"
    frame = Frame(title, across, subject, y_format=quantities.format_seconds)
    return plots.draw_points(frame, shown, levels, scale="log" if wide else "linear")


def _series(plan: Plan, measure: Callable[[Answer], float]) -> Iterator[Series]:
    """Of each type those that are good, then those that are not; one of both is in the legend."""
    types = list(dict.fromkeys(answer.candidate.instance_type for answer in plan.answers))
    for number, name in enumerate(types):
        label = name.removeprefix("ml.")
        for good in (True, False):
            points = [
                (measure(answer), p99, answer.candidate.label.partition(" ")[0])
                for answer in plan.answers
                if answer.candidate.instance_type == name and answer.good is good
                if (p99 := answer.latency.p99) is not None
            ]
            if points:
                x, y, names = zip(*points, strict=True)
                colour = number % _COLOURS + 1
                yield Series(label, x, y, colour, crosses=not good, names=names)
                label = ""
