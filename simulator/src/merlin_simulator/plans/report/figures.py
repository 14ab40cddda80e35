"""Which plots a plan's report has, and what each of them says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from merlin_simulator.measuring import plots, quantities
from merlin_simulator.measuring.plots import Drawn, Frame, Level, Series
from merlin_simulator.planning.run import Look
from merlin_simulator.plans.candidates.answers import Answer, Plan
from merlin_simulator.plans.table import find_mean
from merlin_simulator.replay.report.figures import COLD, OTHER, PART_WORDS, WARM

HOUR_S = 3600.0
#: Colours of the palette; with more types they begin anew.
_COLOURS = 6
_TIME = "hours since the start"
#: Where the largest is so many times the least, an axis is logarithmic.
_WIDE = 20.0

Value = Callable[[Answer], float | None]


def draw_trade_off(plan: Plan) -> Drawn:
    """The picture of the whole plan: what each candidate costs, and its p99."""
    goal = plan.goals.get("p99_s")
    levels = [] if goal is None else [Level(f"goal: {quantities.format_seconds(goal)}", goal)]
    seconds = quantities.format_seconds
    return _draw(plan, "p99 of all requests", seconds, levels, lambda answer: answer.latency.p99)


def draw_cold_shares(plan: Plan) -> Drawn:
    """What each candidate costs, and the share of its requests that are cold."""
    goal = plan.goals.get("cold_share")
    levels = [] if goal is None else [Level(f"goal: {quantities.format_share(goal)}", goal)]
    shares = quantities.format_share
    drawn = _draw(plan, "cold requests", shares, levels, lambda answer: answer.cold_share)
    # The rest on a logarithmic axis: 99 and 99.9 % would be one point.
    return replace(drawn, caption=f"{drawn.caption} The hit ratio is the rest of those answered.")


def draw_day(answer: Answer) -> tuple[Drawn, ...]:
    """One candidate over the time; plots without anything to show are left out."""
    moments = answer.moments
    if not moments:
        return ()
    starts = [0.0, *(moment.at_s / HOUR_S for moment in moments)]
    drawn = (
        _requests(starts, moments),
        _instances(starts, moments),
        _hit_ratio(starts, moments),
        _utilization(starts, moments),
        _loads(starts, moments),
        _latencies(answer),
    )
    return tuple(filter(None, drawn))


def _draw(
    plan: Plan, what: str, wording: plots.Format, levels: Sequence[Level], value: Value
) -> Drawn:
    paid = all(answer.cost is not None for answer in plan.answers)
    across = "cost of the whole time" if paid else "instances on average"
    title = f"{across.capitalize()} against {what}"

    def place(answer: Answer) -> float:
        return answer.cost if paid and answer.cost is not None else find_mean(plan, answer)

    shown = list(_series(plan, place, value))
    values = [y for series in shown for y in series.y if y > 0] + [level.y for level in levels]
    wide = bool(values) and max(values) > _WIDE * min(values)
    frame = Frame(title, across, what, y_format=wording)
    caption = (
        "A point is a candidate, with its number of instances beside it. Crosses miss a goal. "
        "Below the dashed line the goal is met. A ring is a point below another one."
    )
    svg = plots.draw_points(frame, shown, levels, scale="log" if wide else "linear")
    return Drawn(title, svg, caption)


def _series(plan: Plan, place: Callable[[Answer], float], value: Value) -> Iterator[Series]:
    """Of each type those that are good, then those that are not; one of both is in the legend."""
    types = list(dict.fromkeys(answer.candidate.instance_type for answer in plan.answers))
    for number, name in enumerate(types):
        label = name.removeprefix("ml.")
        for good in (True, False):
            points = [
                (place(answer), found, answer.candidate.words.partition(" ")[0])
                for answer in plan.answers
                if answer.candidate.instance_type == name and answer.good is good
                if (found := value(answer)) is not None
            ]
            if points:
                x, y, names = zip(*points, strict=True)
                colour = number % _COLOURS + 1
                yield Series(label, x, y, colour, crosses=not good, names=names)
                label = ""


def _requests(starts: Sequence[float], moments: Sequence[Look]) -> Drawn:
    title = "Requests a second"
    rates = _rates(starts, [moment.requests for moment in moments], HOUR_S)
    series = Series("requests", starts, rates, OTHER)
    frame = Frame(title, _TIME, "requests a second")
    return Drawn(title, plots.draw_lines(frame, [series], steps=True), "What is asked.")


def _instances(starts: Sequence[float], moments: Sequence[Look]) -> Drawn:
    title = "Instances in service"
    series = Series("instances", starts, _held([one.instances for one in moments]), WARM)
    frame = Frame(title, _TIME, "instances", whole_y=True)
    most = max(moment.loaded for moment in moments)
    caption = f"At most {most:,} models were loaded at once, copies counted."
    return Drawn(title, plots.draw_lines(frame, [series], steps=True), caption)


def _hit_ratio(starts: Sequence[float], moments: Sequence[Look]) -> Drawn | None:
    title = "Hit ratio over time"
    asked = [(start, one) for start, one in zip(starts, moments, strict=False) if one.requests]
    if not asked:
        return None
    ratios = [max(0.0, 1.0 - moment.cold / moment.requests) for _, moment in asked]
    series = Series(
        "requests that found their model loaded",
        [*(start for start, _ in asked), starts[-1]],
        _held(ratios),
        WARM,
    )
    frame = Frame(title, _TIME, "share of requests", y_format=quantities.format_share)
    caption = "At the start nothing is loaded. It falls where more is asked for than has room."
    return Drawn(title, plots.draw_lines(frame, [series], steps=True, highest=1.0), caption)


def _utilization(starts: Sequence[float], moments: Sequence[Look]) -> Drawn:
    title = "Cores in use"
    shown = [
        Series("all instances", starts, _held([one.utilization for one in moments]), WARM),
        Series("the busiest one", starts, _held([one.busiest for one in moments]), COLD, dashes=1),
    ]
    frame = Frame(title, _TIME, "share of the cores", y_format=quantities.format_share)
    caption = "By requests and loads. Near 100 % requests wait for each other."
    return Drawn(title, plots.draw_lines(frame, shown, steps=True, highest=1.0), caption)


def _loads(starts: Sequence[float], moments: Sequence[Look]) -> Drawn | None:
    title = "Models that come and go"
    wanted = (
        ("loaded", [moment.loads for moment in moments], COLD, 0),
        ("evicted", [moment.evictions for moment in moments], OTHER, 1),
    )
    shown = [
        Series(label, starts, _rates(starts, counts, 1.0), colour, dashes=dashes)
        for label, counts, colour, dashes in wanted
        if any(counts)
    ]
    frame = Frame(title, _TIME, "models an hour")
    caption = "Evicted: unloaded, the least recently used first, to make room for another."
    return Drawn(title, plots.draw_lines(frame, shown, steps=True), caption) if shown else None


def _latencies(answer: Answer) -> Drawn | None:
    title = "How many are faster than …"
    groups = (
        Series("warm", answer.warm.quantiles, (), WARM),
        Series("cold", answer.cold.quantiles, (), COLD, dashes=1),
    )
    shown = [series for series in groups if series.x]
    frame = Frame(
        title, "latency", "share of requests", quantities.format_seconds, quantities.format_share
    )
    longest = max(answer.cold_parts, key=lambda part: answer.cold_parts[part], default=None)
    caption = "Read off a percentile: at 50 % lies the median. Answered requests only."
    if longest is not None:
        share = quantities.format_share(answer.cold_parts[longest])
        caption += f" Cold ones wait most for {PART_WORDS[longest]} ({share})."
    return Drawn(title, plots.draw_cumulative(frame, shown), caption) if shown else None


def _rates(starts: Sequence[float], counts: Sequence[int], unit: float) -> list[float]:
    """Of each time from one start to the next, in so many parts of an hour."""
    return _held(
        [
            count / (max(end - start, 1e-9) * unit)
            for start, end, count in zip(starts, starts[1:], counts, strict=False)
        ]
    )


def _held(values: Sequence[float]) -> list[float]:
    """The last value holds until the end."""
    return [*values, *values[-1:]]
