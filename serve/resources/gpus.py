"""How much memory each GPU has, asked of NVIDIA's management library (NVML).

A driver that is ill may keep a call for ever, so each question is asked in a daemon thread of its
own and waited for in bounded time; while one hangs no other is asked, and nothing is known. A
machine without the library, the driver or a GPU has none, which is found out once.

A GPU that is split (MIG) counts as its parts: a process sees one of them, and its parent does not
tell of memory. GPUs are numbered as NVML does, by their position on the bus.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from serve.threads import NoThread, run_in_daemon_thread

#: Asking takes a millisecond; a driver that wakes a GPU may take a second.
TIMEOUT_S = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of one GPU."""

    free: int
    used: int


class Gpus:
    """The GPUs of this machine. library: imports NVML's binding, whose types are foreign."""

    def __init__(
        self,
        library: Callable[[], Any] = lambda: importlib.import_module("pynvml"),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._import, self._timeout_s = library, timeout_s
        self._library: Any = None
        self._none, self._late = False, False
        self._asking: asyncio.Future[Mapping[int, GpuMemory]] | None = None

    async def memory(self) -> Mapping[int, GpuMemory]:
        """Of each GPU by its number; empty where it is not known. Raises nothing; 2 s at most.

        Only the first one that a call is kept from waits for it.
        """
        if self._none or self._late:
            return {}
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask_in_thread())
        asking = self._asking
        done, _ = await asyncio.wait({asking}, timeout=self._timeout_s)
        if not done:
            self._late = True
            _log.warning("NVML does not answer; loads go on without knowing the GPUs' memory")
            return {}
        return asking.result()

    async def _ask_in_thread(self) -> Mapping[int, GpuMemory]:
        try:
            return await run_in_daemon_thread(self._ask, "nvml")
        except NoThread:
            return {}
        finally:
            self._asking, self._late = None, False

    def _ask(self) -> Mapping[int, GpuMemory]:
        """In the thread. Whatever the library raises means that nothing is known."""
        try:
            if self._library is None:
                library = self._import()
                library.nvmlInit()
                self._library = library
            return dict(enumerate(_memory_of_all(self._library)))
        except Exception as error:
            if self._library is None:
                self._none = True
                _log.debug("no GPU to be asked: %r", error)
            return {}


def _memory_of_all(library: Any) -> Iterator[GpuMemory]:
    for number in range(library.nvmlDeviceGetCount()):
        device = library.nvmlDeviceGetHandleByIndex(number)
        parts = list(_parts(library, device))
        for part in parts or [device]:
            yield _memory(library, part)


def _parts(library: Any, device: Any) -> Iterator[Any]:
    """The parts of a GPU that is split; none of one that is not, or cannot be."""
    try:
        if not library.nvmlDeviceGetMigMode(device)[0]:
            return
        most = library.nvmlDeviceGetMaxMigDeviceCount(device)
    except library.NVMLError:
        return
    for number in range(most):
        try:
            yield library.nvmlDeviceGetMigDeviceHandleByIndex(device, number)
        except library.NVMLError:
            continue  # fewer than there could be


def _memory(library: Any, device: Any) -> GpuMemory:
    try:
        memory = library.nvmlDeviceGetMemoryInfo(device)
    except library.NVMLError:
        return UNKNOWN  # a GPU that shares the machine's memory has none of its own
    return GpuMemory(int(memory.free), int(memory.used))


#: So much is never lacking.
UNKNOWN = GpuMemory(1 << 62, 0)
