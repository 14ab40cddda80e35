"""The whole replay as a process of its own, against an endpoint process without containers."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.addresses import find_free_port
from merlin_simulator.commands import replay as command
from merlin_simulator.plan_command.baseline import make_scenario
from merlin_simulator.plan_command.files import UnusableFile
from merlin_simulator.plan_command.replay_report import read_report
from merlin_simulator.replay.asking import Runtime
from merlin_simulator.replay.copies import make_names
from merlin_simulator.replay.local_endpoint import (
    Scratch,
    make_up_command,
    start_endpoint,
)
from merlin_simulator.replay.settings import EndpointTrouble, Settings
from simulator.tests.support.environment import environment_of_ours, find_marked
from simulator.tests.support.waiting import in_a_calm_moment
from simulator.tests.unit.plain_http import plain_http
from tests.support.captures import make_record, write_capture
from tests.support.container import until

ROOT = Path(__file__).parents[3]
FAKE = "simulator.tests.unit.replay.fake_endpoint"
WAIT_S = 90.0

#: A replay whose endpoint is the fake one: its folder of archives is checked before it starts.
_SCRIPT = f"""
import sys
from pathlib import Path
from merlin_simulator.replay.run import replay
from merlin_simulator.replay.settings import Settings

def command(settings, scratch, port):
    assert len(list(scratch.archives.rglob("*.tar.gz"))) == settings.models
    (scratch.work / "instance-1.log").write_text("| server_version | 2.51.0 |")
    return [sys.executable, "-m", "{FAKE}", "--port", str(port), *sys.argv[3:]]

what = sys.argv[2]
settings = (
    Settings(capture=Path(what), speed=4.0)
    if "/" in what
    else Settings(models=20, rps=40.0, duration_s=float(what))
)
sys.exit(replay(settings, Path(sys.argv[1]), command))
"""

#: The endpoint interrupts who ends it, and takes a moment to end.
_ENDING = """
import sys, time
from pathlib import Path
from merlin_simulator.replay.local_endpoint import start_endpoint

CHILD = '''
import os, signal, time
def end(*_):
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.3)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
signal.pause()
'''
log = Path(sys.argv[1])
try:
    with start_endpoint([sys.executable, "-c", CHILD], 1, log) as endpoint:
        while "ready" not in log.read_text():
            time.sleep(0.01)
        print("ready", flush=True)
finally:
    print("there" if endpoint.gone() is None else "gone", flush=True)
"""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a replay of so many seconds, or of a capture; its files are made in tmp_path/tmp."""
    (tmp_path / "tmp").mkdir()

    begun: list[subprocess.Popen[str]] = []

    def process(what: float | Path, *knobs: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(tmp_path / "report"), str(what), *knobs],
            cwd=ROOT,
            env={**environment_of_ours(), "TMPDIR": str(tmp_path / "tmp")},
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(child)
        return child

    yield process
    for child in begun:  # a test that failed leaves nothing either
        if child.poll() is None:
            child.kill()
        child.communicate()
    for pid in fakes_of(tmp_path):
        os.kill(pid, signal.SIGKILL)


def report(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "report/report.json").read_text("utf-8"))
    return found


def fakes_of(tmp_path: Path) -> list[int]:
    """Processes of the fake endpoint that this test's replay has started."""
    marked = find_marked(f"TMPDIR={tmp_path / 'tmp'}")
    # The endpoint alone, whose command has the module as a word; the replay has it in a script.
    return [pid for pid, command in marked.items() if FAKE in command.split()]


def await_traffic(process: subprocess.Popen[str]) -> None:
    """Its requests are being sent."""
    assert process.stderr is not None
    assert any(line.startswith("traffic:") for line in process.stderr)


def finish(process: subprocess.Popen[str], tmp_path: Path) -> tuple[int, str]:
    """Exit code and output; nothing of the replay is left."""
    _, said = process.communicate(timeout=WAIT_S)
    assert not list((tmp_path / "tmp").iterdir())
    assert not fakes_of(tmp_path)
    return process.returncode, said


def test_a_good_replay_ends_with_zero(begin: Any, tmp_path: Path) -> None:
    """All sent, all right: exit code 0, both reports, no process and no file left.

    The page's address is told before the endpoint is in service, so that its start can be looked
    at, too.
    """
    code, said = finish(begin(2, "--room", "8", "--load", "0.01"), tmp_path)
    assert code == 0, said
    found = report(tmp_path)
    assert found["good"]
    assert found["requests"]["right"] == found["requests"]["planned"] > 60
    assert found["hits"] + found["misses"] == found["requests"]["sent"]
    assert found["loading"]["evictions"] > 0
    assert found["measuring"]["events_missed"] == found["measuring"]["requests_without_event"] == 0
    assert found["versions"]["tritonserver"] == "2.51.0"
    assert (tmp_path / "report/report.html").stat().st_size > 10_000
    assert "hit ratio" in said
    lines = said.splitlines()
    told = next(line for line in lines if "its page: http://127.0.0.1:" in line)
    assert lines.index(told) < next(n for n, line in enumerate(lines) if "in service" in line)


@pytest.mark.parametrize(
    ("knob", "name"), [("--fails-at", "ModelError"), ("--lies-at", "WrongAnswer")]
)
def test_one_failure_is_enough_for_one(begin: Any, tmp_path: Path, knob: str, name: str) -> None:
    """A single failed request, or a single answer of another model, is exit code 1."""
    code, said = finish(begin(1, knob, "5"), tmp_path)
    assert code == 1, said
    assert [(kind["name"], kind["count"]) for kind in report(tmp_path)["failures"]] == [(name, 1)]
    assert name in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_a_report_and_nothing_else(
    begin: Any, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM in mid-traffic: exit code 130 and the report of what was measured."""

    def check(_: int) -> None:
        process = begin(600, "--stalls-at", "3", "--stall", "60")
        await_traffic(process)
        time.sleep(0.3)  # some traffic; how much does not matter
        process.send_signal(number)
        if number == signal.SIGTERM:  # once more changes nothing
            time.sleep(0.3)
            process.send_signal(number)
        code, said = finish(process, tmp_path)
        assert code == 130, said
        found = report(tmp_path)
        assert found["interrupted"] == "interrupted"
        assert found["requests"]["planned"] == found["requests"]["sent"]
        assert found["requests"]["unfinished"] <= 1

    in_a_calm_moment(check)  # others are answered in the two seconds that they are given


def test_sigterm_while_the_endpoint_stops_changes_nothing(begin: Any, tmp_path: Path) -> None:
    """What was measured is not lost by who asks once more, and nothing is left."""
    process = begin(1, "--lingers", "1")
    log = tmp_path / "report/logs/endpoint.log"
    until(lambda: log.exists() and "lingering" in log.read_text("utf-8"), "it ends")
    process.send_signal(signal.SIGTERM)
    code, said = finish(process, tmp_path)
    assert code == 0, said
    assert report(tmp_path)["good"]


def test_an_endpoint_that_dies_ends_the_replay(begin: Any, tmp_path: Path) -> None:
    """The traffic stops, the report says why, and the exit code is 1."""
    process = begin(600)
    await_traffic(process)
    (fake,) = fakes_of(tmp_path)
    os.kill(fake, signal.SIGKILL)
    code, said = finish(process, tmp_path)
    assert code == 1, said
    assert "exit code -9" in report(tmp_path)["interrupted"]


def test_an_endpoint_ends_with_a_replay_that_is_killed(begin: Any, tmp_path: Path) -> None:
    """The kernel tells it to, since nobody else can any more."""
    process = begin(600)
    await_traffic(process)
    assert len(fakes_of(tmp_path)) == 1
    process.kill()
    process.wait()
    until(lambda: not fakes_of(tmp_path), "the endpoint has ended")


def test_a_signal_does_not_cut_the_end_off(tmp_path: Path) -> None:
    """It comes while the endpoint ends in order: it is heeded once that is done."""
    done = subprocess.run(
        [sys.executable, "-c", _ENDING, str(tmp_path / "log")],
        cwd=ROOT,
        env=environment_of_ours(),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.stdout == "ready\ngone\n", done.stderr
    assert "KeyboardInterrupt" in done.stderr


def test_an_endpoint_that_does_not_start_is_said(tmp_path: Path) -> None:
    """With what it wrote; the process's folder of archives is gone."""
    words = [sys.executable, "-c", "raise SystemExit('no tritonserver here')"]
    with start_endpoint(words, find_free_port(), tmp_path / "log") as endpoint:
        until(lambda: endpoint.gone() is not None, "it has ended")
        gone = endpoint.gone()
    assert gone is not None
    assert "exit code 1" in gone
    assert "no tritonserver here" in gone


def test_the_endpoints_options_are_handed_on(tmp_path: Path) -> None:
    """Sizes as they were written; what was not given is left to `up`."""
    words = make_up_command(
        Settings(instances=2, memory="4GB"), Scratch(tmp_path / "a", tmp_path / "w"), 1234
    )
    assert words[1:4] == ["-m", "merlin_simulator", "up"]
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert options == {
        "--models": str(tmp_path / "a"),
        "--work-dir": str(tmp_path / "w"),
        "--endpoint-name": "replay",
        "--port": "1234",
        "--instances": "2",
        "--memory": "4GB",
    }


def cli(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["replay", *words])
    before = signal.getsignal(signal.SIGTERM)
    try:
        return int(options.run(options))
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    "words",
    [
        ("--models", "0"),
        ("--memory", "4"),
        ("--rps", "nan"),
        ("--zipf", "-1"),
        ("--endpoint-url", "http://127.0.0.1:1"),
        ("--request", "r.json"),
        ("--model", "/dev/null/none"),
        ("--endpoint-url", "http://h", "--endpoint-name", "n", "--memory", "4GB"),
        ("--capture", "x", "--rps", "5"),
        ("--capture", "x", "--archives-only", "y"),
        ("--speed", "2"),
    ],
)
def test_a_wrong_command_line_is_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, before anything is made or started."""
    with pytest.raises(SystemExit) as exit_code:
        cli(*words)
    assert exit_code.value.code == 2
    assert capsys.readouterr().err


def test_archives_alone_can_be_made(tmp_path: Path) -> None:
    """For an endpoint that is started by other means; the folder is made."""
    assert cli("--models", "3", "--archives-only", str(tmp_path / "new")) == 0
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == [f"{name}.tar.gz" for name in make_names(3)]


def test_what_prevents_a_replay_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and the sentence on stderr, no traceback."""
    assert cli("--model", str(tmp_path), "--report", str(tmp_path / "report")) == 1
    assert "expected a Triton model repository" in capsys.readouterr().err


def test_a_capture_is_replayed_on_archives_of_its_names(begin: Any, tmp_path: Path) -> None:
    """At its times over the speed; the report says of which capture, and `plan --like` does not
    draw its requests anew.
    """
    day = tmp_path / "day"
    times = [f"2026-11-26T09:00:0{second}Z" for second in (0, 0, 2, 4)]
    write_capture(day, [make_record(b"{}", at=time) for time in times], "shop/a.tar.gz")
    write_capture(day, [make_record(b"{}", at=times[-1])], "b.tar.gz")
    code, said = finish(begin(day), tmp_path)
    assert code == 0, said
    found = report(tmp_path)
    assert found["requests"]["right"] == found["requests"]["planned"] == 5
    assert [(it["target_model"], it["requests"]) for it in found["models"]] == [
        ("shop/a.tar.gz", 4),
        ("b.tar.gz", 1),
    ]
    settings = found["settings"]
    assert (settings["capture"], settings["speed"], settings["models"]) == (str(day), 4.0, 2)
    assert settings["duration_s"] == 1.125
    assert f"{day} at speed 4" in (tmp_path / "report/report.html").read_text("utf-8")
    with pytest.raises(UnusableFile, match="found a replay of a capture"):
        make_scenario(read_report(tmp_path / "report/report.json"))


def test_a_capture_of_other_archives_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of --model has not all that were asked for: said before anything is started."""
    for name in ("a.tar.gz", "b.tar.gz"):
        write_capture(tmp_path / "day", [make_record(b"{}")], name)
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives/a.tar.gz").touch()
    words = ("--capture", str(tmp_path / "day"), "--model", str(tmp_path / "archives"))
    assert cli(*words, "--report", str(tmp_path / "report")) == 1
    assert capsys.readouterr().err == (
        f"replay: {tmp_path}/archives: found 1 of the 2 archives that were asked in "
        f"{tmp_path}/day, and no b.tar.gz; give the folder that has all of them.\n"
    )


def test_an_archive_in_another_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A capture that begins below a folder of its target models has their names in part."""
    write_capture(tmp_path / "day", [make_record(b"{}")], "tenants/a.tar.gz")
    (tmp_path / "day/shop/AllTraffic").rename(tmp_path / "day/shop/v1")
    (tmp_path / "archives/tenants").mkdir(parents=True)
    (tmp_path / "archives/tenants/a.tar.gz").touch()
    (tmp_path / "archives/day/a.tar.gz").mkdir(parents=True)
    capture = tmp_path / "day/shop/v1/tenants"
    words = ("--capture", str(capture), "--model", str(tmp_path / "archives"))
    assert cli(*words, "--report", str(tmp_path / "report")) == 1
    assert capsys.readouterr().err == (
        f"replay: {tmp_path}/archives: found 0 of the 1 archives that were asked in {capture}, and "
        "no a.tar.gz, but tenants/a.tar.gz; give the folder that has all of them, or with "
        "--capture the one that has <endpoint>/<variant>/.\n"
    )


def _asked_of(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a replay of an endpoint there has said when it has failed."""
    words = ("--endpoint-url", url, "--endpoint-name", "x", "--report", str(tmp_path / "report"))
    assert cli(*words) == 1
    return capsys.readouterr().err


def test_a_dead_address_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens there: the url stands in the one sentence."""
    url = f"http://127.0.0.1:{find_free_port()}"
    said = _asked_of(url, tmp_path, capsys)
    assert said.count("\n") == 1
    assert url in said
    assert "correct --endpoint-url" in said


def test_an_address_that_does_not_answer_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Connections are taken, and nothing comes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = _asked_of(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path, capsys)
    assert "no answer within 5 s" in said


def test_another_server_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It answers, but not as an endpoint of the simulator."""
    with plain_http(lambda method, path: b"hello") as port:

        def check(_: int) -> None:
            said = _asked_of(f"http://127.0.0.1:{port}", tmp_path, capsys)
            assert "an answer of 200 without an endpoint's state" in said

        in_a_calm_moment(check)


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/report"])
@pytest.mark.parametrize("option", ["--report", "--archives-only"])
def test_a_folder_that_cannot_be_had_is_said_at_once(
    option: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file, a place below one, a place that nobody may write to: a sentence and exit code 1."""
    (tmp_path / "file").write_text("")
    where = tmp_path / place
    assert cli("--models", "2", option, str(where)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"replay: {option} {where}: no files can be written there (")
    assert said.count("\n") == 1


def test_another_service_is_no_endpoint() -> None:
    """A URL that cannot be asked is refused by name."""
    with pytest.raises(EndpointTrouble, match="expected http://HOST:PORT"):
        Runtime("https://example.test", "x")
