"""The log's sink: a bounded queue, and the one thread that writes what is in it.

Whoever logs never waits. A pipe whose reader has stopped takes 64 KB and then nothing, and a write
to it would hold the event loop, and with it every request, for as long as that lasts. What does not
fit into the queue meanwhile is dropped and counted, and where it would have stood one line says how
much it was. Lines come out in the order in which they were put.

tritonserver's and the models' lines have a part of the queue for themselves: whatever they print,
it takes no room from the container's own.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

#: What waits in each lane, at most: as much as a busy second's lines.
BYTES_MAX, LINES_MAX = 1024 * 1024, 10_000
#: How much is written at once: what a pipe holds.
_AT_ONCE = 64 * 1024
#: What comes within so many seconds of a line is written with it: each write takes the interpreter
#: away from whoever answers callers.
_GATHER_S = 0.005


class Lane(IntEnum):
    """Whose lines they are."""

    OWN = 0
    CHILD = 1


@dataclass(frozen=True)
class _Item:
    """Whole lines; or, without data, a gap where lines were dropped."""

    data: bytes
    #: How many.
    lines: int
    lane: Lane = Lane.OWN
    #: When the last of them was dropped.
    at: float = 0.0


class Sink:
    """Lines on their way to a descriptor.

    `dropped`: how many lines were lost since the start. `notice`: makes the line that says how many
    were lost there, and when (seconds since 1970), end of line included. Bounds are those of
    each lane. Any thread may call it. It has a daemon thread, until `close`, which writes soon, not
    at once.
    """

    def __init__(
        self, descriptor: int, *, bytes_max: int = BYTES_MAX, lines_max: int = LINES_MAX
    ) -> None:
        self.dropped = 0
        self.notice: Callable[[int, float], bytes] = lambda lost, _: b"%d lines dropped\n" % lost
        self._descriptor = descriptor
        self._bytes_max, self._lines_max = bytes_max, lines_max
        self._little = min(_AT_ONCE, bytes_max // 8)
        self._queue: deque[_Item] = deque()
        self._bytes, self._lines = [0, 0], [0, 0]
        self._unsaid, self._lost_at = [0, 0], [0.0, 0.0]
        self._writing = self._torn = self._closed = False
        # Over a lock that its thread may take again: a collection inside of `put` may run code that
        # logs.
        self._changed = threading.Condition(threading.RLock())
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def put(self, data: bytes, *, lane: Lane = Lane.OWN, always: bool = False) -> bool:
        """Have whole lines written, each with its end; whether there was room. Never waits.

        always: over the bounds, too.
        """
        lines = data.count(b"\n")
        with self._changed:
            if not (always or self._fits(lane, len(data), lines)):
                self._lose(lines, lane)
                return False
            self._say_lost(lane)
            self._append(_Item(data, lines, lane))
            return True

    def has_room(self, lane: Lane) -> bool:
        """Whether a short line would be taken now."""
        with self._changed:
            return self._fits(lane, 0, 1)

    def drop(self, lines: int, *, lane: Lane = Lane.OWN) -> None:
        """Count lines that nobody need make, since there is no room for them."""
        with self._changed:
            self._lose(lines, lane)

    def flush(self, timeout_s: float) -> bool:
        """Wait until all is written, at most so long; whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._queue and not self._writing, timeout=timeout_s
            )

    def close(self) -> None:
        """Let its thread end when all is written. The descriptor stays open."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- under the lock

    def _fits(self, lane: Lane, size: int, lines: int) -> bool:
        waiting = self._lines[lane]
        return waiting == 0 or (
            self._bytes[lane] + size <= self._bytes_max and waiting + lines <= self._lines_max
        )

    def _append(self, item: _Item) -> None:
        self._bytes[item.lane] += len(item.data)
        self._lines[item.lane] += item.lines if item.data else 0
        self._queue.append(item)
        self._changed.notify_all()

    def _lose(self, lines: int, lane: Lane) -> None:
        if lines:
            self.dropped += lines
            self._unsaid[lane] += lines
            self._lost_at[lane] = time.time()

    def _say_lost(self, lane: Lane) -> None:
        lost, self._unsaid[lane] = self._unsaid[lane], 0
        if lost:
            self._append(_Item(b"", lost, lane, self._lost_at[lane]))

    def _take(self) -> list[_Item]:
        taken, size = [self._queue.popleft()], 0
        while self._queue and (size := size + len(taken[-1].data)) < _AT_ONCE:
            taken.append(self._queue.popleft())
        return taken

    def _settle(self, taken: list[_Item], unwritten: int) -> None:
        """Remove the lines that were taken, the last so many of them unwritten."""
        for item in reversed(taken):
            if item.data:
                self._bytes[item.lane] -= len(item.data)
                self._lines[item.lane] -= item.lines
                self._lose(min(unwritten, item.lines), item.lane)
            elif unwritten > 0:
                self._unsaid[item.lane] += item.lines
            unwritten = max(0, unwritten - (item.lines if item.data else 1))
        self._writing = False

    # -- the thread

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                is_little = sum(self._bytes) < self._little and not self._closed
            if is_little:
                time.sleep(_GATHER_S)
            with self._changed:
                taken = self._take()
                self._writing = True
            pieces = [item.data or self.notice(item.lines, item.at) for item in taken]
            unwritten = self._write(b"".join(pieces))
            with self._changed:
                self._settle(taken, unwritten)
                if not (unwritten or self._queue):
                    self._say_lost(Lane.OWN)
                    self._say_lost(Lane.CHILD)
                self._changed.notify_all()

    def _write(self, data: bytes) -> int:
        """Write all, however long it takes; the number of lines that could not be."""
        if self._torn:
            data = b"\n" + data
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # somebody else has made it so
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
            except OSError:  # nobody reads it any more, or a disk is full
                if len(rest) < len(data):
                    self._torn = data[-len(rest) - 1] != ord("\n")
                return bytes(rest).count(b"\n")
        self._torn = False
        return 0
