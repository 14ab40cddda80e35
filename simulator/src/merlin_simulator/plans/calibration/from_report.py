"""Figures of archives as a replay has seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from merlin_simulator.planning.archives import Figures, Quantiles
from merlin_simulator.plans.bounds import MOST_BYTES, MOST_SECONDS
from merlin_simulator.plans.errors import UnusableFile
from merlin_simulator.plans.json_files import Members
from merlin_simulator.plans.reports import Report

#: Where nothing was seen of it: it took no time, or no room.
_NOTHING: Quantiles = (0.0,)


def make_figures(report: Report) -> list[Figures]:
    """One of each kind of archive, in the order in which copies take turns. Raises UnusableFile.

    A kind that was never loaded in the replay is as the others are.
    """
    kinds = report.kinds
    loaded = [kind for kind in kinds if _quantiles(kind, "load_work_s")]
    if not loaded:
        raise UnusableFile(
            report.path,
            "found no load in it, expected a replay with some; send it more requests (--rps)",
        )
    share = report.calibration.number("loading_memory_share", 0.5, most=1.0)
    return [
        replace(
            _figures(f"kind-{number}", kind if _quantiles(kind, "load_work_s") else loaded[0]),
            loading_share=share,
        )
        for number, kind in enumerate(kinds)
    ]


def name_copies(figures: Sequence[Figures], names: Sequence[str]) -> list[Figures]:
    """Archives under names of their own, which take turns with the kinds."""
    return [replace(figures[rank % len(figures)], name=name) for rank, name in enumerate(names)]


def _figures(name: str, kind: Members) -> Figures:
    warm = _quantiles(kind, "warm_s") or _quantiles(kind, "first_answer_s") or _NOTHING
    return Figures(
        name,
        kind.whole("memory_bytes", 0, most=MOST_BYTES),
        kind.whole("disk_bytes", 0, most=MOST_BYTES),
        _quantiles(kind, "fetch_s") or _NOTHING,
        _quantiles(kind, "load_work_s") or _NOTHING,
        _quantiles(kind, "unload_s") or _NOTHING,
        warm,
        _quantiles(kind, "first_answer_s"),
    )


def _quantiles(kind: Members, key: str) -> Quantiles | None:
    found = kind.numbers(key, most=MOST_SECONDS)
    return tuple(sorted(found)) if found else None
