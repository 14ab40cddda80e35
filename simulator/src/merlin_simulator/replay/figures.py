"""The plots of a replay's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from merlin_simulator.measuring import plots, quantities
from merlin_simulator.measuring.plots import Drawn, Frame, Level, Series
from merlin_simulator.replay.arithmetic import find_coldness
from merlin_simulator.replay.load import Recording, SentRequest
from merlin_simulator.replay.summary import split
from merlin_simulator.watch.events import COLD_PARTS

#: Colours, by meaning: the same in every plot.
WARM, COLD, GOOD, BAD, OTHER = 1, 2, 3, 4, 5
#: What cold requests waited for, in words; each has a colour of its own.
PART_WORDS = {
    "room": "room",
    "turn": "a turn",
    "download": "download",
    "extraction": "extraction",
    "load": "load",
    "answer": "answer",
}
_PART_COLOURS = {"room": 2, "turn": 6, "download": 1, "extraction": 5, "load": 3, "answer": 4}
#: Instances that are drawn; the others are in report.json.
_MOST_INSTANCES = 4
_TIME = "seconds since the start"


def draw_figures(summary: Mapping[str, Any], recording: Recording) -> tuple[Drawn, ...]:
    """All plots, those without anything to show left out."""
    groups = split(recording.samples, find_coldness(recording.events))
    over_time = summary["over_time"]
    drawn = (
        _latency_over_time(*groups),
        _latency_spread(groups[0], groups[1]),
        _cold_parts(over_time),
        _throughput(over_time),
        _hit_ratio(over_time),
        _loads(over_time),
        _loaded(over_time, recording.seconds),
        _memory(over_time),
        _popularity(summary["models"]),
    )
    return tuple(filter(None, drawn))


def _latency_over_time(
    cold: Sequence[SentRequest], warm: Sequence[SentRequest], failed: Sequence[SentRequest]
) -> Drawn | None:
    title = "Latency of each request"
    groups = (
        Series("warm", _dues(warm), _waits(warm), WARM),
        Series("cold", _dues(cold), _waits(cold), COLD),
        Series("failed", _dues(failed), _waits(failed), BAD, crosses=True),
    )
    shown = [series for series in groups if series.x]
    frame = Frame(title, _TIME, "latency", y_format=quantities.format_seconds)
    caption = (
        "A dot is a request, at the time when it was due. Cold: its model had to be loaded, or was "
        "being loaded, when the request came; warm: it was there."
    )
    return Drawn(title, plots.draw_scatter(frame, shown), caption) if shown else None


def _latency_spread(cold: Sequence[SentRequest], warm: Sequence[SentRequest]) -> Drawn | None:
    title = "How many are faster than …"
    groups = (
        Series("warm", _waits(warm), (), WARM),
        Series("cold", _waits(cold), (), COLD, dashes=1),
    )
    shown = [series for series in groups if series.x]
    frame = Frame(
        title, "latency", "share of requests", quantities.format_seconds, quantities.format_share
    )
    caption = "Read off a percentile: at 50 % lies the median. Right answers only."
    return Drawn(title, plots.draw_cumulative(frame, shown), caption) if shown else None


def _cold_parts(over_time: Mapping[str, Any]) -> Drawn | None:
    title = "What cold requests waited for"
    shown = [
        _draw_rates(PART_WORDS[part], over_time["cold_parts_s"][part], 1, _PART_COLOURS[part], 0)
        for part in COLD_PARTS
    ]
    width = over_time["bin_s"]
    shown = [replace(row, x=[x * width for x in row.x]) for row in shown if any(row.y)]
    frame = Frame(title, _TIME, "on average", y_format=quantities.format_seconds)
    caption = (
        "The average cold request that was answered then. Room: until others had left the memory "
        "or the disk. A turn: while others were fetched, loaded or given room. Load: POST /models."
    )
    return Drawn(title, plots.draw_stacked(frame, shown), caption) if shown else None


def _throughput(over_time: Mapping[str, Any]) -> Drawn | None:
    title = "Requests a second"
    wanted = (
        ("due", OTHER, 1, "due"),
        ("right", GOOD, 0, "right"),
        ("failed", BAD, 0, "failed"),
        ("not_sent", COLD, 2, "not sent"),
    )
    shown = [
        _draw_rates(label, over_time[name], over_time["bin_s"], colour, dashes)
        for name, colour, dashes, label in wanted
        if any(over_time[name])
    ]
    frame = Frame(title, _TIME, "requests a second")
    caption = (
        "Due: what was planned. Right and failed: answered then. Where answers stay behind what "
        "was due, requests are waiting."
    )
    return Drawn(title, plots.draw_lines(frame, shown, steps=True), caption) if shown else None


def _hit_ratio(over_time: Mapping[str, Any]) -> Drawn | None:
    title = "Hit ratio"
    pairs = list(zip(over_time["hits"], over_time["misses"], strict=True))
    pairs = pairs[:-1] or pairs  # the last bin is not a whole one
    seen = [
        (index * over_time["bin_s"], hits, misses) for index, (hits, misses) in enumerate(pairs)
    ]
    seen = [(at, hits, misses) for at, hits, misses in seen if hits + misses]
    ratios = [hits / (hits + misses) for _, hits, misses in seen]
    frame = Frame(title, _TIME, "share of requests", y_format=quantities.format_share)
    series = Series(
        "requests that found their model loaded", [at for at, _, _ in seen], ratios, WARM
    )
    caption = (
        "It rises while models are loaded for the first time, and stays below 1 with evictions."
    )
    if not seen:
        return None
    return Drawn(title, plots.draw_lines(frame, [series], steps=True, highest=1.0), caption)


def _loads(over_time: Mapping[str, Any]) -> Drawn | None:
    title = "Models coming and going"
    wanted = (("loads", COLD, 0, "loaded"), ("evictions", OTHER, 1, "evicted"))
    shown = [
        _draw_rates(label, over_time[name], over_time["bin_s"], colour, dashes)
        for name, colour, dashes, label in wanted
        if any(over_time[name])
    ]
    frame = Frame(title, _TIME, "models a second")
    caption = "Evicted: unloaded, the least recently used first, to make room for another."
    return Drawn(title, plots.draw_lines(frame, shown, steps=True), caption) if shown else None


def _loaded(over_time: Mapping[str, Any], seconds: float) -> Drawn | None:
    title = "Loaded models"
    by_instance = {
        name: ([*steps["at_s"], seconds], [*steps["models"], *steps["models"][-1:]])
        for name, steps in over_time["loaded_models"].items()
        if steps["at_s"]
    }
    shown = _by_instance(by_instance)
    frame = Frame(title, _TIME, "models", whole_y=True)
    caption = "Models that the instance could answer for at once."
    return Drawn(title, plots.draw_lines(frame, shown, steps=True), caption) if shown else None


def _memory(over_time: Mapping[str, Any]) -> Drawn | None:
    title = "Memory"
    shown = _by_instance(
        {name: (seen["at_s"], seen["bytes"]) for name, seen in over_time["memory"].items()}
    )
    unit, word = _unit(max((max(series.y) for series in shown), default=0))
    shown = [replace(series, y=[value / unit for value in series.y]) for series in shown]
    limits = {limit for limit in over_time["memory_limit_bytes"].values() if limit}
    levels = [Level("limit of an instance", limit / unit) for limit in sorted(limits)]
    frame = Frame(title, _TIME, f"memory used, {word}")
    caption = (
        "What the instance's processes hold, looked at each second. The endpoint makes room "
        "before the limit is reached."
    )
    return Drawn(title, plots.draw_lines(frame, shown, levels), caption) if shown else None


def _popularity(models: Sequence[Mapping[str, Any]]) -> Drawn | None:
    title = "Popularity and hits"
    ranks = [model["rank"] for model in models]
    requests = [model["requests"] for model in models]
    total = sum(requests)
    if not total:
        return None
    expected = [model["expected_share"] * total for model in models]
    groups = (
        Series("requests", ranks, requests, COLD),
        Series("hits", ranks, [model["hits"] for model in models], WARM),
    )
    line = Series("expected (Zipf)", ranks, expected, BAD)
    frame = Frame(title, "model, by rank", "requests", _whole, _whole)
    caption = (
        "A pair of dots is a model. Where the dots lie on each other, nearly every request found "
        "it loaded. Models without a request, or without a hit, have no dot."
    )
    return Drawn(title, plots.draw_ranked(frame, groups, line), caption)


def _draw_rates(
    label: str, counts: Sequence[float], width: float, colour: int, dashes: int
) -> Series:
    """Counts in bins as a rate over each bin; the last one, which is not a whole one, is left out.

    A run that is over within the first bin has only that one.
    """
    whole = counts[:-1] or counts
    times = [index * width for index in range(len(whole) + 1)]
    rates = [count / width for count in (*whole, whole[-1])]
    return Series(label, times, rates, colour, dashes=dashes)


def _unit(most: float) -> tuple[int, str]:
    return (2**30, "GiB") if most >= 2**30 else (2**20, "MiB")


def _by_instance(
    seen: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> list[Series]:
    """A line for each of the first instances; more cannot be told apart."""
    names = sorted(seen)[:_MOST_INSTANCES]
    return [
        Series(name, *seen[name], colour, dashes=colour - 1)
        for colour, name in enumerate(names, start=1)
    ]


def _dues(samples: Sequence[SentRequest]) -> list[float]:
    return [sample.due for sample in samples]


def _waits(samples: Sequence[SentRequest]) -> list[float]:
    # A logarithmic axis has no zero; a clock that is read twice in a microsecond may say it.
    return [max(sample.latency, 1e-6) for sample in samples]


def _whole(value: float) -> str:
    return f"{value:g}"
