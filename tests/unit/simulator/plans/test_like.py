"""A replay once more, beside what it measured: reports of real ones, which stand beside this file.

They are those of one `make plan-table`, all eight, and of three settings once more, on two cores
that others used, too (load 17 to 37); without over_time.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.plans.errors import UnusableFile
from simulator.plans.like import run_like
from simulator.plans.reports import read_report
from tests.planning.comparing import compare

#: How far plans are apart that are farther than they should be. Of two instances either may be the
#: one that evicts: a second replay of the same requests had 66.5 % for 71.7, and 23 for 33.
APART = {
    "two-instances": {"evictions": 10.0},
    "little-disk": {"evictions": 6.0},
}
REPLAYS = sorted(Path(__file__).with_name("replays").glob("*.json"))
NAMED = {path.stem: path for path in REPLAYS}


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_a_plan_is_near_its_replay(path: Path) -> None:
    """Hit ratio within 2 points, evictions within a tenth, cold p50 within a quarter."""
    report = read_report(path)
    planned = run_like(report, lambda share: None)
    known = APART.get(path.stem, {})
    for one in compare(report.whole, planned):
        far = abs(one.real - one.planned)
        assert one.near is not False or far <= known.get(one.name, 0.0), one
    # The same keys, so that both can be laid side by side.
    assert planned["requests"].keys() == report.whole["requests"].keys()
    for kind in ("cold", "warm"):
        assert planned["latency_s"][kind].keys() == report.whole["latency_s"][kind].keys()
    assert planned["cold_parts_s"].keys() == report.whole["cold_parts_s"].keys()
    assert planned["hits"] + planned["misses"] == planned["requests"]["planned"]


def test_equal_reports_are_equal_plans() -> None:
    """All that is drawn has the replay's seed."""
    report = read_report(NAMED["one-gigabyte"])
    assert run_like(report, lambda share: None) == run_like(report, lambda share: None)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("{", ":1:2", "found no JSON"),
        ("{}", "", "found no report of a replay"),
        ('{"format": 1, "settings": {}}', "", "found no calibration"),
        ("[]", "", "found no report of a replay"),
    ],
)
def test_what_is_no_report(tmp_path: Path, text: str, place: str, said: str) -> None:
    """One sentence, with the place where JSON says it."""
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(UnusableFile) as refused:
        read_report(path)
    assert str(refused.value).startswith(f"{path}{place}: ")
    assert said in str(refused.value)


def test_replays_that_tell_too_little(tmp_path: Path) -> None:
    """Of an endpoint that ran already, and without a load."""
    whole = json.loads(NAMED["one-gigabyte"].read_text("utf-8"))
    elsewhere = {**whole, "settings": {**whole["settings"], "instances": None}}
    kind = {**whole["calibration"]["kinds"][0], "load_work_s": None}
    unloaded = {**whole, "calibration": {**whole["calibration"], "kinds": [kind]}}
    for report, said in ((elsewhere, "endpoint that ran already"), (unloaded, "found no load")):
        path = tmp_path / "report.json"
        path.write_text(json.dumps(report))
        with pytest.raises(UnusableFile, match=said):
            run_like(read_report(path), lambda share: None)
