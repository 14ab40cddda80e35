"""Reads a replay's report.json: its requests, its endpoint, and the figures of archives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from merlin_simulator.measuring.values import Keys, find_mistakes, validate, without_nothing
from merlin_simulator.plan_command.files import UnusableFile, read_json
from merlin_simulator.replay.report import FORMAT, Report, SeenArchive
from merlin_simulator.simulation.scenario import ArchiveFigures

_TOO_OLD = (
    "found no calibration, expected a report with one; make it anew by `python -m simulator replay`"
)


@dataclass(frozen=True)
class StoredReport:
    """A replay's report, read from its file."""

    path: Path
    whole: Mapping[str, Any]  # as it stands in the file
    report: Report

    @property
    def base_memory(self) -> int:
        """Bytes that a container used beside its models."""
        return self.report.calibration.base_memory_bytes or 0

    @property
    def source(self) -> str:
        """File, time and host of the replay, to show where figures are from."""
        machine, started = self.report.machine, self.report.started
        cpu = machine.cpu or "a CPU that is not named"
        when = f" of {datetime.fromtimestamp(started, timezone.utc):%Y-%m-%d}" if started else ""
        return f"a replay{when}, {self.path.name}, on {machine.cores} cores of {cpu}"


def read_report(path: Path) -> StoredReport:
    """Raises UnusableFile."""
    return parse_report(path, read_json(path, "expected a replay's report.json"))


def parse_report(path: Path, whole: Any) -> StoredReport:
    """Raises UnusableFile for what is no report, or one that lacks what a plan needs."""
    if not isinstance(whole, dict) or whole.get("format") != FORMAT or "settings" not in whole:
        raise UnusableFile(path, "found no report of a replay, expected its report.json")
    if "calibration" not in whole:
        raise UnusableFile(path, _TOO_OLD)
    parts = {
        name: whole[name] for name in (field.name for field in fields(Report)) if name in whole
    }
    try:
        return StoredReport(path, whole, validate(Report, without_nothing(parts)))
    except RecursionError as error:
        raise UnusableFile(path, "found values inside of values, too deep to be read") from error
    except ValidationError as error:
        keys, subject = next(find_mistakes(error))
        way = _write_way(keys)
        raise UnusableFile(path, f"{way}: {subject}" if way else subject) from error


def _write_way(keys: Keys) -> str:
    """As calibration.kinds[0].load_work_s."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return "".join(parts).lstrip(".")


def make_figures(stored: StoredReport) -> list[ArchiveFigures]:
    """One of each kind of archive, in the order in which copies take turns. Raises UnusableFile.

    A kind that was never loaded in the replay is as the others are.
    """
    calibration = stored.report.calibration
    loaded = [seen for seen in calibration.kinds if seen.load_work_s]
    if not loaded:
        raise UnusableFile(
            stored.path,
            "found no load in it, expected a replay with some; send it more requests (--rps)",
        )
    share = calibration.loading_memory_share
    return [
        _figures(f"kind-{number}", seen if seen.load_work_s else loaded[0], share)
        for number, seen in enumerate(calibration.kinds)
    ]


def name_copies(figures: Sequence[ArchiveFigures], names: Sequence[str]) -> list[ArchiveFigures]:
    """Archives under names of their own, which take turns with the kinds."""
    return [replace(figures[rank % len(figures)], name=name) for rank, name in enumerate(names)]


def _figures(name: str, seen: SeenArchive, loading_share: float | None) -> ArchiveFigures:
    nothing = (0.0,)
    return ArchiveFigures(
        name,
        memory=seen.memory_bytes or 0,
        disk=seen.disk_bytes or 0,
        download_s=seen.fetch_s or nothing,
        load_s=seen.load_work_s or nothing,
        unload_s=seen.unload_s or nothing,
        service_s=seen.warm_s or seen.first_answer_s or nothing,
        first_answer_s=seen.first_answer_s,
        loading_share=0.5 if loading_share is None else loading_share,
    )
