"""The cpu image in real containers, under what Docker sets around it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest

from tests.docker.images import Built
from tests.docker.running import START_TIMEOUT_S, Served, deliver, delivered_url, serving
from tests.support.models import IDENTITY, SLOW, PythonModel
from tests.support.protocol import infer, values

MIB = 1024 * 1024


#: One process each.
EXPORTS = ("dense", "session", "ragged", "two_workflows")


@pytest.fixture(scope="module")
def plain(
    engine: docker.DockerClient, images: Built, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A container with docker's own defaults: 64 MiB of /dev/shm, no limits."""
    models = deliver(tmp_path_factory.mktemp("models"), *EXPORTS)
    with serving(engine, images.cpu, models) as served:
        yield served


def test_merlins_numbers_in_dockers_own_shared_memory(plain: Served) -> None:
    """Its 64 MiB of /dev/shm hold sixty such processes, 1 MiB each."""
    for name in EXPORTS:
        answer = plain.load(name)
        assert answer.status_code == 200, answer.text
        plain.check_numbers(name)
    assert plain.load("fifth", delivered_url("dense")).status_code == 200


def test_no_room_for_a_fifth(engine: docker.DockerClient, images: Built, tmp_path: Path) -> None:
    """4 MiB of /dev/shm hold four exports; the next is a 507 that names --shm-size.

    When one of the four is unloaded, the fifth one fits.
    """
    models = deliver(tmp_path / "models", *EXPORTS)
    with serving(engine, images.cpu, models, shm_size="4m") as small:
        for name in EXPORTS:
            assert small.load(name).status_code == 200
        refused = small.load("fifth", delivered_url("dense"))
        assert refused.status_code == 507
        assert "--shm-size" in refused.json()["error"]
        small.check_numbers("session")

        assert small.http.delete("/models/session").status_code == 200
        assert small.load("fifth", delivered_url("dense")).status_code == 200
        for name in EXPORTS:
            if name != "session":
                small.check_numbers(name)


def test_the_models_volume_is_read_only(plain: Served) -> None:
    """Loads and invocations write nothing beside the models: they cannot."""
    code, output = plain.container.exec_run(["touch", "/opt/ml/models/dense/model/mark"])
    assert code != 0
    assert b"Read-only file system" in output


def small(models: Path, name: str, source: str) -> None:
    """A model of a few lines, delivered under its name."""
    PythonModel(source).write(models / name / "model" / name)


def test_stops_with_a_request_in_flight(
    engine: docker.DockerClient, images: Built, tmp_path: Path
) -> None:
    """SIGTERM: the request in its hands is answered, then it ends with 0, inside 30 s."""
    marker = "/tmp/asked"
    PythonModel(SLOW, parameters={"marker": marker}).write(tmp_path / "slow/model/slow")
    with serving(engine, images.cpu, tmp_path) as served, ThreadPoolExecutor(1) as caller:
        assert served.load("slow").status_code == 200
        asked = caller.submit(served.invoke, "slow", infer([4.0, 7.0]))
        until(served, marker)
        assert served.stop() == 0
        assert values(asked.result()) == [4.0, 7.0]


def until(served: Served, marker: str) -> None:
    """A file appears in the container."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while served.container.exec_run(["test", "-e", marker])[0]:
        assert time.monotonic() < deadline, f"{marker} did not appear"


def test_read_only_root(engine: docker.DockerClient, images: Built, tmp_path: Path) -> None:
    """Read-only, and as a user that nobody knows: a tmpfs for /tmp is all it needs.

    Docker mounts one without the right to execute, and the python backend is copied there: `exec`.
    """
    small(tmp_path, "same", IDENTITY)
    with serving(
        engine, images.cpu, tmp_path, read_only=True, tmpfs={"/tmp": "exec"}, user="12345:12345"
    ) as served:
        answer = served.load("same")
        assert answer.status_code == 200, answer.text
        assert values(served.invoke("same", infer([1.0, 2.5]))) == [1.0, 2.5]
        assert served.stop() == 0


def test_a_memory_limit_is_a_507(
    engine: docker.DockerClient, images: Built, tmp_path: Path
) -> None:
    """In a container of 1500 MiB the third export is refused before the kernel has to kill.

    The limit is docker's, not the machine's: the container reads its own control group.
    """
    deliver(tmp_path, "dense", "session", "ragged")
    # Compiled, or forked from warm interpreters, all three fit.
    environment = {"SERVE_COMPILE": "off", "SERVE_WARM": "off"}
    options = {**limited(1500), "shm_size": "256m", "environment": environment}
    with serving(engine, images.cpu, tmp_path, **options) as served:
        assert served.load("dense").status_code == 200
        assert served.load("session").status_code == 200
        refused = served.load("ragged")
        assert refused.status_code == 507
        assert "SERVE_MEMORY_RESERVE_MB" in refused.json()["error"]
        served.check_numbers("dense")
        served.check_numbers("session")
        assert kernel_kills(served) == 0


def test_the_kernel_kills_a_model(
    engine: docker.DockerClient, images: Built, tmp_path: Path
) -> None:
    """A model that takes more than the limit loses its process: its caller gets a 5xx.

    The container and the other models live on; the model that was killed is loaded again.
    """
    small(tmp_path, "same", IDENTITY)
    small(tmp_path, "greedy", GREEDY)
    with serving(engine, images.cpu, tmp_path, **limited(500)) as served:
        for name in ("same", "greedy"):
            assert served.load(name).status_code == 200
        assert values(served.invoke("greedy", infer([10.0]))) == [10.0]
        killed = served.invoke("greedy", infer([2000.0]))
        assert killed.status_code >= 500, killed.text
        assert kernel_kills(served) > 0
        assert values(served.invoke("same", infer([3.0]))) == [3.0]
        assert values(served.invoke("greedy", infer([10.0]))) == [10.0]


#: Fills as many MiB as the first value says.
GREEDY = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        taken = np.ones(int(values[0]) * 1024 * 1024, dtype=np.uint8)
        return respond(request, values[: len(taken)])
"""


def limited(size: int) -> dict[str, int]:
    """A container's memory in MiB, and no swap beside it."""
    return {"mem_limit": size * MIB, "memswap_limit": size * MIB}


def kernel_kills(served: Served) -> int:
    """How many of the container's processes the kernel has killed for memory (both cgroups)."""
    script = "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>&-"
    counts = served.container.exec_run(["sh", "-c", script])[1].decode().splitlines()
    (count,) = (line.split()[1] for line in counts if line.startswith("oom_kill "))
    return int(count)
