"""/ping is 503 while nobody can be served, however that came, and 200 as soon as somebody can."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from container.constants import Constants
from tests.support import control_group, models
from tests.support.container import Container, launch, running, until
from tests.support.control_group import MemoryGroup
from tests.support.fake_triton import fake_environment
from tests.support.models import PythonModel
from tests.support.protocol import complaint, infer, values
from tests.support.quick_container import told
from tests.support.slow_triton import slow_to_start_again

MIB = 1024 * 1024
START_TIMEOUT_S = 15.0
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


@pytest.mark.tritonserver
def test_a_tritonserver_that_does_not_come_back(tmp_path: Path) -> None:
    """503 as soon as it is gone; when its time to start is over, the container ends and says so."""
    slow = slow_to_start_again(tmp_path, None, slower_s=600)
    short = Constants(start_timeout_s=START_TIMEOUT_S)
    container = launch(tmp_path, **told(short), SERVE_TRITON_SERVER=slow)
    try:
        until(lambda: container.ping() == 200, "/ping is 200", container)
        assert container.load("m1", write(container, "one", models.adder(1))).status_code == 200
        os.kill(container.triton(), signal.SIGKILL)
        killed_at = time.monotonic()
        until(lambda: container.ping() == 503, "/ping is 503", container)
        container.descendants()
        pings = set()

        def ended() -> bool:
            pings.add(container.ping())
            return container.process.poll() is not None

        until(ended, "it has ended")
        assert pings <= {503, 0}
        assert time.monotonic() - killed_at >= START_TIMEOUT_S
        assert container.wait() == 1
        last = container.log.strip().splitlines()[-1]
        assert f"CRITICAL tritonserver was not live after {START_TIMEOUT_S:g} s" in last
        well, sick = changes(container)
        assert WELL in well
        assert 'reason="tritonserver is not live"' in sick
    finally:
        container.close()


@pytest.mark.parametrize("mode", ["live", "ready"])
def test_a_tritonserver_that_is_not_ready(mode: str, tmp_path: Path) -> None:
    """From 26.04 on one model's dead stub makes tritonserver unready: no other model pays for it.

    Names that such a tritonserver refuses are not among those that it is given.
    """
    environment = fake_environment(tmp_path, dead_stubs=["m1"], refuses_names=True)
    environment |= {"SAGEMAKER_TRITON_PING_MODE": mode}
    with running(tmp_path, **told(SHORT), **environment) as container:
        archive = write(container, "one", models.identity)
        assert container.load("m1", archive).status_code == 200
        assert container.ping() == 200
        assert container.invoke("m1", infer([1])).status_code == 500
        named = PythonModel(models.IDENTITY, more='instance_group { name: "two words & one" }')
        steps = {"a..b": named, "x;y": models.identity, "~ü": models.identity}
        where = container.model_root / "two/model"
        where = models.write_archive(where, {**steps, "all": models.Chain(tuple(steps))})
        assert container.load("..other.one.", where).status_code == 200
        assert container.invoke("..other.one.", infer([1])).status_code == 200
        assert container.ping() == 200
        assert len(changes(container)) == 1


@pytest.mark.parametrize("mode", ["live", "ready"])
def test_no_model_comes_back(mode: str, tmp_path: Path) -> None:
    """503 in both modes; a model that is loaded shows that others can be served."""
    dead = {"status": 500, "message": "Stub process 'm1_0_0' is not healthy.", "times": 1}
    lacking = {"message": "out of memory", "code": "INTERNAL", "after": 1}
    environment = fake_environment(tmp_path, infer={"m1": dead}, load={"m1": lacking})
    environment |= {"SAGEMAKER_TRITON_PING_MODE": mode}
    with running(tmp_path, **told(SHORT), **environment) as container:
        archive = write(container, "one", models.identity)
        assert container.load("m1", archive).status_code == 200
        ask_until_sick(container, "m1")
        assert container.http.get("/ping").content == b""
        assert container.load("m2", archive).status_code == 200
        assert container.ping() == 200
        assert container.invoke("m1", infer([1])).status_code == 507
        assert container.ping() == 200
        until(lambda: len(changes(container)) == 3, "the log says so")
        *_, sick, well = changes(container)
        assert "no model that was lost could be loaded again: no resources" in sick
        assert "out of memory" in sick
        assert WELL in well
        until(lambda: len(changes(container)) == 3, "the log says so")


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
