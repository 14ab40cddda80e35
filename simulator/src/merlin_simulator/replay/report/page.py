"""report.html: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path
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
from merlin_simulator.replay.report.figures import PART_WORDS

#: Beside the rules of all pages; a plan's report has them, too.
STYLE = Path(__file__).with_name("report.css")

#: A caller that sends so much too late measures its own machine too.
LATE_S = 0.1

#: Parts of less than this share of all are not named in a line.
_TOLD = 0.01


def write_report_page(summary: Mapping[str, Any], drawn: Sequence[Drawn]) -> str:
    """The whole page."""
    settings = summary["settings"]
    title = f"Replay: {settings['models']} models, {settings['rps']:g} requests a second"
    plots = "".join(write_figure(plot.svg, plot.title, plot.caption) for plot in drawn)
    parts = (
        _heading(title, summary),
        _tiles(summary),
        _failures(summary),
        f'<h2>Over the run</h2><div class="plots">{plots}</div>',
        _latencies(summary),
        _cold_parts(summary),
        '<div class="columns">' + _setting(summary) + _where(summary) + "</div>",
        _models(summary["models"]),
        _method(summary),
    )
    return write_page(title, "".join(parts), STYLE)


def _heading(title: str, summary: Mapping[str, Any]) -> str:
    requests = summary["requests"]
    began = datetime.fromtimestamp(summary["started"], timezone.utc)
    verdict, colour = _verdict(summary)
    return (
        f"<h1>{escape(title)}</h1>"
        f'<p class="faint">{began:%Y-%m-%d %H:%M:%S} UTC, {summary["seconds"]:.0f} s, '
        f"{requests['sent']:,} of {requests['planned']:,} planned requests sent</p>"
        f'<p class="verdict {colour}">{escape(verdict)}</p>' + _caution(summary)
    )


def _caution(summary: Mapping[str, Any]) -> str:
    """A word where the caller was too busy to measure anything but itself."""
    late = summary["measuring"]["send_delay_s"]["p99"]
    if late is None or late < LATE_S:
        return ""
    return (
        f'<p class="bad">The caller itself was late: 1 % of the requests left {_duration(late)} or '
        "more after they were due. The machine had more to do than it could, and the latencies "
        "below tell of that as well.</p>"
    )


def _verdict(summary: Mapping[str, Any]) -> tuple[str, str]:
    requests = summary["requests"]
    if summary["good"]:
        return "Every request was answered, and each answer was the asked model's.", "good"
    counted = ("failed", "wrong", "not_sent", "unfinished")
    wrongs = [f"{requests[n]:,} {n.replace('_', ' ')}" for n in counted if requests[n]]
    if summary["interrupted"]:
        wrongs.insert(0, f"ended early: {summary['interrupted']}")
    return "; ".join(wrongs) or "nothing was sent", "bad"


def _tiles(summary: Mapping[str, Any]) -> str:
    latency, loading = summary["latency_s"], summary["loading"]
    ratio = summary["hit_ratio"]
    rows = (
        ("hit ratio", "–" if ratio is None else format_share(ratio)),
        ("warm p50", _duration(latency["warm"]["p50"])),
        ("warm p99", _duration(latency["warm"]["p99"])),
        ("cold p50", _duration(latency["cold"]["p50"])),
        ("cold p99", _duration(latency["cold"]["p99"])),
        ("evictions", f"{loading['evictions']:,}"),
        ("peak loaded", f"{loading['most_loaded']:,}"),
        ("failures", f"{sum(kind['count'] for kind in summary['failures']):,}"),
    )
    return write_tiles(rows)


def _failures(summary: Mapping[str, Any]) -> str:
    parts = []
    if summary["failures"]:
        parts.append("<h2>What callers were told instead of an answer</h2>")
        parts.append(_kinds(summary["failures"], "error"))
    if summary["troubles"]:
        parts.append("<h2>What went wrong behind the endpoint</h2>")
        parts.append(_kinds(summary["troubles"], "event"))
    return "".join(parts)


def _kinds(kinds: Iterable[Mapping[str, Any]], name: str) -> str:
    rows = (
        (
            write_row_head(kind["name"]),
            write_cell("td", f"{kind['count']:,}", NUMBER),
            f"<td><pre>{escape(kind['example'])}</pre></td>",
        )
        for kind in kinds
    )
    head = (
        write_cell("th", name),
        write_cell("th", "times", NUMBER),
        write_cell("th", "the first one"),
    )
    return write_table(head, rows)


def _latencies(summary: Mapping[str, Any]) -> str:
    latency, loading = summary["latency_s"], summary["loading"]
    rows = [(f"{name} requests", latency[name]) for name in ("all", "warm", "cold")]
    rows += [
        (name, loading[key])
        for name, key in (
            ("download", "downloads_s"),
            ("extraction", "extractions_s"),
            ("load by the container", "loads_s"),
            ("unload", "unloads_s"),
        )
        if loading[key]["count"]
    ]
    body = [(name, f"{found['count']:,}", *_spread(found)) for name, found in rows]
    return "<h2>Latencies</h2>" + write_numbers(("", "count", "p50", "p90", "p99", "max"), body)


def format_shares(parts: Mapping[str, Any]) -> str:
    """What cold requests waited for, the longest first, in words; empty where there were none."""
    known = [
        (found["share"], part) for part, found in parts.items() if (found["share"] or 0) >= _TOLD
    ]
    return ", ".join(
        f"{PART_WORDS[part]} {format_share(share)}" for share, part in sorted(known, reverse=True)
    )


def _cold_parts(summary: Mapping[str, Any]) -> str:
    """Nothing where no cold request was answered."""
    parts = summary["cold_parts_s"]
    body = [
        (PART_WORDS[part], *_spread(found), format_share(found["share"]))
        for part, found in parts.items()
        if found["share"] is not None
    ]
    if not body:
        return ""
    words = (
        "What the endpoint told of each cold request, from its arrival there to its answer. Room: "
        "until other models had left the memory or the disk. A turn: while others were fetched, "
        "loaded or given room before it. The share is of all cold requests' seconds together."
    )
    head = ("", "p50", "p90", "p99", "max", "share")
    return f"<h2>What cold requests waited for</h2><p>{words}</p>" + write_numbers(head, body)


def _spread(found: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_duration(found[name]) for name in ("p50", "p90", "p99", "max"))


def _setting(summary: Mapping[str, Any]) -> str:
    settings, loading = summary["settings"], summary["loading"]
    archive, memory = loading["archive_bytes"]["p50"], loading["model_memory_bytes"]["p50"]
    rows = (
        ("model", settings["model"]),
        ("models", f"{settings['models']:,}"),
        ("archive", "–" if archive is None else format_size(archive)),
        ("memory of one loaded", "not known" if memory is None else format_size(memory)),
        ("popularity", f"Zipf, exponent {settings['zipf']:g}"),
        ("arrivals", f"Poisson, {settings['rps']:g} a second for {settings['duration_s']:g} s"),
        ("seed", str(settings["seed"])),
        ("requests in flight, at most", f"{settings['outstanding']:,}"),
        ("instances", str(settings["instances"] or "the endpoint's")),
        ("memory of an instance", settings["memory"] or "no limit given"),
        ("disk of an instance", settings["disk"] or "no limit given"),
        ("endpoint", f"{settings['endpoint_name']}, {settings['endpoint']}"),
    )
    return "<section><h2>Settings</h2>" + write_facts(rows) + "</section>"


def _where(summary: Mapping[str, Any]) -> str:
    machine, versions = summary["machine"], summary["versions"]
    rows = (
        ("CPU", str(machine["cpu"])),
        ("cores", str(machine["cores"])),
        ("memory", format_size(machine["memory_bytes"])),
        ("system", str(machine["system"])),
        ("Python", str(versions["python"])),
        ("simulator's commit", str(versions["simulator_commit"] or "not known")),
        ("tritonserver", str(versions["tritonserver"] or "not known")),
    )
    return "<section><h2>Machine and versions</h2>" + write_facts(rows) + "</section>"


def _models(models: Sequence[Mapping[str, Any]]) -> str:
    total = sum(model["requests"] for model in models) or 1
    body = [
        (
            model["target_model"],
            f"{model['requests']:,}",
            f"{model['expected_share'] * total:,.1f}",
            format_share(model["hits"] / model["requests"]) if model["requests"] else "–",
            f"{model['failures']:,}",
        )
        for model in models
    ]
    head = ("model", "requests", "expected", "hits", "failures")
    table = write_numbers(head, body)
    return f"<details><summary>Each model ({len(models):,})</summary>{table}</details>"


def _method(summary: Mapping[str, Any]) -> str:
    quality = summary["measuring"]
    delay = quality["send_delay_s"]
    sentences = [
        "The load is open: requests are due at times that do not depend on earlier answers, and "
        "latencies count from when a request was due, so an endpoint that stalls is not flattered.",
        f"Requests left {_duration(delay['p50'])} (p50), {_duration(delay['p99'])} (p99) after "
        "they were due; that is part of their latency.",
        "Requests were sent as boto3 sends them, though not by boto3, which takes milliseconds of "
        "CPU for each; and none was repeated. Caller, endpoint and containers share the machine "
        "named above, unless the endpoint was given by its URL.",
        "Whether a request was cold, and what was loaded and evicted when, is what the endpoint's "
        f"event stream told ({quality['events']:,} events, {quality['events_missed']:,} missed, "
        f"{quality['requests_without_event']:,} answered requests without one).",
        f"{summary['requests']['not_sent']:,} requests were not sent, since "
        f"{summary['settings']['outstanding']:,} were waiting already.",
    ]
    paragraphs = (f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return "<h2>How it was measured</h2>" + "".join(paragraphs)


def _duration(value: float | None) -> str:
    return "–" if value is None else format_seconds(value)
