"""A replay's report.json: its requests, its endpoint, and the figures of archives in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from merlin_simulator.planning.demand import Figures, Quantiles
from merlin_simulator.plans.files import (
    MOST_BYTES,
    MOST_CORES,
    MOST_SECONDS,
    Members,
    UnusableFile,
    read_json,
)

#: What summary.py writes.
_FORMAT = 1
#: The end of the year 9999, in seconds since 1970: later dates have no name.
_LATEST_S = 253_402_300_799.0
_TOO_OLD = (
    "found no calibration, expected a report with one; make it anew by `python -m simulator replay`"
)


@dataclass(frozen=True)
class Report:
    """As it was read. Its parts raise UnusableFile for what no replay writes."""

    path: Path
    whole: Mapping[str, Any]

    @property
    def settings(self) -> Members:
        """Of the replay."""
        return Members(self.path, self.whole).inner("settings")

    @property
    def calibration(self) -> Members:
        """What was seen of archives and instances."""
        return Members(self.path, self.whole).inner("calibration")

    @property
    def kinds(self) -> list[Members]:
        """Of the calibration: what was seen of each kind of archive."""
        return self.calibration.objects("kinds")

    @property
    def base_memory(self) -> int:
        """Bytes that a container used beside its models."""
        return self.calibration.whole("base_memory_bytes", 0, most=MOST_BYTES)

    @property
    def cores(self) -> int:
        """Of the machine that it ran on."""
        machine = Members(self.path, self.whole).inner("machine")
        return machine.whole("cores", 1, least=1, most=MOST_CORES)

    @property
    def source(self) -> str:
        """What it is, when it was made, and on what: for those who read figures of it."""
        machine = Members(self.path, self.whole).inner("machine")
        cpu = machine.text("cpu", None) or "a CPU that is not named"
        started = Members(self.path, self.whole).number("started", 0.0, most=_LATEST_S)
        when = f" of {datetime.fromtimestamp(started, timezone.utc):%Y-%m-%d}" if started else ""
        return f"a replay{when}, {self.path.name}, on {self.cores} cores of {cpu}"


def read_report(path: Path) -> Report:
    """Raises UnusableFile for what is no report, or one that lacks what a plan needs."""
    whole = read_json(path, "expected a replay's report.json")
    if not isinstance(whole, dict) or whole.get("format") != _FORMAT or "settings" not in whole:
        raise UnusableFile(path, "found no report of a replay, expected its report.json")
    if "calibration" not in whole:
        raise UnusableFile(path, _TOO_OLD)
    return Report(path, whole)


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
