"""The container as a process: its first second, its ports, its end."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import (
    Container,
    free_port,
    launch,
    listening,
    running,
    until,
)
from tests.support.fake_triton import fake_environment
from tests.support.protocol import complaint, infer, values
from tests.support.quick_container import told
from tests.support.tritons import BOTH

#: 127.0.0.1 as /proc/net/tcp writes it, and as tcp6 does for gRPC's socket of both families.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
QUICK_END = told(Constants(drain_timeout_s=2, triton_stop_timeout_s=1.25))


def test_before_tritonserver_lives(tmp_path: Path) -> None:
    """As soon as something listens: /models is an empty list, /ping a 503, an invocation a 404."""
    environment = fake_environment(tmp_path, never_live=True)
    container = launch(tmp_path, **environment)
    try:
        until(lambda: container.ping() != 0, "it listens", container)
        for _ in range(3):
            assert container.ping() == 503
            assert container.http.get("/models").json() == {"models": []}
        assert container.invoke("m1", infer([1])).status_code == 404
        assert container.http.get("/models/m1").status_code == 404
        assert container.unload("m1").status_code == 404
    finally:
        container.close()
    assert container.process.returncode == 0


def test_load_in_the_first_second(triton: Mapping[str, str], tmp_path: Path) -> None:
    """A load that comes before tritonserver lives waits for it and is done."""
    container = launch(tmp_path, **triton)
    try:
        directory = models.sums(container.model_root / "one/model", [1, 2])
        until(lambda: container.ping() != 0, "it listens", container)
        answer = container.load("m1", directory)
        assert answer.status_code == 200, answer.text
        assert values(container.invoke("m1", infer([0]))) == [3.0]
    finally:
        container.close()


@pytest.mark.parametrize(
    ("triton", "metrics"),
    [("2.51", "true"), ("2.51", "false"), ("2.36", "true")],
    indirect=["triton"],
)
def test_ports(metrics: str, triton: Mapping[str, str], tmp_path: Path) -> None:
    """Every port but the main one lies in the safe range and listens on loopback alone."""
    low = free_port()
    environment = {
        "SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 20}",
        "SAGEMAKER_TRITON_ALLOW_METRICS": metrics,
        "SERVE_BIND_ADDRESS": "0.0.0.0",
    }
    # The container's own page needs one, too: off, nobody does.
    page = {"SERVE_METRICS": "off" if metrics == "false" else "on"}
    with running(tmp_path, **triton, **environment, **page) as container:
        main = listening(frozenset({container.process.pid}))
        assert main == {("00000000", container.port)}
        others = listening(frozenset(process.pid for process in container.descendants()))
        assert {address for address, _ in others} <= LOOPBACK
        ports = {port for _, port in others}
        assert len(ports) == (3 if metrics == "true" else 2)
        assert all(low <= port <= low + 20 for port in ports)
        assert container.port not in ports


def test_port_in_use(tmp_path: Path) -> None:
    """A main port that is taken ends the container, and its last line says which."""
    with running(tmp_path / "first", **fake_environment(tmp_path)) as first:
        second = launch(tmp_path / "second", SAGEMAKER_BIND_TO_PORT=str(first.port))
        try:
            assert second.wait() == 1
            assert f"port {first.port}" in second.log.strip().splitlines()[-1]
        finally:
            second.close()


def test_sigterm_finishes_what_is_in_flight(triton: Mapping[str, str], tmp_path: Path) -> None:
    """SIGTERM: the request in flight is answered, no new connection is taken, exit code 0."""
    with running(tmp_path, **triton) as container:
        marker = tmp_path / "marker"
        directory = models.write_archive(
            container.model_root / "one/model", {"m": models.slow(marker)}
        )
        assert container.load("m1", directory).status_code == 200
        with ThreadPoolExecutor(1) as pool:
            invoking = pool.submit(container.invoke, "m1", infer([2]))
            until(marker.exists, "the model runs")
            container.descendants()
            container.signal(signal.SIGTERM)
            until(lambda: not _accepts(container), "it accepts no more")
            assert not invoking.done()
            assert values(invoking.result()) == [2.0]
        assert container.wait() == 0


def _accepts(container: Container) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{container.port}/ping", timeout=60, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def test_settings_that_say_two_things(tmp_path: Path) -> None:
    """A misspelt variable, a former one, and a preload into nothing are warnings: it serves."""
    said = {
        "SERVE_MODEL_ROTO": "/",
        "SERVE_RESTART_LIMIT": "5",
        "SERVE_WARM": "off",
        "SERVE_PRELOAD": "torch",
    }
    with running(tmp_path, **fake_environment(tmp_path), **said) as container:
        assert container.ping() == 200
        assert "did you mean SERVE_MODEL_ROOT?" in container.log
        assert "SERVE_RESTART_LIMIT is no setting any more: 3 deaths of" in container.log
        assert "there is nothing to preload into; set SERVE_WARM=auto" in container.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_when_idle(number: signal.Signals, tmp_path: Path) -> None:
    """Either signal ends a container at once with 0, and nothing of it is left."""
    with running(tmp_path, **fake_environment(tmp_path)) as container:
        container.descendants()
        container.signal(number)
        assert container.wait() == 0


def test_sigterm_before_tritonserver_lives(tmp_path: Path) -> None:
    """A container that is told to stop while it starts stops."""
    environment = fake_environment(tmp_path, never_live=True)
    container = launch(tmp_path, **environment)
    try:
        until(lambda: container.ping() == 503, "it listens", container)
        container.descendants()
        container.signal(signal.SIGTERM)
        assert container.wait() == 0
    finally:
        container.close()


def _slow_interpreter(directory: Path, seconds: float) -> Path:
    path = directory / "slow-python"
    path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep({seconds})\n")
    path.chmod(0o755)
    return path


def test_the_models_python_is_slow(tmp_path: Path) -> None:
    """It is answered what can be answered, and a stop is a stop."""
    slow = _slow_interpreter(tmp_path, 600)
    container = launch(tmp_path, SERVE_BACKEND_PYTHON=str(slow))
    try:
        until(lambda: container.ping() == 503, "it listens", container)
        container.descendants()
        container.signal(signal.SIGTERM)
        assert container.wait() == 0
    finally:
        container.close()


def test_numpy_2_is_no_start(tmp_path: Path) -> None:
    """Under the wheel's tritonserver, really: our own environment has numpy 2."""
    container = launch(tmp_path, SERVE_BACKEND_PYTHON=sys.executable)
    try:
        assert container.wait() == 1
        last = container.log.splitlines()[-1]
        assert "found numpy 2." in last
        assert "install 'numpy<2' there" in last
    finally:
        container.close()


@pytest.mark.parametrize(
    "argument", ["--nonsense=3", "--log-verbose=abc", "--cache-config=nope,size=3"]
)
def test_arguments_that_tritonserver_refuses(argument: str, tmp_path: Path) -> None:
    """It is started once; its own words, and the variable, are the last line; few stand above."""
    container = launch(tmp_path, SAGEMAKER_TRITON_ADDITIONAL_ARGS=argument)
    try:
        assert container.wait() == 1
        lines = container.log.splitlines()
        assert "tritonserver refuses its arguments (" in lines[-1]
        assert argument.partition("=")[0] in lines[-1] or "libtritoncache_nope" in lines[-1]
        assert "correct SAGEMAKER_TRITON_ADDITIONAL_ARGS" in lines[-1]
        assert len(lines) < 40
        assert container.log.count("tritonserver started") == 1
    finally:
        container.close()


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_no_model_root(kind: str, tmp_path: Path) -> None:
    """One that was asked for must be there."""
    root = tmp_path / "root"
    if kind == "file":
        root.touch()
    container = launch(tmp_path, SERVE_MODEL_ROOT=str(root))
    try:
        assert container.wait() == 1
        (last,) = container.log.splitlines()
        assert f"SERVE_MODEL_ROOT is '{root}', expected a directory, and " in last
    finally:
        container.close()


def test_one_line_says_what_is_started(tmp_path: Path) -> None:
    with running(tmp_path, **fake_environment(tmp_path), SERVE_WARM="off") as container:
        (line,) = (it for it in container.log.splitlines() if " configured " in it)
        assert f"mode=multi-model models={tmp_path}/models port={container.port} python=" in line
        assert "SERVE_WARM=off" in line


def test_what_a_killed_container_left_is_cleared_at_the_next_start(tmp_path: Path) -> None:
    """Its files and its shared memory, while a third one at the same place goes on."""
    archive = models.write_archive(tmp_path / "models/a/model", {"m": models.identity})
    with running(tmp_path / "third", TMPDIR=str(tmp_path / "work")) as third:
        killed = launch(tmp_path)
        try:
            until(lambda: killed.ping() == 200, "it has started", killed)
            assert killed.load("m", archive).status_code == 200
            killed.descendants()
            killed.signal(signal.SIGKILL)
            killed.wait()
            assert killed.regions()
            assert len(killed.runs()) == 2
            with running(tmp_path) as second:
                assert not killed.regions()
                assert len(second.runs()) == 2
                assert "a killed container's files are removed" in second.log
                with second.loaded("m", archive):
                    assert values(second.invoke("m", infer([1]))) == [1.0]
                assert third.ping() == 200
                second.signal(signal.SIGTERM)
                assert second.wait() == 0
                assert len(second.runs()) == 1
                third.signal(signal.SIGTERM)
                assert third.wait() == 0
        finally:
            killed.http.close()
            killed.discard()


def test_no_work_dir(tmp_path: Path) -> None:
    """One sentence says what is wrong with it."""
    container = launch(tmp_path, TMPDIR="/proc/nothing")
    try:
        assert container.wait() == 1
        last = container.log.splitlines()[-1]
        assert "TMPDIR=/proc/nothing: no directory can be made there" in last
    finally:
        container.close()


@pytest.mark.parametrize("after_s", [0.05, 0.15, 0.3, 0.5, 0.8])
def test_sigterm_at_any_moment(after_s: float, tmp_path: Path) -> None:
    """Of the start: it ends, and nothing is left."""
    container = launch(tmp_path)
    try:
        time.sleep(after_s)
        container.descendants()
        container.signal(signal.SIGTERM)
        assert container.wait() in (0, -signal.SIGTERM), "the latter before Python itself runs"
    finally:
        container.close()


def test_sigterm_during_a_load(triton: Mapping[str, str], tmp_path: Path) -> None:
    """A load that would outlast the time to stop does not hold it up."""
    marker = tmp_path / "marker"
    with running(tmp_path, **QUICK_END, **triton) as container:
        directory = models.write_archive(
            container.model_root / "one/model", {"m": models.late(600, marker)}
        )
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(container.load, "m1", directory)
            until(marker.exists, "the model is being loaded")
            container.descendants()
            container.signal(signal.SIGTERM)
            assert container.wait() == 0
            answer = loading.result()
            assert answer.status_code == 503
            assert "stopping" in complaint(answer)


@BOTH
def test_sigterm_during_the_load_of_a_single_model(
    triton: Mapping[str, str], tmp_path: Path
) -> None:
    """Nor does that of the model that the container is for."""
    marker = tmp_path / "marker"
    directory = models.write_archive(tmp_path / "model", {"m": models.late(600, marker)})
    single = {"SAGEMAKER_MULTI_MODEL": "false", "SERVE_SINGLE_MODEL_DIR": str(directory)}
    container = launch(tmp_path, **QUICK_END, **single, **triton)
    try:
        until(marker.exists, "the model is being loaded", container)
        container.descendants()
        container.signal(signal.SIGTERM)
        assert container.wait() == 0
    finally:
        container.close()


def test_sigterm_when_a_model_hangs(tmp_path: Path) -> None:
    """An invocation that never ends does not keep the container from its end."""
    environment = fake_environment(tmp_path, infer={"*": {"hang": True}})
    with running(tmp_path, **QUICK_END, **environment) as container:
        directory = models.write_archive(container.model_root / "one/model", {"m": models.identity})
        assert container.load("m1", directory).status_code == 200
        record = tmp_path / "record"
        with ThreadPoolExecutor(1) as pool:
            invoking = pool.submit(container.invoke, "m1", infer([1]))
            until(lambda: '"event": "infer"' in record.read_text(), "the model runs")
            container.descendants()
            container.signal(signal.SIGTERM)
            assert container.wait() == 0
            assert invoking.exception() or invoking.result().status_code >= 500


@BOTH
def test_auto_completion(triton: Mapping[str, str], tmp_path: Path) -> None:
    """With SERVE_AUTO_COMPLETE=true a model may tell its tensors itself."""
    with running(tmp_path, SERVE_AUTO_COMPLETE="true", **triton) as container:
        model = models.PythonModel(models.COMPLETING, tensors="")
        directory = models.write_archive(container.model_root / "one/model", {"m": model})
        with container.loaded("m1", directory):
            assert values(container.invoke("m1", infer([1, 2]))) == [1.0, 2.0]
        directory = models.write_archive(
            container.model_root / "two/model", {"m": models.unwilling}
        )
        answer = container.load("m2", directory)
        assert answer.status_code == 400
        assert "no weights" in complaint(answer)
