"""How this process's memory allocator treats what is freed: kept for the next large body.

glibc gives freed memory back to the kernel at once where it can, and the next body has it mapped
and zeroed again, page by page: with bodies of 1 MB 470 page faults a request, and half of the
processor's time (docs/performance.md). Kept memory is given back when no request comes for a while,
and under load when it has become much.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

#: malloc.h of glibc.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Freed memory that is kept at the end of the heap, in bytes, and how much more than after it was
#: last given back the process may hold; the largest piece that is taken from the heap.
_KEPT, _LARGEST_PIECE = 64 * 1024 * 1024, 32 * 1024 * 1024
#: Less than this above the least that was ever held is not worth the time, in bytes.
_LITTLE = 8 * 1024 * 1024
#: How often it is looked at, in seconds; and how many looks lie between two times that it is given
#: back: it takes some milliseconds.
_LOOK_S, _LOOKS_BETWEEN = 2.0, 2
_STATM = Path("/proc/self/statm")


def keep_freed_memory() -> bool:
    """From now on, in this process; whether its C library knows how (glibc does)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _KEPT) and mallopt(_M_MMAP_THRESHOLD, _LARGEST_PIECE))


async def trim_forever(requests: Callable[[], int]) -> None:
    """Give kept memory back when it is time; for ever.

    requests: how many came so far.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return
    lowest = after_last = _read_resident()
    came, looks = requests(), 0
    while True:
        await asyncio.sleep(_LOOK_S)
        looks += 1
        resident, before, came = _read_resident(), came, requests()
        much = resident > after_last + _KEPT
        idle = came == before and resident > lowest + _LITTLE
        if (much or idle) and looks >= _LOOKS_BETWEEN:
            trim(0)
            looks, after_last = 0, _read_resident()
            lowest = min(lowest, after_last)


def _read_resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
