"""report.html: one file that opens from a disk, without a script and without another file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from merlin_simulator.measuring.page import describe_count, describe_seconds, render
from merlin_simulator.measuring.plots import Drawn
from merlin_simulator.measuring.quantities import format_share
from merlin_simulator.replay.figures import PART_WORDS

#: A caller that sends so much too late measures its own machine too.
LATE_S = 0.1

#: Parts of less than this share of all are not named in a line.
_TOLD = 0.01


def write_report_page(summary: Mapping[str, Any], drawn: Sequence[Drawn]) -> str:
    """The report as an HTML page."""
    late = summary["measuring"]["send_delay_s"]["p99"]
    return render(
        "replay/report.html",
        **summary,
        figures=drawn,
        began=f"{datetime.fromtimestamp(summary['started'], timezone.utc):%Y-%m-%d %H:%M:%S}",
        verdict=_verdict(summary),
        is_late=late is not None and late >= LATE_S,
        latencies=_latencies(summary),
        cold_parts=_cold_parts(summary),
        each_model=_models(summary["models"]),
    )


def _verdict(summary: Mapping[str, Any]) -> str:
    requests = summary["requests"]
    if summary["good"]:
        return "Every request was answered, and each answer was the asked model's."
    counted = ("failed", "wrong", "not_sent", "unfinished")
    wrongs = [f"{requests[n]:,} {n.replace('_', ' ')}" for n in counted if requests[n]]
    if summary["interrupted"]:
        wrongs.insert(0, f"ended early: {summary['interrupted']}")
    return "; ".join(wrongs) or "nothing was sent"


def _latencies(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
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
    return [(name, describe_count(spread["count"]), *_spread(spread)) for name, spread in rows]


def format_shares(parts: Mapping[str, Any]) -> str:
    """Shares of the waits of cold requests, the longest first, in words; empty where there were
    none.
    """
    known = [
        (spread["share"], part) for part, spread in parts.items() if (spread["share"] or 0) >= _TOLD
    ]
    return ", ".join(
        f"{PART_WORDS[part]} {format_share(share)}" for share, part in sorted(known, reverse=True)
    )


def _cold_parts(summary: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Nothing where no cold request was answered."""
    return [
        (PART_WORDS[part], *_spread(spread), format_share(spread["share"]))
        for part, spread in summary["cold_parts_s"].items()
        if spread["share"] is not None
    ]


def _spread(outputs: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(describe_seconds(outputs[name]) for name in ("p50", "p90", "p99", "max"))


def _models(models: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    total = sum(model["requests"] for model in models) or 1
    return [
        (
            model["target_model"],
            f"{model['requests']:,}",
            f"{model['expected_share'] * total:,.1f}",
            format_share(model["hits"] / model["requests"]) if model["requests"] else "–",
            f"{model['failures']:,}",
        )
        for model in models
    ]
