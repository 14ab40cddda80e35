"""python -m simulator replay, for real: archives, endpoint, containers, traffic, report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.tests.support.environment import find_marked
from tests.support.container import ROOT, until

#: A replay of a few seconds, with starts and ends, on a machine that others use too.
REPLAY_S = 240.0
#: In the environment of everything that a replay starts, so that nothing of it can hide.
MARK = "REPLAY_TEST"

pytestmark = pytest.mark.timeout(2 * REPLAY_S)


def begin(tmp_path: Path, *words: str) -> subprocess.Popen[bytes]:
    """The command with its report below tmp_path, and its temporary files too."""
    (tmp_path / "tmp").mkdir()
    with (tmp_path / "said").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "simulator", "replay", "--report", tmp_path / "report", *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), MARK: str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )


def said(tmp_path: Path) -> str:
    return (tmp_path / "said").read_text("utf-8")


def finish(process: subprocess.Popen[bytes], tmp_path: Path) -> dict[str, Any]:
    """Wait for the end: no process and no file is left. Returns report.json."""
    process.wait(REPLAY_S)
    assert not find_marked(f"{MARK}={tmp_path}"), said(tmp_path)
    assert not list((tmp_path / "tmp").iterdir())
    report: dict[str, Any] = json.loads((tmp_path / "report/report.json").read_text("utf-8"))
    return report


def test_named_copies_answer_with_their_own_names(tmp_path: Path) -> None:
    """Every model is asked, and every answer has its archive's name and its request's ids."""
    process = begin(tmp_path, "--models", "6", "--zipf", "0.5", "--rps", "8", "--duration", "6")
    report = finish(process, tmp_path)
    assert process.returncode == 0, said(tmp_path)
    assert report["good"]
    assert report["requests"]["right"] == report["requests"]["planned"] > 20
    assert report["hits"] > 0
    assert report["loading"]["loads_s"]["count"] == report["loading"]["most_loaded"] == 6
    assert report["measuring"]["events_missed"] == 0
    assert report["measuring"]["requests_without_event"] == 0
    assert report["over_time"]["memory"]
    assert report["versions"]["tritonserver"]
    assert "Every request was answered" in (tmp_path / "report/report.html").read_text("utf-8")


def test_a_merlin_export_is_compared_with_merlins_answer(tmp_path: Path) -> None:
    """--model takes an export folder, its request and its expected answer."""
    words = ("--models", "2", "--rps", "1", "--duration", "8")
    process = begin(tmp_path, "--model", str(ROOT / "examples/merlin/dense"), *words)
    report = finish(process, tmp_path)
    assert process.returncode == 0, said(tmp_path)
    assert report["requests"]["right"] > 3


def test_an_interrupted_replay_stops_its_containers(tmp_path: Path) -> None:
    """Ctrl-C with models loaded: the report of what was measured, and no container left."""
    process = begin(tmp_path, "--models", "3", "--rps", "5", "--duration", "3600")
    log = tmp_path / "report/logs/endpoint.log"
    until(
        lambda: (
            (log.exists() and " loaded " in log.read_text("utf-8")) or process.poll() is not None
        ),
        "a model is loaded",
        timeout_s=REPLAY_S,
    )
    process.send_signal(signal.SIGINT)
    report = finish(process, tmp_path)
    assert process.returncode == 130, said(tmp_path)
    assert report["interrupted"] == "interrupted"
    assert report["requests"]["planned"] < 3600
