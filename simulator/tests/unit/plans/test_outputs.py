"""Where answers go: a file whole or as it was before, and a terminal that is closed or full."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from merlin_simulator.plans.files import UnusableFile
from merlin_simulator.plans.run import plan
from merlin_simulator.plans.settings import Demand
from simulator.tests.unit.plans.test_plan import LARGE, SETTINGS

SHORT = replace(
    SETTINGS, demand=Demand(models=3, rps=5.0, hours=0.01), types=[LARGE], counts=(1,), prices=None
)


def test_what_was_there_stays_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Half an answer in its place would be worse than none."""
    path = tmp_path / "plan.json"
    path.write_text("the last one")
    (tmp_path / ".plan.json.new").mkdir()
    with pytest.raises(UnusableFile, match="cannot be written"):
        plan(SHORT, path)
    assert path.read_text() == "the last one"


def test_a_link_and_its_files_rights_stay(tmp_path: Path) -> None:
    """What it names has the answer, and nothing else is left in the folder."""
    real, link = tmp_path / "real.json", tmp_path / "plan.json"
    real.write_text("the last one")
    real.chmod(0o600)
    link.symlink_to(real)
    plan(SHORT, link)
    assert link.is_symlink()
    assert json.loads(real.read_text())["models"] == 3
    assert real.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [link, real]


def test_no_place_is_said_before_the_plan_is_made(tmp_path: Path) -> None:
    """It may take hours."""
    slow = replace(SHORT, demand=Demand(trace=tmp_path / "never-read.csv"))
    with pytest.raises(UnusableFile, match="there is no such folder"):
        plan(slow, tmp_path / "none" / "plan.json")
    with pytest.raises(UnusableFile, match="it is a folder"):
        plan(slow, tmp_path)


class Full(io.StringIO):
    """As /dev/full."""

    def write(self, text: str) -> int:
        """There is no room for it."""
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stderr", [None, Full()])
def test_who_sees_no_progress_gets_the_plan(
    stderr: io.StringIO | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closed stderr, and one on a full disk."""
    monkeypatch.setattr(sys, "stderr", stderr)
    plan(SHORT, None)
    assert "1 x ml.large" in capsys.readouterr().out
