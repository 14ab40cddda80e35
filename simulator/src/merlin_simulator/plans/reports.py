"""A replay's report.json as a plan needs it: what was asked of what, and what was seen of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from merlin_simulator.plans.bounds import MOST_BYTES, MOST_CORES
from merlin_simulator.plans.errors import UnusableFile
from merlin_simulator.plans.json_files import Members, read_json

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
