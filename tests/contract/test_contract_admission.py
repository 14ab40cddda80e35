"""More models than there is memory for, in a real memory control group: the kernel kills none.

Where no group can be made (no root, control groups that are read-only) the same is held by
tests/unit/serve/models/test_admission.py, on a machine made of files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support import control_group, models
from tests.support.container import Container, launch, until
from tests.support.control_group import MemoryGroup
from tests.support.protocol import complaint, infer, values

MIB = 1024 * 1024
MODELS, ROOM, RESERVE_MB = 9, 3, 96
#: A bare stub with its libraries' data, its region, 100 MB of its own, and what is beside it.
EACH = (100 + 24 + 16 + 4) * MIB
#: Fills 100 MB in steps, as weights are read.
HOLDING = """
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        self.held = []
        for _ in range(10):
            self.held.append(b"x" * (10 << 20))
            time.sleep(0.02)

    def answer(self, request, values):
        return respond(request, values + float(self.words["addend"]))
"""


@dataclass
class Platform:
    """Loads what is asked for; on a 507 it unloads the model that was used longest ago."""

    container: Container
    archives: list[Path]
    used: list[int] = field(default_factory=list)
    wanted: set[int] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, number: int) -> list[object]:
        """The answer of a model, which is loaded for it if need be."""
        with self.lock:
            self.wanted.add(number)
        if number not in self.used:
            self._load(number)
        answer = self.container.invoke(f"m{number}", infer([1]))
        with self.lock:
            self.used.remove(number)
            self.used.append(number)
            self.wanted.discard(number)
        assert answer.status_code == 200, answer.text
        return values(answer)

    def _load(self, number: int) -> None:
        while True:
            answer = self.container.load(f"m{number}", self.archives[number])
            if answer.status_code == 200:
                break
            if answer.status_code == 409 and "is already being unloaded" in answer.text:
                time.sleep(0.1)  # another caller makes room with it
                continue
            assert answer.status_code == 507, answer.text
            self.refusals.append(complaint(answer))
            self._unload_one()
        with self.lock:
            self.used.append(number)

    def _unload_one(self) -> None:
        with self.lock:
            idle = [number for number in self.used if number not in self.wanted]
            if idle:
                self.used.remove(idle[0])
        if idle:
            assert self.container.unload(f"m{idle[0]}").status_code == 200
        else:
            time.sleep(0.1)  # those that are wanted have to answer first


@pytest.fixture(scope="module")
def limited(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Container, MemoryGroup]]:
    """A container in a group that has room for a few such models beside the servers."""
    if not control_group.may_be_made():
        pytest.skip("no memory control group can be made here; needs root and a writable cgroup")
    with control_group.memory_group() as group:
        assert group is not None
        directory = tmp_path_factory.mktemp("limited")
        container = launch(directory, SERVE_MEMORY_RESERVE_MB=str(RESERVE_MB))
        try:
            group.add(container.process.pid)
            until(lambda: container.ping() == 200, "/ping is 200", container)
            group.limit(group.usage + RESERVE_MB * MIB + ROOM * EACH + EACH // 2)
            yield container, group
        finally:
            container.close()


def test_no_load_ends_with_a_kill(limited: tuple[Container, MemoryGroup]) -> None:
    """All are asked for at once: each answers rightly, and refusals say what was lacking.

    Once more for some of them, when the loads before have told what such a model takes.
    """
    container, group = limited
    archives = [
        models.write_archive(
            container.model_root / f"a{number}/model",
            {"m": models.PythonModel(HOLDING, parameters={"addend": number})},
        )
        for number in range(MODELS)
    ]
    platform = Platform(container, archives)
    with ThreadPoolExecutor(MODELS) as callers:
        for asked in (range(MODELS), range(2)):
            answers = list(callers.map(platform.ask, asked))
            assert answers == [[1.0 + number] for number in asked]
    assert group.kills == 0
    assert platform.refusals
    assert all("memory to load the model m" in refusal for refusal in platform.refusals)
    assert 2 <= len(container.models()) <= ROOM + 1
    for name in container.models():
        assert container.unload(name).status_code == 200
