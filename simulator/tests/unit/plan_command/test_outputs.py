"""What a plan writes: its tree as JSON, its picture; each file whole or as it was before."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from merlin_simulator.plan_command.answers import Plan
from merlin_simulator.plan_command.candidates import evaluate_all
from merlin_simulator.plan_command.files import UnusableFile
from merlin_simulator.plan_command.picture import draw_trade_off
from merlin_simulator.plan_command.run import print_plan, write_report
from merlin_simulator.plan_command.settings import (
    AutoscalingTable,
    DemandTable,
    Goals,
    PlanSettings,
)
from merlin_simulator.plan_command.traffic import make_traffic
from simulator.tests.unit.plan_command.test_plan import LARGE, SETTINGS

pytestmark = pytest.mark.slow

SHORT = replace(
    SETTINGS,
    demand=DemandTable(models=3, rps=5.0, hours=0.01),
    types=[LARGE],
    counts=(1,),
    prices=None,
)


def test_what_was_there_stays_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Half an answer in its place would be worse than none."""
    path = tmp_path / "plan.json"
    path.write_text("the last one")
    (tmp_path / ".plan.json.new").mkdir()
    with pytest.raises(UnusableFile, match="cannot be written"):
        print_plan(SHORT, path)
    assert path.read_text() == "the last one"


def test_a_link_and_its_files_rights_stay(tmp_path: Path) -> None:
    """What it names has the answer, and nothing else is left in the folder."""
    real, link = tmp_path / "real.json", tmp_path / "plan.json"
    real.write_text("the last one")
    real.chmod(0o600)
    link.symlink_to(real)
    print_plan(SHORT, link)
    assert link.is_symlink()
    assert json.loads(real.read_text())["models"] == 3
    assert real.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [link, real]


def test_no_place_is_said_before_the_plan_is_made(tmp_path: Path) -> None:
    """It may take hours."""
    slow = replace(SHORT, demand=DemandTable(trace=tmp_path / "never-read.csv"))
    with pytest.raises(UnusableFile, match="there is no such folder"):
        print_plan(slow, tmp_path / "none" / "plan.json")
    with pytest.raises(UnusableFile, match="it is a folder"):
        print_plan(slow, tmp_path)


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
    print_plan(SHORT, None)
    assert "1 x ml.large" in capsys.readouterr().out


def planned(settings: PlanSettings) -> Plan:
    return evaluate_all(settings, make_traffic(settings), lambda what, share: None)


@pytest.fixture(scope="module")
def found() -> Plan:
    return planned(SETTINGS)


def _words(plan: Plan) -> list[str]:
    root = ElementTree.fromstring(draw_trade_off(plan))
    return ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("text")]


def test_each_candidate_is_a_point_with_its_name(found: Plan) -> None:
    """Types are colours, counts stand beside the points, goals are lines; words for the blind."""
    words = _words(found)
    assert (words.count("small"), words.count("large")) == (1, 1)
    assert "goal: 1.5 s" in words
    title = "Cost of the whole time against p99 of all requests"
    assert ElementTree.fromstring(draw_trade_off(found)).get("aria-label") == title


def test_without_prices_instances_stand_in_the_place_of_cost() -> None:
    """Also where nobody meets the goals."""
    scaling = AutoscalingTable(target=100.0, bounds=[(1, 2)])
    goals = Goals(cold_share=0.0)
    plan = planned(replace(SETTINGS, goals=goals, prices=None, types=[LARGE], autoscaling=scaling))
    assert plan.best is None
    assert "instances on average" in _words(plan)


def test_what_is_written(found: Plan, tmp_path: Path) -> None:
    """The whole tree, and a picture that opens by itself."""
    write_report(tmp_path, found)
    tree = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert tree["answers"][0]["latency"]["quantiles"][50] == tree["answers"][0]["latency"]["p50"]
    assert tree["settings"]["demand"]["models"] == 60
    picture = ElementTree.parse(tmp_path / "trade-off.svg").getroot()
    assert float(picture.get("width") or 0) > 400
    assert "--s1" in (tmp_path / "trade-off.svg").read_text("utf-8")


def test_a_folder_that_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    """Before the plan is made."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableFile, match="no files can be written there"):
        print_plan(SETTINGS, None, tmp_path / "file")
