"""Loads, unloads and the container's end do not wait for what never ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import Container, running, until
from tests.support.protocol import complaint, infer, values
from tests.support.quick_container import told

LOAD_TIMEOUT_S = 10.0
UNLOAD_TIMEOUT_S = 5.0
INVOKE_TIMEOUT_S = 6.0
FOREVER_S = 3600.0


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container of its own with short limits, and a model that must not notice anything."""
    environment: Mapping[str, str] = {
        "SERVE_LOAD_TIMEOUT": f"{LOAD_TIMEOUT_S:g}",
        "SERVE_INVOKE_TIMEOUT": f"{INVOKE_TIMEOUT_S:g}",
        "SERVE_MEMORY_RESERVE_MB": "0",
    }
    short = Constants(unload_timeout_s=UNLOAD_TIMEOUT_S, restart_limit=0)
    with running(tmp_path_factory.mktemp("bounded"), **told(short), **environment) as container:
        archive = write(container, "neighbour", models.adder(3))
        with container.loaded("neighbour", archive):
            yield container


def write(container: Container, name: str, model: models.Writable) -> Path:
    return models.write_archive(container.model_root / name / "model", {"m": model})


def neighbour_answers(container: Container) -> bool:
    answer = container.invoke("neighbour", infer([1]))
    return answer.status_code == 200 and values(answer) == [4.0]


def test_loads_that_never_end(bounded: Container, tmp_path: Path) -> None:
    """Six at once, more than tritonserver has threads to load with: each is given up in its time.

    Its process is ended, nothing of it stays, tritonserver goes on and loads for others.
    """
    before, first = bounded.snapshot(), bounded.triton()
    hanging = models.late(FOREVER_S, tmp_path / "marker")
    archives = [write(bounded, f"hangs{n}", hanging) for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        loads = [pool.submit(bounded.load, f"h{n}", path) for n, path in enumerate(archives)]
        assert neighbour_answers(bounded)
        answers = [load.result() for load in loads]
    for answer in answers:
        assert answer.status_code == 504, answer.text
        assert "SERVE_LOAD_TIMEOUT" in complaint(answer)
    with bounded.loaded("good", write(bounded, "good", models.adder(1))):
        assert values(bounded.invoke("good", infer([1]))) == [2.0]
    until(lambda: bounded.snapshot() == before, "nothing is left", bounded)
    assert bounded.triton() == first
    assert neighbour_answers(bounded)


def test_an_unload_behind_requests_that_never_end(bounded: Container, tmp_path: Path) -> None:
    """Their callers are gone, so the model's process is ended, and the unload is one."""
    before = bounded.snapshot()
    marker = tmp_path / "marker"
    archive = write(bounded, "sleeps", models.slow(marker))
    assert bounded.load("sleeps", archive).status_code == 200
    with ThreadPoolExecutor(3) as pool:
        sent = [pool.submit(bounded.invoke, "sleeps", infer([FOREVER_S])) for _ in range(3)]
        assert [future.result().status_code for future in sent] == [504] * 3
    assert marker.exists()
    answer = bounded.unload("sleeps")
    assert answer.status_code == 200, answer.text
    assert bounded.stubs() == before.stubs
    assert bounded.published() == before.published
    assert neighbour_answers(bounded)
    with bounded.loaded("sleeps", archive):  # the name can be used again
        assert values(bounded.invoke("sleeps", infer([0.0]))) == [0.0]


def test_a_tritonserver_that_stands_still(bounded: Container, tmp_path: Path) -> None:
    """It answers neither the load nor anything else: it is replaced, and its models come back.

    That is no death: this container is allowed none.
    """
    first, marker = bounded.triton(), tmp_path / "marker"
    late = write(bounded, "late", models.late(LOAD_TIMEOUT_S / 2, marker))
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(bounded.load, "late", late)
        until(marker.exists, "it loads", bounded)
        os.kill(first, signal.SIGSTOP)
        answer = load.result()
    assert answer.status_code == 504, answer.text
    until(lambda: bounded.ping() == 200, "/ping is 200 again", bounded)
    assert bounded.triton() != first
    until(lambda: neighbour_answers(bounded), "its models are back", bounded)
    with bounded.loaded("late", late):  # it is a suspect, and cleared
        assert values(bounded.invoke("late", infer([1]))) == [1.0]
    assert bounded.published() == {"neighbour"}


def test_sigterm_in_a_load_that_never_ends(tmp_path: Path) -> None:
    """What a thread or a model waits for holds up no end."""
    with running(
        tmp_path, **told(Constants(drain_timeout_s=4, triton_stop_timeout_s=2))
    ) as container:
        marker = tmp_path / "marker"
        hanging = write(container, "hangs", models.late(FOREVER_S, marker))
        blocks = write(container, "blocks", models.adder(1))
        (blocks / "m/1/model.py").unlink()
        os.mkfifo(blocks / "m/1/model.py")
        with ThreadPoolExecutor(2) as pool:
            loads = [
                pool.submit(container.load, "hangs", hanging),
                pool.submit(container.load, "blocks", blocks),
            ]
            until(marker.exists, "it loads", container)
            container.signal(signal.SIGTERM)
            assert container.wait() == 0
            assert {load.result().status_code for load in loads} <= {400, 503}
