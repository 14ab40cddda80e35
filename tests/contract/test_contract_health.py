"""/ping is 503 while there is no memory for anybody, and 200 as soon as there is for somebody."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from container.constants import Constants
from tests.support import control_group, models
from tests.support.container import Container, launch, until
from tests.support.control_group import MemoryGroup
from tests.support.protocol import complaint, infer, values
from tests.support.quick_container import told

MIB = 1024 * 1024
AFTER_S = 1.0
SHORT = Constants(unhealthy_after_s=AFTER_S)
SICK, WELL = "unhealthy: /ping answers 503", "healthy: /ping answers 200"


def write(container: Container, name: str, model: models.Writable) -> Path:
    return models.write_archive(container.model_root / name / "model", {"m": model})


def changes(container: Container) -> list[str]:
    """What the log says of /ping, in order."""
    lines = container.log.splitlines()
    return [line for line in lines if SICK in line or f"INFO {WELL}" in line]


def ask_until_sick(container: Container, name: str) -> None:
    """Ask for a model that cannot be loaded again, until /ping is 503."""

    def sick() -> bool:
        answer = container.invoke(name, infer([1]))
        assert answer.status_code == 507, answer.text
        time.sleep(AFTER_S / 10)
        return container.ping() == 503

    until(sick, "/ping is 503", container)


@pytest.fixture
def starved(tmp_path: Path) -> Iterator[tuple[Container, MemoryGroup]]:
    """A container in a memory control group that has no limit yet."""
    if not control_group.may_be_made():
        pytest.skip("no memory control group can be made here; needs root and a writable cgroup")
    with control_group.memory_group() as group:
        assert group is not None
        container = launch(tmp_path, **told(SHORT), SERVE_MEMORY_RESERVE_MB="0")
        try:
            group.add(container.process.pid)
            until(lambda: container.ping() == 200, "/ping is 200", container)
            yield container, group
        finally:
            container.close()


@pytest.mark.tritonserver
def test_no_memory_to_bring_a_model_back(starved: tuple[Container, MemoryGroup]) -> None:
    """200 while an idle neighbour could be served, else 503; and 200 as soon as there is memory."""
    container, group = starved
    assert container.load("idle", write(container, "two", models.adder(3))).status_code == 200
    enough = group.usage + 200 * MIB
    assert container.load("m1", write(container, "one", models.hungry(600))).status_code == 200
    for pid in container.stubs("m1"):
        os.kill(pid, signal.SIGKILL)
    until(lambda: group.usage < enough, "what the stub held is free", container)
    group.limit(enough)
    for _ in range(3):  # more than a second each
        answer = container.invoke("m1", infer([1]))
        assert answer.status_code == 507, answer.text
        assert "memory" in complaint(answer)
        assert container.ping() == 200
    assert values(container.invoke("idle", infer([1]))) == [4.0]
    assert container.unload("idle").status_code == 200
    ask_until_sick(container, "m1")
    group.limit(1 << 40)
    assert values(container.invoke("m1", infer([1]))) == [1.0]
    assert container.ping() == 200
    until(lambda: len(changes(container)) == 3, "the log says so")
