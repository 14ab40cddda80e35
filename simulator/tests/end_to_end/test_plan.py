"""python -m simulator plan as its users call it; and one real replay beside its plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.tests.plan_accuracy.comparing import compare
from simulator.tests.support.waiting import in_a_calm_moment
from tests.support.container import ROOT

PLAN = """\
[demand]
models = 30
rps = 5
hours = 0.2

[[archives]]
memory = "400MB"
load_s = 0.5
service_s = 0.01

[instances]
types = ["ml.c5.large", "ml.m5.large"]

[goals]
cold_share = 0.05
"""
REPLAY_S = 240.0


def called(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "simulator", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=REPLAY_S,
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_a_plan_is_printed_and_written(tmp_path: Path) -> None:
    """A table, the best candidate, and all of it as JSON; options go above the file."""
    path = tmp_path / "PLAN.toml"
    path.write_text(
        PLAN.replace("hours = 0.2", "hours = 1") + '[autoscaling]\ntarget = 600\nbounds = ["1-4"]\n'
    )
    (tmp_path / "prices.csv").write_text("instance_type,price_an_hour\nml.r5.large,1.5\n")
    words = ("--instance", "ml.r5.large", "--counts", "1-2", "--prices", tmp_path / "prices.csv")
    to = ("--json", tmp_path / "out.json", "--report", tmp_path / "report")
    done = called("plan", path, *words, *to)
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "report/report.json") == read(tmp_path / "out.json")
    assert f"report: {tmp_path / 'report/trade-off.svg'}" in done.stdout
    assert "The cheapest that meets the goals: 1 x ml.r5.large" in done.stdout
    assert "What breaks first:" in done.stdout
    found = read(tmp_path / "out.json")
    ways = [(one["candidate"]["count"], one["candidate"]["most"]) for one in found["answers"]]
    assert ways == [(1, None), (2, None)]
    assert "5 requests a second for 1 hour, " in done.stdout
    assert found["answers"][0]["cost_an_hour"] == pytest.approx(1.5)
    assert found["answers"][0]["moments"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--cold-share", "0"), 1, "No candidate meets the goals"),
        (("--instance", "ml.unknown.large"), 1, "plan: found instance type 'ml.unknown.large'"),
        (("--trace", "none.csv"), 1, "plan: none.csv: found no readable file"),
        (("--cold-share", "2"), 2, "expected a share from 0 to 1"),
        (("--counts", "3-1"), 2, "expected 1,2,4 or 1-4"),
        (("--like", "report.json"), 2, "one of the two"),
    ],
)
def test_what_cannot_be_planned_is_said(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """One sentence, and an exit code."""
    path = tmp_path / "PLAN.toml"
    path.write_text(PLAN)
    done = called("plan", path, *words)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.timeout(2 * REPLAY_S)
def test_a_real_replay_beside_its_plan(tmp_path: Path) -> None:
    """On a machine that others use: twice as far apart as `make plan-table` bears.

    So few requests a second that their loads need half a core: with eight of them two cores are
    full, and what else runs decides who finds its model loaded (a hit ratio of 25 or 61 %).
    """
    words = ("--models", "24", "--zipf", "0.8", "--rps", "3", "--duration", "40")

    def check(number: int) -> None:
        report = tmp_path / f"{number}/report.json"
        done = called("replay", *words, "--memory", "400MB", "--report", report.parent)
        assert done.returncode == 0, done.stderr
        done = called("plan", "--like", report, "--json", tmp_path / "plan.json")
        assert done.returncode == 0, done.stderr
        real, planned = read(report), read(tmp_path / "plan.json")
        hits, evictions, p50, *_ = compare(real, planned)
        assert real["loading"]["evictions"] > 0
        assert abs(hits.real - hits.planned) <= 6.0
        assert abs(evictions.real - evictions.planned) <= 3
        assert abs(p50.real - p50.planned) <= 0.5 * p50.real

    in_a_calm_moment(check)
