"""report.html of a plan: one file that opens from a disk, without a script or another file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from merlin_simulator.measuring.page import (
    NUMBER,
    write_cell,
    write_facts,
    write_figure,
    write_numbers,
    write_page,
    write_row_head,
    write_table,
    write_tiles,
)
from merlin_simulator.measuring.plots import Drawn
from merlin_simulator.measuring.quantities import format_seconds, format_share, format_size
from merlin_simulator.planning.archives import average
from merlin_simulator.plans.candidates.answers import Answer, Plan
from merlin_simulator.plans.candidates.judging import explain
from merlin_simulator.plans.report.figures import HOUR_S, draw_cold_shares, draw_day, draw_trade_off
from merlin_simulator.plans.table import find_mean, say_missed, say_verdict
from merlin_simulator.replay.report.figures import PART_WORDS
from merlin_simulator.replay.report.page import STYLE

_GOALS = {"p99_s": "p99 of all requests", "cold_share": "cold requests", "failures": "failures"}
_SURE = (
    "The plan is a simulation by the simulator's own decisions (routing, room, evictions, loads at "
    "once, autoscaling), not a measurement. docs/planning.md has real replays beside plans that "
    "are like them: most have hit ratios within 2 points, evictions within a tenth and the cold "
    "p50 within a quarter; with two instances, or hardly any disk, some are farther apart, as two "
    "replays of the same requests are.",
    "Its queues are held against Erlang's formula (M/M/c), its hit ratios against Che's "
    "approximation of an LRU cache under a Zipf law.",
    "What it does not know: the speed of another machine's cores (container.speed), S3's time "
    "(download_s), callers that ask again, a GPU's computing, and models whose figures change with "
    "what they are asked. Equal seeds are equal plans.",
)


def write_plan_page(plan: Plan) -> str:
    """The whole page. What is foreign in it is escaped."""
    chosen = find_shown(plan)
    title = f"Plan: {plan.models:,} models, {plan.traffic}"
    tradeoffs = _plots((draw_trade_off(plan), draw_cold_shares(plan)))
    day = _plots(draw_day(chosen))
    parts = (
        _heading(title, plan),
        _tiles(plan, chosen),
        f"<h2>The trade-off</h2>{tradeoffs}",
        _candidates(plan),
        f"<h2>{escape(chosen.candidate.words)} over the time</h2>{day}",
        _latencies(chosen),
        _breaking(plan, chosen),
        _archives(plan.settings),
        '<div class="columns">' + _asked(plan) + _sources(plan) + "</div>",
        "<h2>How sure</h2>" + "".join(f"<p>{escape(words)}</p>" for words in _SURE),
    )
    return write_page(title, "".join(parts), STYLE)


def find_shown(plan: Plan) -> Answer:
    """The best; where none meets the goals, that which misses fewest, then has fewest cold ones."""
    if plan.best is not None:
        return plan.answers[plan.best]
    return min(plan.answers, key=lambda answer: (len(answer.missed), answer.cold_share))


def _heading(title: str, plan: Plan) -> str:
    colour = "bad" if plan.best is None else "good"
    lines = "".join(f'<p class="verdict {colour}">{escape(line)}</p>' for line in say_verdict(plan))
    goals = ", ".join(f"{_GOALS[name]} ≤ {_goal(name, at)}" for name, at in plan.goals.items())
    return (
        f"<h1>{escape(title)}</h1>"
        f'<p class="faint">goals: {escape(goals or "none")}; seed {plan.seed}</p>{lines}'
    )


def _tiles(plan: Plan, answer: Answer) -> str:
    times = plan.breaking.times if plan.breaking else None
    rows = [
        ("instances", answer.candidate.words),
        ("p99", _duration(answer.latency.p99)),
        ("hit ratio", _share(answer.hit_ratio)),
        ("cold p50", _duration(answer.cold.p50)),
        ("cold p99", _duration(answer.cold.p99)),
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
    return write_tiles(rows)


def _candidates(plan: Plan) -> str:
    names = (
        "instances",
        "hits",
        "p99",
        "cold p50",
        "cold p99",
        "failed",
        "evictions/h",
        "cores",
        "fit",
        "cost",
    )
    head = [write_cell("th", "candidate"), *(write_cell("th", name, NUMBER) for name in names)]
    head.append(write_cell("th", "verdict"))
    rows = [_candidate(plan, place, answer) for place, answer in enumerate(plan.answers)]
    words = (
        "Instances and cores: on average. Fit: models that have room in one instance at once. "
        "Cost: of the whole time, in the currency of your prices."
    )
    return f"<h2>All candidates</h2>{write_table(head, rows)}<p>{words}</p>"


def _candidate(plan: Plan, place: int, answer: Answer) -> Iterable[str]:
    numbers = (
        f"{find_mean(plan, answer):.3g}",
        _share(answer.hit_ratio),
        _duration(answer.latency.p99),
        _duration(answer.cold.p50),
        _duration(answer.cold.p99),
        format_share(answer.failed_share),
        f"{answer.evictions_an_hour:,.0f}",
        format_share(answer.utilization),
        f"{answer.fits:,}",
        "–" if answer.cost is None else f"{answer.cost:,.2f}",
    )
    if answer.good:
        meets = "meets the goals" if plan.goals else "no goal is given"
        verdict = write_cell("td", "chosen" if place == plan.best else meets)
    else:
        why = f"{say_missed(answer.missed)}: {explain(answer)}"
        verdict = write_cell("td", f"refused: {why}")
    cells = (write_cell("td", number, NUMBER) for number in numbers)
    return (write_row_head(answer.candidate.words), *cells, verdict)


def _latencies(answer: Answer) -> str:
    rows = [
        (name, _duration(found.p50), _duration(found.p99))
        for name, found in (("all", answer.latency), ("warm", answer.warm), ("cold", answer.cold))
    ]
    parts = sorted(answer.cold_parts.items(), key=lambda part: -part[1])
    spent = ", ".join(f"{PART_WORDS[part]} {format_share(share)}" for part, share in parts if share)
    told = f"<p>Cold requests waited for: {escape(spent)}.</p>" if spent else ""
    failures = "".join(
        f"<p>{escape(name)}: {format_share(share)} of all requests.</p>"
        for name, share in answer.failures.items()
    )
    words = (
        "<p>Of answered requests, without the network to their callers. Cold: the model had to be "
        "loaded, or was being loaded, and waiting for that counts; warm: it was there.</p>"
    )
    return f"<h2>Latencies</h2>{words}" + write_numbers(("", "p50", "p99"), rows) + told + failures


def _breaking(plan: Plan, answer: Answer) -> str:
    limits = [(limit.name, format_share(limit.used)) for limit in answer.limits]
    found = "<h2>What breaks first</h2>"
    if plan.breaking is not None:
        rows = [
            (
                f"{times:g} ×",
                _duration(step.latency.p99),
                _share(step.hit_ratio),
                format_share(step.failed_share),
                format_share(step.busiest),
                say_missed(step.missed) or "meets the goals",
            )
            for times, step in plan.breaking.steps
        ]
        head = ("requests", "p99", "hits", "failed", "busiest instance", "")
        found += f"<p>{escape(plan.breaking.why)}</p>" + write_numbers(head, rows)
    used = "The share of each bound that all of it would take; above 100 % models take turns."
    return found + f"<p>{used}</p>" + write_numbers(("bound", "used"), limits)


def _archives(settings: Mapping[str, Any]) -> str:
    head = ("archive", "memory", "GPU", "disk", "download", "load", "unload", "warm", "first")
    rows, sources = [], []
    for number, kind in enumerate(settings["kinds"], 1):
        one = kind["figures"]
        name = kind["match"] or f"kind {number}"
        seconds = (
            _mean(one[key]) for key in ("downloads", "loads", "unloads", "services", "firsts")
        )
        sizes = (format_size(one[key]) for key in ("memory", "gpu_memory", "disk"))
        rows.append((name, *sizes, *seconds))
        sources.append(kind["source"])
    told = "; ".join(dict.fromkeys(sources))
    return (
        f"<h2>Archives</h2><p>Figures from {escape(told)}. Seconds are means, of a core of its "
        f"own.</p>{write_numbers(head, rows)}"
    )


def _asked(plan: Plan) -> str:
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
    rows += [(f"rule {name}", str(value)) for name, value in settings["rules"].items()]
    return "<section><h2>Settings</h2>" + write_facts(rows) + "</section>"


def _sources(plan: Plan) -> str:
    rows = []
    for kind in plan.settings["types"]:
        gpu = kind["gpu_memory"]
        words = f"{kind['cores']} vCPUs, {format_size(kind['memory'])}"
        rows.append((kind["name"], words + (f", GPU {format_size(gpu)}" if gpu else "")))
    prices = plan.settings["prices"]
    told = "none given" if prices is None else "yours; none are built in"
    words = (
        "AWS's tables of instance types, read on "
        f"{plan.types_read}; types under [[instance_types]] are the plan's own. Prices: {told}."
    )
    facts = write_facts(rows)
    return f"<section><h2>Instance types</h2>{facts}<p>{escape(words)}</p></section>"


def _plots(drawn: Sequence[Drawn]) -> str:
    figures = "".join(write_figure(one.svg, one.title, one.caption) for one in drawn)
    return f'<div class="plots">{figures}</div>'


def _goal(name: str, value: float) -> str:
    return format_seconds(value) if name == "p99_s" else format_share(value)


def _mean(quantiles: Sequence[float] | None) -> str:
    return "–" if quantiles is None else format_seconds(average(tuple(quantiles)))


def _duration(value: float | None) -> str:
    return "–" if value is None else format_seconds(value)


def _share(value: float | None) -> str:
    return "–" if value is None else format_share(value)
