"""What tritonserver keeps of stubs that died does not shut others out."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.reliability.attacked import Room, attacked
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import infer, values

pytestmark = pytest.mark.thorough

MIB = 1024 * 1024
#: A stub's region; in so small a /dev/shm it would be less.
REGION = 16 * MIB
REGIONS = {"SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": str(REGION)}


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
        assert server.container.log.count("it is replaced to make room") == 1
