"""Figures of archives as a replay has seen them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator.planning.archives import Figures, Quantiles
from simulator.plans.errors import UnusableFile
from simulator.plans.reports import Report

#: Where nothing was seen of it: it took no time, or no room.
_NOTHING: Quantiles = (0.0,)


def make_figures(report: Report) -> list[Figures]:
    """One of each kind of archive, in the order in which copies take turns. Raises UnusableFile.

    A kind that was never loaded in the replay is as the others are.
    """
    kinds = [kind for kind in report.calibration["kinds"] if kind.get("load_work_s")]
    if not kinds:
        raise UnusableFile(
            report.path,
            "found no load in it, expected a replay with some; send it more requests (--rps)",
        )
    share = report.calibration.get("loading_memory_share")
    return [
        replace(
            _figures(f"kind-{number}", kind if kind.get("load_work_s") else kinds[0]),
            loading_share=0.5 if share is None else share,
        )
        for number, kind in enumerate(report.calibration["kinds"])
    ]


def name_copies(figures: Sequence[Figures], names: Sequence[str]) -> list[Figures]:
    """Archives under names of their own, which take turns with the kinds."""
    return [replace(figures[rank % len(figures)], name=name) for rank, name in enumerate(names)]


def _figures(name: str, kind: Mapping[str, Any]) -> Figures:
    warm = _quantiles(kind, "warm_s") or _quantiles(kind, "first_answer_s") or _NOTHING
    return Figures(
        name,
        int(kind["memory_bytes"] or 0),
        int(kind["disk_bytes"] or 0),
        _quantiles(kind, "fetch_s") or _NOTHING,
        _quantiles(kind, "load_work_s") or _NOTHING,
        _quantiles(kind, "unload_s") or _NOTHING,
        warm,
        _quantiles(kind, "first_answer_s"),
    )


def _quantiles(kind: Mapping[str, Any], key: str) -> Quantiles | None:
    found = kind.get(key)
    return tuple(found) if found else None
