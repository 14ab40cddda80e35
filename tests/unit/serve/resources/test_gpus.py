"""GPU memory by NVML: asked in bounded time, of drivers of every kind."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from serve.resources.gpus import UNKNOWN, GpuMemory, Gpus
from tests.support.clock import Clock


class NvmlFailed(Exception):
    """What the library raises."""


@dataclass
class Library:
    """NVML as its binding shows it: one row a GPU, of (free, used), or of rows for its parts."""

    rows: list[Any] = field(default_factory=list)
    hang: threading.Event | None = None
    broken: bool = False
    inits: int = 0
    NVMLError: type[Exception] = NvmlFailed

    def nvmlInit(self) -> None:
        self.inits += 1
        if self.broken:
            raise NvmlFailed("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        if self.hang is not None:
            self.hang.wait(30)
        return len(self.rows)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> Any:
        return self.rows[number]

    def nvmlDeviceGetMigMode(self, device: Any) -> tuple[int, int]:
        if device == "old":
            raise NvmlFailed("Not Supported")
        return (1, 1) if isinstance(device, list) else (0, 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, device: Any) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: Any, number: int) -> Any:
        if number >= len(device):
            raise NvmlFailed("Not Found")
        return device[number]

    def nvmlDeviceGetMemoryInfo(self, device: Any) -> Any:
        if isinstance(device, (str, list)):
            raise NvmlFailed("Not Supported")
        return type("Memory", (), {"free": device[0], "used": device[1]})


async def test_each_gpu() -> None:
    """By its number; the library is begun once."""
    library = Library([(10, 1), (20, 2)])
    gpus = Gpus(lambda: library)
    for _ in range(3):
        assert await gpus.memory() == {0: GpuMemory(10, 1), 1: GpuMemory(20, 2)}
    assert library.inits == 1


async def test_a_gpu_that_is_split() -> None:
    """Its parts count, as many as there are; one without any counts as itself."""
    gpus = Gpus(lambda: Library([[(5, 1), (6, 2)], (20, 2), []]))
    assert list((await gpus.memory()).values()) == [
        GpuMemory(5, 1),
        GpuMemory(6, 2),
        GpuMemory(20, 2),
        UNKNOWN,
    ]


async def test_a_gpu_that_does_not_tell() -> None:
    """One that shares the machine's memory lacks none; an old one cannot be split."""
    assert await Gpus(lambda: Library(["old"])).memory() == {0: UNKNOWN}


def _no_module() -> Any:
    raise ModuleNotFoundError("No module named 'pynvml'")


@pytest.mark.parametrize("library", [_no_module, lambda: Library(broken=True), lambda: object()])
async def test_a_machine_without(library: Any) -> None:
    """No library, no driver, or another library of that name: no GPUs, and not asked again."""
    asked = []

    def imported() -> Any:
        asked.append(1)
        return library()

    gpus = Gpus(imported)
    assert [await gpus.memory(), await gpus.memory()] == [{}, {}]
    assert len(asked) == 1


async def test_a_driver_that_fails_later() -> None:
    """Nothing is known for as long as it does."""
    library = Library([(10, 1)])
    gpus = Gpus(lambda: library)
    await gpus.memory()
    rows, library.rows = library.rows, [None]
    assert await gpus.memory() == {}
    library.rows = rows
    assert await gpus.memory() == {0: GpuMemory(10, 1)}


async def test_a_driver_that_hangs(clock: Clock) -> None:
    """One load waits for it, a bounded time; others go on at once, and none piles up threads."""
    hang = threading.Event()
    gpus = Gpus(lambda: Library([(10, 1)], hang), timeout_s=60)
    asked = asyncio.ensure_future(gpus.memory())
    await asyncio.sleep(0.01)
    assert not asked.done()
    clock.advance(61)
    assert await asked == {}
    for _ in range(20):  # who waited would do so for minutes
        assert await gpus.memory() == {}
    assert [thread.name for thread in threading.enumerate()].count("nvml") == 1
    hang.set()
    deadline = time.monotonic() + 60
    while (found := await gpus.memory()) == {} and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # a thread makes it true
    assert found == {0: GpuMemory(10, 1)}


async def test_callers_together_ask_once() -> None:
    """One that is cancelled takes nothing from the others."""
    library = Library([(10, 1)])
    gpus = Gpus(lambda: library)
    calls = [asyncio.ensure_future(gpus.memory()) for _ in range(10)]
    await asyncio.sleep(0)
    calls[0].cancel()
    assert await asyncio.gather(*calls[1:]) == [{0: GpuMemory(10, 1)}] * 9
    assert library.inits == 1


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of the binding's name where Python looks first."""
    (tmp_path / "pynvml.py").write_text(
        "class NVMLError(Exception): pass\n"
        "class Memory: free, used = 7, 3\n"
        "def nvmlInit(): pass\n"
        "def nvmlDeviceGetCount(): return 1\n"
        "def nvmlDeviceGetHandleByIndex(number): return number\n"
        "def nvmlDeviceGetMigMode(device): raise NVMLError\n"
        "def nvmlDeviceGetMemoryInfo(device): return Memory\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    before = sys.modules.pop("pynvml", None)
    yield
    sys.modules.pop("pynvml", None)
    if before is not None:
        sys.modules["pynvml"] = before


@pytest.mark.usefixtures("on_path")
async def test_the_library_is_found_by_its_name() -> None:
    """nvidia-ml-py is imported as pynvml, and only when it is asked."""
    assert await Gpus().memory() == {0: GpuMemory(7, 3)}


async def test_the_real_library() -> None:
    """On a machine without a GPU it says so, and nothing is known; with one it is known."""
    assert all(memory.free > 0 for memory in (await Gpus().memory()).values())
