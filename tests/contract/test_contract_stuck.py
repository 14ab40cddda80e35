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

#: Of loads and invocations, which are waited for together: what goes well takes a tenth of it.
TIMEOUT_S = 15.0
UNLOAD_TIMEOUT_S = 5.0
FOREVER_S = 3600.0


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container of its own with short limits, and a model that must not notice anything."""
    environment: Mapping[str, str] = {
        "SERVE_LOAD_TIMEOUT": f"{TIMEOUT_S:g}",
        "SERVE_INVOKE_TIMEOUT": f"{TIMEOUT_S:g}",
        "SERVE_MEMORY_RESERVE_MB": "0",
    }
    short = Constants(unload_timeout_s=UNLOAD_TIMEOUT_S)
    with running(tmp_path_factory.mktemp("bounded"), **told(short), **environment) as container:
        archive = write(container, "neighbour", models.adder(3))
        with container.loaded("neighbour", archive):
            yield container


def write(container: Container, name: str, model: models.Writable) -> Path:
    return models.write_archive(container.model_root / name / "model", {"m": model})


def neighbour_answers(container: Container) -> bool:
    answer = container.invoke("neighbour", infer([1]))
    return answer.status_code == 200 and values(answer) == [4.0]


def test_loads_and_requests_that_never_end(bounded: Container, tmp_path: Path) -> None:
    """Six loads at once, more than tritonserver has threads to load with: each is given up in its
    time, its process ended, and tritonserver goes on and loads for others. So does an unload
    behind requests whose callers are gone: it ends the model's process, and is one."""
    before, first = bounded.snapshot(), bounded.triton()
    marker = tmp_path / "marker"
    sleeps = write(bounded, "sleeps", models.slow(marker))
    assert bounded.load("sleeps", sleeps).status_code == 200
    during = bounded.snapshot()
    hanging = models.late(FOREVER_S, tmp_path / "hanging")
    archives = [write(bounded, f"hangs{n}", hanging) for n in range(6)]
    with ThreadPoolExecutor(9) as pool:
        sent = [pool.submit(bounded.invoke, "sleeps", infer([FOREVER_S])) for _ in range(3)]
        loads = [pool.submit(bounded.load, f"h{n}", path) for n, path in enumerate(archives)]
        assert neighbour_answers(bounded)
        assert [future.result().status_code for future in sent] == [504] * 3
        answers = [load.result() for load in loads]
    for answer in answers:
        assert answer.status_code == 504, answer.text
        assert "SERVE_LOAD_TIMEOUT" in complaint(answer)
    until(lambda: bounded.snapshot() == during, "nothing of the loads is left", bounded)
    assert marker.exists()
    answer = bounded.unload("sleeps")
    assert answer.status_code == 200, answer.text
    assert bounded.stubs() == before.stubs
    assert bounded.published() == before.published
    with bounded.loaded("good", write(bounded, "good", models.adder(1))):
        assert values(bounded.invoke("good", infer([1]))) == [2.0]
    with bounded.loaded("sleeps", sleeps):  # the name can be used again
        assert values(bounded.invoke("sleeps", infer([0.0]))) == [0.0]
    assert bounded.triton() == first
    assert neighbour_answers(bounded)


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
