"""`compare` asks two archives in one tritonserver the same, and says how alike they are.

Two models of one input are two archives here: which items they rank first, their requests decide.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from container.settings.reading import read_settings
from tests.end_to_end.conftest import EXAMPLES, ended_late
from tests.support.clock import Clock
from tests.support.container import ROOT
from tests.support.models import (
    PythonModel,
    Writable,
    hanging,
    identity,
    raising,
    unwilling,
    write_archive,
)
from tests.support.signals import interrupt
from tests.support.temporary import left_empty
from verification.compare_command import FAILED, NOT_WITHIN, WITHIN, main
from verification.compare_run import Comparing, compare_archives, read_contender
from verification.errors import NoAnswer
from verification.reports.progress import Progress
from verification.requests.request_file import read_requests

DENSE = EXAMPLES / "dense"
PROGRAM = (sys.executable, "-m", "ensemble_tools", "compare")
PROGRAM_TIMEOUT_S = 800.0

#: Turns the order of scores around.
REVERSING = PythonModel("""
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, -values)
""")
SQUEAMISH = PythonModel("""
class TritonPythonModel(Each):
    def answer(self, request, values):
        if (values < 0).any():
            raise ValueError("negative numbers")
        return respond(request, values)
""")
ALTERNATING = PythonModel("""
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        self.answers = 0

    def answer(self, request, values):
        self.answers += 1
        return respond(request, values if self.answers % 2 else -values)
""")
#: Ids of the candidates, best first, with their scores.
_LISTS = """
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "ids" data_type: TYPE_INT64 dims: [-1, 1] }
output { name: "scores" data_type: TYPE_FP32 dims: [-1, 1] }
"""
LISTING = PythonModel(
    """
class TritonPythonModel(Each):
    def answer(self, request, values):
        order = np.argsort(-values, kind="stable")[:3]
        return pb_utils.InferenceResponse([
            pb_utils.Tensor("ids", order.reshape(-1, 1)),
            pb_utils.Tensor("scores", values[order].reshape(-1, 1)),
        ])
""",
    tensors=_LISTS,
)
OTHERWISE_LISTING = PythonModel(
    LISTING.source.replace("(-values,", "(-values * np.arange(len(values)),"), tensors=_LISTS
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where temporary directories are made, but that of the test, which is there before it."""
    with left_empty(monkeypatch):
        yield


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    """Two lists of scores, one with a negative number in it."""
    return write_requests(tmp_path, [4, 3, 2, 1], [1, 3, -2])


def write_requests(directory: Path, *lists: Sequence[float]) -> Path:
    path = directory / "requests.json"
    inputs = [
        {"name": "IN", "datatype": "FP32", "shape": [len(values)], "data": [*values]}
        for values in lists
    ]
    path.write_text(json.dumps([{"inputs": [tensor]} for tensor in inputs]))
    return path


def compared(
    tmp_path: Path, old: Writable, new: Writable, requests: Path, *options: str
) -> tuple[int, dict[str, Any]]:
    """The exit code, and the report as JSON."""
    paths = [
        str(write_archive(tmp_path / name, {"m": model}))
        for name, model in (("old", old), ("new", new))
    ]
    found = tmp_path / "found.json"
    arguments = [*paths, "--requests", str(requests), "--json", str(found), "--skip-timing"]
    code = main([*arguments, *options])
    return code, json.loads(found.read_text()) if found.exists() else {}


def means(target: dict[str, Any]) -> dict[str, float]:
    return {name: measure["mean"] for name, measure in target["measures"].items()}


def test_an_export_and_itself(tmp_path: Path) -> None:
    """The whole program on a real export, twice: all is 1, and both take time and memory."""
    found = tmp_path / "found.json"
    archive = tmp_path / "dense.tar.gz"
    subprocess.run(["tar", "-C", DENSE / "repository", "-czf", archive, "."], check=True)
    done = subprocess.run(
        [
            *PROGRAM,
            *(DENSE / "repository", archive, "--requests", DENSE / "request.json"),
            *("--k", "2,3", "--at-least", "overlap@3=1", "--at-least", "kendall=1"),
            *("--json", found),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == WITHIN, done.stdout + done.stderr
    assert "EQUAL: NEW's answers have the same bits as OLD's (1 request)" in done.stdout
    report = json.loads(found.read_text())
    (target,) = report["targets"]
    assert (target["scores"], target["lists"], target["longest"]) == ("click", 1, 5)
    measured = {name: value for name, value in means(target).items() if value is not None}
    assert {*measured.values()} == {1.0}
    assert {"same_first", "overlap@2", "overlap@3", "kendall", "spearman"} <= measured.keys()
    assert target["score_shift"]["largest"] == 0
    assert [cost["timed_requests"] for cost in report["costs"]] == [100, 100]
    assert all(0 < cost["p50_s"] < 10 and cost["processes"] for cost in report["costs"])


def test_an_export_with_other_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A retrained model ranks otherwise: the figures say so, and the bounds are not held."""
    new = tmp_path / "new"
    shutil.copytree(DENSE / "repository", new)
    retrain(new / "1_predictpytorchtriton/1/model.pt")
    arguments = [str(DENSE / "repository"), str(new), "--requests", str(DENSE / "request.json")]
    code = main([*arguments, "--skip-timing", "--at-least", "kendall=0.99"])
    printed = capsys.readouterr().out
    assert code == NOT_WITHIN, printed
    assert "click: kendall is " in printed
    assert "and at least 0.99 is asked for" in printed


def retrain(model: Path) -> None:
    """Turn the sign of the weights of a TorchScript model's last layer."""
    program = (
        "import sys, torch; m = torch.jit.load(sys.argv[1])\n"
        "with torch.no_grad():\n    m.out.weight.neg_()\n"
        "torch.jit.save(m, sys.argv[1])"
    )
    python = ROOT / ".venv-merlin/bin/python"
    subprocess.run([python, "-c", program, model], check=True, capture_output=True)


def test_scores_that_are_turned_around(tmp_path: Path, requests: Path) -> None:
    """By hand: every pair of candidates is turned, and no first item stays."""
    code, report = compared(tmp_path, identity, REVERSING, requests, "--at-least", "overlap@1=0.1")
    assert code == NOT_WITHIN
    assert report["failures"] == ["OUT: overlap@1 is 0.0000, and at least 0.1 is asked for"]
    (target,) = report["targets"]
    found = means(target)
    assert (found["kendall"], found["spearman"], found["same_first"]) == (-1, -1, 0)
    assert found["overlap@2"] == pytest.approx((0 + 1 / 2) / 2)
    assert target["score_shift"]["largest"] == 8
    assert target["score_shift"]["mean"] == pytest.approx(-2 * 12 / 7)


def test_rows_of_several_users(tmp_path: Path) -> None:
    """The export's request has a row of each of five users: nothing can be ranked then."""
    old, new = str(DENSE / "repository"), tmp_path / "new"
    shutil.copytree(old, new)
    retrain(new / "1_predictpytorchtriton/1/model.pt")
    found = tmp_path / "found.json"
    options = ["--skip-timing", "--user", "user_id", "--at-least", "same_first=0"]
    requests = ["--requests", str(DENSE / "request.json"), "--json", str(found)]
    assert main([old, str(new), *requests, *options]) == NOT_WITHIN
    assert json.loads(found.read_text())["failures"] == [
        "click: nothing was measured for same_first=0: no list has more than 1 candidate"
    ]


def test_lists_of_ids(tmp_path: Path) -> None:
    """Ids in the answer's order: what NEW lists in another order, and what it leaves out."""
    requests = write_requests(tmp_path, [5, 4, 3, 2, 1])
    code, report = compared(tmp_path, LISTING, OTHERWISE_LISTING, requests)
    assert code == WITHIN
    (target,) = report["targets"]
    assert (target["ids"], target["scores"]) == ("ids", "scores")
    # OLD lists 0, 1, 2; NEW weighs them with 0 to 4: 2 and 3 tie at 6, and come before 1 and 4.
    assert means(target)["same_first"] == 0
    assert means(target)["overlap@3"] == pytest.approx(2 / 3)


def test_what_new_refuses(
    tmp_path: Path, requests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """NEW must answer what OLD answers, and need not refuse what OLD refuses."""
    code, report = compared(tmp_path / "a", identity, SQUEAMISH, requests)
    assert code == NOT_WITHIN
    (refused,) = report["requests"]["refused_by_new"]
    assert refused["request"] == "request 2 of requests.json"
    assert "negative numbers" in refused["new"]
    assert "NEW refuses what OLD answers (request 2 of requests.json)" in capsys.readouterr().out
    code, report = compared(tmp_path / "b", SQUEAMISH, identity, requests)
    assert code == WITHIN
    assert len(report["requests"]["refused_by_old"]) == 1
    code, report = compared(tmp_path / "c", raising, raising, requests)
    assert code == NOT_WITHIN
    assert report["failures"][0] == "no request is answered by both, of 2"
    assert "these values are not welcome" in report["requests"]["refused_by_both"][0]["old"]


def test_chance(tmp_path: Path, requests: Path) -> None:
    """OLD is asked twice: what differs between its own answers is no difference of NEW's."""
    _, report = compared(tmp_path, ALTERNATING, identity, requests)
    assert len(report["requests"]["old_answers_otherwise_again"]) == 2
    (target,) = report["targets"]
    assert target["old_again"]["kendall"]["lists"] == 2
    assert target["old_again"]["kendall"]["mean"] < 1


async def test_an_archive_that_hangs(clock: Clock, tmp_path: Path, requests: Path) -> None:
    """It is waited for once, and the sentence says which of the two it is."""
    marker = tmp_path / "marker"
    paths = [
        write_archive(tmp_path / name, {"m": model})
        for name, model in (("old", identity), ("new", hanging(marker)))
    ]
    settings = read_settings({})
    old, new = (
        read_contender(title, path, path, settings)
        for title, path in zip(("OLD", "NEW"), paths, strict=True)
    )
    comparing = Comparing(old, new, read_requests(requests), (10,))
    work = compare_archives(comparing, settings, os.environ, Progress())
    with pytest.raises(NoAnswer, match=r"NEW \(.*/new\) gave no answer .* 1 .* within 30 s"):
        await ended_late(work, marker, clock)


def test_an_archive_that_does_not_load(
    tmp_path: Path, requests: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says which of the two, and the model's own reason."""
    code, report = compared(tmp_path, identity, unwilling, requests)
    assert (code, report) == (FAILED, {})
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line[0] != "["]
    assert line.startswith(f"error: NEW ({tmp_path}/new) cannot be loaded: ")
    assert "no weights in /nowhere/weights.bin" in line


@pytest.mark.parametrize("moment", [0.0, 2.5])
def test_interrupted_at_any_time(moment: float, tmp_path: Path) -> None:
    """Ctrl-C while it imports, and while it loads: it ends, and leaves nothing."""
    repository = str(DENSE / "repository")
    command = [*PROGRAM, repository, repository, "--requests", str(DENSE / "request.json")]
    interrupt(command, moment, tmp_path / "said")
