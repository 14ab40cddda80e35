"""The container as a process: its first second, its ports, its end."""

from __future__ import annotations

import functools
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from container.constants import Constants
from tests.fakes.tritonserver import read_record
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

#: A signal that comes while the container's modules are imported ends it so, as shells say it.
ENDED_WHILE_IMPORTED = 128 + signal.SIGTERM
#: 127.0.0.1 as /proc/net/tcp writes it, and as tcp6 does for gRPC's socket of both families.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
QUICK_END = told(Constants(drain_timeout_s=2, triton_stop_timeout_s=1.25))


def test_what_its_log_begins_with(tmp_path: Path) -> None:
    """One line says what is started; mistakes that do not end it are warnings: it serves.

    A misspelt variable, a former one, and a preload into nothing.
    """
    mistaken = {
        "SERVE_MODEL_ROTO": "/",
        "SERVE_RESTART_LIMIT": "5",
        "SERVE_WARM": "off",
        "SERVE_PRELOAD": "torch",
    }
    with running(tmp_path, **fake_environment(tmp_path), **mistaken) as container:
        until(lambda: "tritonserver is live" in container.log, "the log has the start", container)
        (line,) = (it for it in container.log.splitlines() if " configured " in it)
        assert f"mode=multi-model models={tmp_path}/models port={container.port} python=" in line
        assert "SERVE_WARM=off" in line
        assert "did you mean SERVE_MODEL_ROOT?" in container.log
        assert "SERVE_RESTART_LIMIT is no setting any more: 3 deaths of" in container.log
        assert "there is nothing to preload into; set SERVE_WARM=auto" in container.log


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        pytest.param("SAGEMAKER_BIND_TO_PORT", "{taken}", "port {taken}", id="port in use"),
        pytest.param(
            "SERVE_MODEL_ROOT",
            "{here}/nowhere",
            "SERVE_MODEL_ROOT is '{here}/nowhere', expected a directory, and ",
            id="no model root",
        ),
        pytest.param(
            "SERVE_MODEL_ROOT",
            "{here}/log",
            "SERVE_MODEL_ROOT is '{here}/log', expected a directory, and ",
            id="a file as the model root",
        ),
        pytest.param(
            "TMPDIR",
            "/proc/nothing",
            "TMPDIR=/proc/nothing: no directory can be made there",
            id="no work dir",
        ),
        # Under the wheel's tritonserver, really: our own environment has numpy 2.
        pytest.param(
            "SERVE_BACKEND_PYTHON", sys.executable, "install 'numpy<2' there", id="numpy 2"
        ),
    ],
)
def test_what_keeps_it_from_starting(
    setting: str, value: str, sentence: str, tmp_path: Path
) -> None:
    """It ends with 1, and the last line of its log says why."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        facts = {"here": tmp_path, "taken": taken.getsockname()[1]}
        container = launch(tmp_path, **{setting: value.format(**facts)})
        try:
            assert container.wait() == 1
            assert sentence.format(**facts) in container.log.strip().splitlines()[-1]
        finally:
            container.close()


@contextmanager
def _idle(directory: Path) -> Iterator[Container]:
    with running(directory, **fake_environment(directory)) as container:
        yield container


@contextmanager
def _launched(container: Container, status: int | None) -> Iterator[Container]:
    """status: of /ping, that is waited for."""
    try:
        if status is not None:
            until(lambda: container.ping() == status, "it listens", container)
        yield container
    finally:
        container.close()


def _before_tritonserver_lives(directory: Path) -> AbstractContextManager[Container]:
    return _launched(launch(directory, **fake_environment(directory, never_live=True)), 503)


def _before_the_models_python_has_answered(directory: Path) -> AbstractContextManager[Container]:
    slow = directory / "slow-python"
    slow.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    slow.chmod(0o755)
    return _launched(launch(directory, SERVE_BACKEND_PYTHON=str(slow)), 503)


def _soon(after_s: float) -> Callable[[Path], AbstractContextManager[Container]]:
    """Somewhere in its start."""

    def start(directory: Path) -> AbstractContextManager[Container]:
        container = launch(directory)
        time.sleep(after_s)
        return _launched(container, None)

    return start


@contextmanager
def _while_a_model_hangs(directory: Path) -> Iterator[Container]:
    environment = fake_environment(directory, infer={"*": {"hang": True}})
    soon = told(Constants(drain_timeout_s=1, triton_stop_timeout_s=1.0))
    with running(directory, **soon, **environment) as container:
        archive = models.write_archive(container.model_root / "one/model", {"m": models.identity})
        assert container.load("m1", archive).status_code == 200
        with ThreadPoolExecutor(1) as pool:
            invoking = pool.submit(container.invoke, "m1", infer([1]))
            until(lambda: _is_asked(directory, "infer"), "the model runs", container)
            yield container
            assert invoking.exception() or invoking.result().status_code >= 500


@contextmanager
def _while_a_load_hangs(directory: Path) -> Iterator[Container]:
    environment = fake_environment(directory, load={"*": {"hang": True}})
    with running(directory, **environment) as container:
        archive = models.write_archive(container.model_root / "one/model", {"m": models.identity})
        with ThreadPoolExecutor(1) as pool:
            loading = pool.submit(container.load, "m1", archive)
            until(lambda: _is_asked(directory, "load"), "the model is being loaded", container)
            yield container
            assert loading.result().status_code == 503
            assert "stopping" in complaint(loading.result())


def _is_asked(directory: Path, event: str) -> bool:
    return any(it["event"] == event for it in read_record(directory / "record"))


@pytest.mark.parametrize(
    ("moment", "number", "statuses"),
    [
        pytest.param(_idle, signal.SIGTERM, {0}, id="SIGTERM when idle"),
        pytest.param(_idle, signal.SIGINT, {0}, id="SIGINT when idle"),
        pytest.param(_before_tritonserver_lives, signal.SIGTERM, {0}, id="before it lives"),
        pytest.param(
            _before_the_models_python_has_answered, signal.SIGTERM, {0}, id="a slow interpreter"
        ),
        pytest.param(_while_a_model_hangs, signal.SIGTERM, {0}, id="a model hangs"),
        pytest.param(_while_a_load_hangs, signal.SIGTERM, {0}, id="a load hangs"),
        *(
            # Before Python itself runs, it is the signal that ends it.
            pytest.param(
                _soon(s),
                signal.SIGTERM,
                {0, -signal.SIGTERM, ENDED_WHILE_IMPORTED},
                id=f"after {s} s",
            )
            for s in (0.05, 0.15, 0.3, 0.5, 0.8)
        ),
    ],
)
def test_signals(
    moment: Callable[[Path], AbstractContextManager[Container]],
    number: signal.Signals,
    statuses: set[int],
    tmp_path: Path,
) -> None:
    """Whenever one comes, the container ends in good order, and nothing of it is left."""
    with moment(tmp_path) as container:
        container.descendants()
        container.signal(number)
        assert container.wait() in statuses


@pytest.mark.parametrize(
    ("triton", "asked"),
    [("2.51", 0), ("2.51", 2), ("2.36", 0), ("2.36", 2)],
    indirect=["triton"],
)
def test_ports(asked: int, triton: Mapping[str, str], tmp_path: Path) -> None:
    """Those that are asked for, in the safe range and on loopback alone; else none but the main."""
    low = free_port()
    environment = {
        "SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 20}",
        "SAGEMAKER_TRITON_ALLOW_METRICS": str(bool(asked)).lower(),
        "SAGEMAKER_TRITON_ALLOW_GRPC": str(bool(asked)).lower(),
        "SERVE_BIND_ADDRESS": "0.0.0.0",
    }
    with running(tmp_path, **triton, **environment) as container:
        metrics = functools.partial(container.http.get, "/metrics")
        until(lambda: "\nnv_" in metrics().text, "tritonserver's numbers come in time", container)
        main = listening(frozenset({container.process.pid}))
        assert main == {("00000000", container.port)}
        others = listening(frozenset(process.pid for process in container.descendants()))
        assert {address for address, _ in others} <= LOOPBACK
        ports = {port for _, port in others}
        assert len(ports) == asked
        assert all(low <= port <= low + 20 for port in ports)
        assert container.port not in ports


def test_sigterm_finishes_what_is_in_flight(triton: Mapping[str, str], tmp_path: Path) -> None:
    """SIGTERM: the request in flight is answered, no new connection is taken, exit code 0."""
    with running(tmp_path, **triton, **told(Constants(drain_timeout_s=60))) as container:
        marker, go = tmp_path / "marker", tmp_path / "go"
        model = models.batching(marker, go)
        directory = models.write_archive(container.model_root / "one/model", {"m": model})
        assert container.load("m1", directory).status_code == 200
        one = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [2.0]}]}
        with ThreadPoolExecutor(1) as pool:
            invoking = pool.submit(container.invoke, "m1", one)
            until(marker.exists, "the model runs")
            container.descendants()
            container.signal(signal.SIGTERM)
            until(lambda: not _accepts(container), "it accepts no more")
            assert not invoking.done()
            go.touch()
            assert values(invoking.result()) == [2.0]
        assert container.wait() == 0


def _accepts(container: Container) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{container.port}/ping", timeout=60, trust_env=False)
    except httpx.TransportError:
        return False
    return True


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


def test_what_a_killed_container_left_is_cleared_at_the_next_start(tmp_path: Path) -> None:
    """Its files and its shared memory, while a third one at the same place goes on.

    What it had captured is there, whole. tritonserver makes such memory; a fake one is enough for
    the others.
    """
    fake = fake_environment(tmp_path, computes=True)
    captures = tmp_path / "captures"
    capturing = {"SERVE_CAPTURE": str(captures)}
    archive = models.write_archive(tmp_path / "models/a/model", {"m": models.identity})
    with running(tmp_path / "third", TMPDIR=str(tmp_path / "w"), **fake) as third:
        killed = launch(tmp_path, **capturing)
        try:
            until(lambda: killed.ping() == 200, "it has started", killed)
            assert killed.load("m", archive).status_code == 200
            assert values(killed.invoke("m", infer([2]))) == [2.0]
            until(lambda: [it for it in captures.rglob("*.part") if it.stat().st_size], "a line")
            killed.descendants()
            killed.signal(signal.SIGKILL)
            killed.wait()
            assert killed.regions()
            assert len(killed.runs()) == 2
            assert not [*captures.rglob("*.jsonl")]
            with running(tmp_path, **fake, **capturing) as second:
                (captured,) = captures.rglob("*.jsonl")
                assert captured.read_text().count("[2]") == 1
                assert not killed.regions()
                assert len(second.runs()) == 2
                assert "a killed container's files are removed" in second.log
                with second.loaded("m", archive):
                    assert values(second.invoke("m", infer([1]))) == [1.0]
                assert third.ping() == 200
                second.signal(signal.SIGTERM)
                assert second.wait() == 0
                assert len([*captures.rglob("*.jsonl")]) == 2
                assert len(second.runs()) == 1
                third.signal(signal.SIGTERM)
                assert third.wait() == 0
        finally:
            killed.http.close()
            killed.discard()


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
