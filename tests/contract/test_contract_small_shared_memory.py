"""A small /dev/shm: what it holds, what happens once it is full, and what dead stubs leave in it.

It is a real one, in a mount namespace of the container's own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.reliability.attacked import Room, attacked
from tests.support import models
from tests.support.container import Container, until
from tests.support.protocol import complaint, infer, values

pytestmark = pytest.mark.thorough

MIB = 1024 * 1024
#: Docker's default.
SIZE_MB = 64
#: Models that are asked for; each takes a region of 1 MB.
ASKED = 200
#: Values of a request that a region of 1 MB does not hold.
LARGE = infer([1.0] * 400_000)
#: A stub's region; in so small a /dev/shm it would be less.
REGION = 16 * MIB
REGIONS = {"SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": str(REGION)}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container that sees no other /dev/shm."""
    room = Room(shared_memory=SIZE_MB * MIB)
    with attacked(tmp_path_factory.mktemp("small"), room) as server:
        if not server.has_own_file_systems:
            pytest.skip("a /dev/shm of its own needs the right to mount")
        yield server.container


def write(container: Container, number: int) -> Path:
    place = container.model_root / f"a{number}/model"
    return models.write_archive(place, {"m": models.adder(number)})


def free_bytes(container: Container) -> int:
    """Of its /dev/shm."""
    found = os.statvfs(f"/proc/{container.process.pid}/root/dev/shm")
    return found.f_bavail * found.f_frsize


def load_all(container: Container, numbers: range) -> dict[int, httpx.Response]:
    """Several at once, as the platform does."""
    places = {number: write(container, number) for number in numbers}
    with ThreadPoolExecutor(8) as callers:
        asked = callers.map(lambda number: container.load(f"m{number}", places[number]), numbers)
        return dict(zip(numbers, asked, strict=True))


def unload_all(container: Container) -> None:
    with ThreadPoolExecutor(16) as callers:
        found = callers.map(container.unload, container.models())
        assert {answer.status_code for answer in found} == {200}
    until(lambda: free_bytes(container) >= (SIZE_MB - 1) * MIB, "all regions are gone", container)


def answers_rightly(container: Container, numbers: list[int]) -> bool:
    asked = [values(container.invoke(f"m{number}", infer([1]))) for number in numbers]
    return asked == [[1.0 + number] for number in numbers]


def test_two_hundred_models(small: Container) -> None:
    """As many have room as there are MB; one more is a 507 that says so, and harms none:
    tritonserver lives, all that are loaded answer rightly, also after a request that has no room.
    Once they are unloaded others have their room.

    The start says how large it is, which no document of SageMaker's does; regions are then as
    small as Triton makes them.
    """
    assert 'shared_memory="64 MB, 1 MB for each instance of a Python model"' in small.log
    server = small.triton()
    found = load_all(small, range(ASKED))
    loaded = [number for number, answer in found.items() if answer.status_code == 200]
    refused = [number for number in found if number not in loaded]
    assert len(loaded) >= 60
    assert {found[number].status_code for number in refused} == {507}
    assert all("/dev/shm" in complaint(found[number]) for number in refused)
    assert answers_rightly(small, loaded)
    full = small.invoke(f"m{loaded[0]}", LARGE)
    assert full.status_code == 507, full.text
    assert "--shm-size" in complaint(full)
    assert answers_rightly(small, loaded)
    assert sorted(small.models()) == sorted(f"m{number}" for number in loaded)
    unload_all(small)
    with small.loaded("next", small.model_root / f"a{refused[0]}/model"):
        assert values(small.invoke("next", LARGE)) == [1.0 + refused[0]] * 400_000
    assert small.triton() == server


class Caller(threading.Thread):
    """Asks a model that adds one, again and again, until told to stop."""

    def __init__(self, container: Container) -> None:
        super().__init__(daemon=True)
        self._container, self._over = container, threading.Event()
        self.answered = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self._over.is_set():
            answer = self._container.invoke("good", infer([self.answered]))
            if answer.status_code == 200 and values(answer) == [self.answered + 1.0]:
                self.answered += 1
            else:
                self.wrong.append(answer.text)

    def stop(self) -> None:
        self._over.set()
        self.join()


def test_stubs_that_die_fill_dev_shm(tmp_path: Path) -> None:
    """tritonserver 2.51 keeps 16 MB of each: a load gets them back, and neighbours wait at most."""
    with attacked(tmp_path, Room(shared_memory=5 * REGION), REGIONS) as server:
        if not server.has_own_file_systems:
            pytest.skip("a /dev/shm of its own needs the right to mount")
        container, there = server.container, server.inside(Path("/dev/shm"))
        root = container.model_root
        good = models.write_archive(root / "good/model", {"m": models.adder(1)})
        dying = models.write_archive(root / "dying/model", {"m": models.killing})
        assert container.load("good", good).status_code == 200
        assert container.load("dying", dying).status_code == 200
        for _ in range(3):
            assert container.invoke("dying", infer([1])).status_code >= 500
        room = os.statvfs(there)
        assert room.f_bavail * room.f_frsize < REGION
        first = server.triton()
        caller = Caller(container)
        caller.start()
        loaded = container.load("next", good)
        caller.stop()
        assert loaded.status_code == 200, loaded.text
        assert server.triton() != first
        assert caller.answered
        assert caller.wrong == []
        assert container.invoke("next", infer([1])).status_code == 200
        until(lambda: "it is replaced to make room" in container.log, "the log says so", container)
        assert container.log.count("it is replaced to make room") == 1
