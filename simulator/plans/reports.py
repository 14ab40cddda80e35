"""A replay's report.json as a plan needs it: what was asked of what, and what was seen of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from simulator.plans.errors import UnusableFile

#: What summary.py writes.
_FORMAT = 1
_TOO_OLD = (
    "found no calibration, expected a report with one; make it anew by `python -m simulator replay`"
)


@dataclass(frozen=True)
class Report:
    """As it was read. settings and calibration as summary.py has them."""

    path: Path
    whole: Mapping[str, Any]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the replay."""
        return self._mapping("settings")

    @property
    def calibration(self) -> Mapping[str, Any]:
        """What was seen of archives and instances."""
        return self._mapping("calibration")

    @property
    def cores(self) -> int:
        """Of the machine that it ran on."""
        return int(self._mapping("machine").get("cores") or 1)

    @property
    def source(self) -> str:
        """What it is, when it was made, and on what: for those who read figures of it."""
        cpu = self._mapping("machine").get("cpu") or "a CPU that is not named"
        started = self.whole.get("started")
        began = datetime.fromtimestamp(started, timezone.utc) if started else None
        when = f" of {began:%Y-%m-%d}" if began else ""
        return f"a replay{when}, {self.path.name}, on {self.cores} cores of {cpu}"

    def _mapping(self, key: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.whole[key]
        return found


def read_report(path: Path) -> Report:
    """Raises UnusableFile for what is no report, or one that lacks what a plan needs."""
    try:
        whole = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnusableFile(
            path, f"found no readable file ({error.strerror}), expected a replay's report.json"
        ) from error
    except json.JSONDecodeError as error:
        raise UnusableFile(
            path,
            f"found no JSON ({error.msg}), expected a replay's report.json",
            error.lineno,
            error.colno,
        ) from error
    except UnicodeDecodeError as error:
        raise UnusableFile(path, "found no text, expected a replay's report.json") from error
    if not isinstance(whole, dict) or whole.get("format") != _FORMAT or "settings" not in whole:
        raise UnusableFile(path, "found no report of a replay, expected its report.json")
    if "calibration" not in whole:
        raise UnusableFile(path, _TOO_OLD)
    return Report(path, whole)
