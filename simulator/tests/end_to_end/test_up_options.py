"""`up`: what its options refuse, what ends it, and the containers that it only attaches to."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from merlin_simulator.commands import up
from simulator.tests.support.simulator import (
    FAKE_CONTAINER,
    fake_container,
    fake_model,
    simulator,
)
from tests.support.container import ROOT, until

ATTACHED = ("--instance", "http://127.0.0.1:8080=/nowhere/a")
SHORT_S = 120.0


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")


def _run(*options: str) -> None:
    parser = argparse.ArgumentParser()
    up.add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["up", "--models", "/nowhere/models", *options])
    parsed.run(parsed)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--memory", "4"), "found '4', which is 4 bytes: did you mean 4GB?"),
        (("--disk", "20"), "found '20', which is 20 bytes: did you mean 20GB?"),
        (("--port", "65536"), "expected 0 to 65535"),
        (("--port", "-1"), "expected 0 to 65535"),
        (("--memory-threshold", "0"), "more than 0, and 1 at most"),
        (("--memory-threshold", "1.01"), "more than 0, and 1 at most"),
        (("--memory-threshold", "nan"), "more than 0, and 1 at most"),
        (("--memory-threshold", "most"), "expected a number"),
        (("--invoke-timeout", "0"), "expected seconds, more than 0"),
        (("--cold-wait", "-1"), "expected seconds, more than 0"),
        (("--ping-every", "nan"), "expected seconds, more than 0"),
        (("--load-timeout", "inf"), "expected seconds, more than 0"),
        ((*ATTACHED, "--single-model", "m.tar.gz"), "--single-model is for containers that are st"),
        ((*ATTACHED, "--instances", "1"), "--instances is for containers that are started here"),
        ((*ATTACHED, "--container", "c"), "--container is for containers that are started here"),
        ((*ATTACHED, "--work-dir", "/nowhere/w"), "--work-dir is for containers that are started"),
        (("--docker-socket", "unix:///s"), "--docker-socket is for the containers of --instance"),
        ((*ATTACHED, "--instance", "http://b=/nowhere/../nowhere/a"), "more than one --instance"),
        (("--instance", "http://a:99999=/nowhere/a"), "--instance is URL=FOLDER"),
        (("--instance", "http://[::1=/nowhere/a"), "--instance is URL=FOLDER"),
        (("--instance", "http://a/path=/nowhere/a"), "--instance is URL=FOLDER"),
        (("--instance", "https://a=/nowhere/a"), "--instance is URL=FOLDER"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and one sentence that says which option it is."""
    with pytest.raises(SystemExit) as ended:
        _run(*options)
    assert ended.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in last
    assert "error: " in last


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0.0.0.0", "http://localhost:"),
        ("127.0.0.1", "http://127.0.0.1:"),
        pytest.param("::1", "http://[::1]:", marks=needs_ipv6),
        pytest.param("::", "http://[::1]:", marks=needs_ipv6),
    ],
)
def test_the_url_that_is_told_can_be_asked(host: str, shown: str, tmp_path: Path) -> None:
    """For an address that stands for all of them, the told url has one that callers can use."""
    (tmp_path / "models").mkdir()
    with simulator(tmp_path / "models", tmp_path / "log", "--host", host) as played:
        assert played.url.startswith(shown)
        assert played.http.get("/simulator/state").status_code == 200


def test_the_url_of_a_published_port_is_told(tmp_path: Path) -> None:
    """Behind Docker's ports callers ask another address than this process listens at."""
    fake_model(tmp_path / "models", "a.tar.gz")
    log, options = tmp_path / "log", ("--public-url", "http://127.0.0.1:8090/")
    command = [sys.executable, "-m", "simulator", "up", "--models", str(tmp_path / "models")]
    command += ["--port", "0", "--container", FAKE_CONTAINER, *options]
    with log.open("wb") as said, subprocess.Popen(command, cwd=ROOT, stdout=said) as process:
        try:
            until(lambda: "instance in service" in log.read_text(), "in service")
        finally:
            process.send_signal(signal.SIGTERM)
    told = "endpoint local at http://127.0.0.1:8090 (the page: http://127.0.0.1:8090/)"
    assert log.read_text().startswith(told)


def test_a_folder_without_archives_is_said(tmp_path: Path) -> None:
    """What was looked for, where, and what to do; one that has some is not spoken of."""
    (tmp_path / "models").mkdir()
    log = tmp_path / "log"
    with simulator(tmp_path / "models", log):
        said = log.read_text()
        assert f"no archives: looked for *.tar.gz in {tmp_path / 'models'} and below" in said
        assert "python -m ensemble_tools pack" in said
    fake_model(tmp_path / "models", "a.tar.gz")
    with simulator(tmp_path / "models", log):
        assert "no archives" not in log.read_text()


def test_the_log_of_a_container_that_never_started_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named at the start and at the end, and what the container wrote is in it."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    ended = _up(tmp_path / "models", "--container", "sh -c 'echo no licence found; exit 3'")
    assert ended.returncode == 1
    (kept,) = (tmp_path / "tmp").glob("simulator-*")
    (log,) = kept.iterdir()
    assert "no licence found" in log.read_text()
    assert f"the containers' logs: {kept}/instance-*.log" in ended.stdout
    assert f"the containers' logs are kept: {log}" in ended.stderr


def test_the_logs_of_containers_that_served_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that was made for them is gone with the simulator."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    fake_model(tmp_path / "models", "a.tar.gz")
    with simulator(tmp_path / "models", tmp_path / "log") as played:
        assert played.invoke("a.tar.gz").status_code == 200
        assert list((tmp_path / "tmp").iterdir())
    assert not list((tmp_path / "tmp").iterdir())


def _up(models: Path, *options: str) -> subprocess.CompletedProcess[str]:
    fake_model(models, "a.tar.gz")
    command = [sys.executable, "-m", "simulator", "up", "--models", str(models), "--port", "0"]
    return subprocess.run(
        [*command, *options], cwd=ROOT, check=False, text=True, capture_output=True, timeout=SHORT_S
    )


def test_a_folder_that_cannot_be_used_ends_it(tmp_path: Path) -> None:
    """One sentence with the folder in it, and exit code 1; not an endpoint without instances."""
    (tmp_path / "file").write_text("a folder cannot be made in it")
    folder = tmp_path / "file" / "models"
    ended = _up(tmp_path / "models", "--instance", f"http://127.0.0.1:1={folder}")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert ended.stderr.startswith("simulator: ")
    assert str(folder) in ended.stderr


def test_a_host_without_an_address_is_told_and_looked_for_again(tmp_path: Path) -> None:
    """The endpoint runs, without instances; the line is there once, however often it looks."""
    (tmp_path / "models").mkdir()
    url, log = "http://nowhere.invalid:8080", tmp_path / "log"
    option = f"{url}={tmp_path / 'folder'}"
    with simulator(tmp_path / "models", log, "--instance", option, instances=0) as played:
        until(lambda: f"--instance {url}: its host has no IPv4 address" in log.read_text(), "told")
        assert played.state()["instances"] == []
    assert log.read_text().count("has no IPv4 address") == 1


def test_an_address_of_ipv6_is_an_instance(tmp_path: Path) -> None:
    """It is asked as it is written, whether or not anybody answers."""
    (tmp_path / "models").mkdir()
    option = f"http://[::1]:9={tmp_path / 'folder'}"
    with simulator(
        tmp_path / "models", tmp_path / "log", "--instance", option, instances=0
    ) as played:
        until(lambda: played.state()["instances"], "it is an instance")
        assert (played.instance()["name"], played.instance()["state"]) == ("[::1]:9", "starting")


def test_a_single_model_starts_again_in_its_folder(tmp_path: Path) -> None:
    """The model of the run before is fetched anew, and served as it is now."""
    options = ("--single-model", "m.tar.gz", "--work-dir", str(tmp_path / "work"))
    for answer in ("old", "new"):
        fake_model(tmp_path / "models", "m.tar.gz", version=answer)
        with simulator(tmp_path / "models", tmp_path / "log", *options) as played:
            assert played.in_service()
        (found,) = (tmp_path / "work").rglob("answer.json")
        assert answer in found.read_text()


def test_what_an_earlier_simulator_left_in_a_container_is_unloaded(tmp_path: Path) -> None:
    """The container outlives the simulator: it is emptied before its folder is, whoever named it.

    One that is not unloaded is told of, and stands in nobody's way.
    """
    fake_model(tmp_path / "models", "m.tar.gz")
    fake_model(tmp_path / "models", "stays.tar.gz", unload_status=500)
    with fake_container() as (port, _):
        options = ("--instance", f"http://127.0.0.1:{port}={tmp_path / 'folder'}")
        with simulator(tmp_path / "models", tmp_path / "log", *options) as played:
            for name in ("m.tar.gz", "stays.tar.gz"):
                assert played.invoke(name).status_code == 200
        with simulator(tmp_path / "models", tmp_path / "log2", *options) as played:
            (unloaded,) = played.kinds("unloaded")
            assert unloaded["reason"] == "left over"
            (failed,) = played.kinds("unload_failed")
            assert failed["status"] == 500
            (joined,) = played.kinds("instance_starting")
            assert unloaded["sequence"] < joined["sequence"]
            assert played.invoke("m.tar.gz").json()["answer"] == "m.tar.gz"
            calls = played.fake()["calls"]
        loaded = [["load", "m.tar.gz"], ["load", "stays.tar.gz"]]
        assert calls[:2] == loaded
        assert sorted(calls[2:4]) == [["unload", "m.tar.gz"], ["unload", "stays.tar.gz"]]
        assert calls[4:] == loaded[:1]


def test_without_its_libraries(tmp_path: Path) -> None:
    """As after `make demo`: one sentence, for a package that is named; no traceback."""
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError('', name='aiohttp')")
    hidden = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "simulator", "up", "--models", str(tmp_path)],
        cwd=ROOT,
        env=hidden,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "python -m simulator: the Python package 'aiohttp' is not installed; in a checkout `make "
        "setup` installs it, elsewhere pip install ./simulator\n"
    )


def test_without_a_container_to_start(tmp_path: Path) -> None:
    """Outside of a checkout, where the project's container is not installed either."""
    package = ROOT / "simulator/src/merlin_simulator"
    shutil.copytree(package, tmp_path / "merlin_simulator")
    (tmp_path / "models").mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "merlin_simulator", "up", "--models", "models", "--port", "0"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=SHORT_S,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("simulator: no container to start: found no package `container`")
    assert "--container" in ended.stderr
    assert ended.stderr.count("\n") == 1
