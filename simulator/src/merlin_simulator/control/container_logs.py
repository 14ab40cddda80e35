"""Containers' output as CloudWatch Logs has it, while it comes.

The group is /aws/sagemaker/Endpoints/NAME, the stream VARIANT/INSTANCE. Of each stream the last
megabytes are kept: those who follow one by time (`aws logs tail`, FilterLogEvents) miss nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from merlin_simulator.errors import ACCOUNT

_logger = logging.getLogger(__name__)

_GROUP = "/aws/sagemaker/Endpoints/"
#: Between two looks at the files.
_LOOK_S = 0.3
#: Of a stream, so much is shown, in bytes; at twice that the older half is dropped.
_KEPT = 4 * 1024 * 1024
#: Read at once; and CloudWatch's longest event, less what it counts beside the message.
_AT_ONCE, _LONGEST = 512 * 1024, 256 * 1024 - 26


@dataclass
class _Followed:
    region: str
    group: str
    stream: str
    path: Path
    position: int = 0
    shown: int = 0


class ContainerLogs:
    """Shows files in moto's CloudWatch Logs."""

    def __init__(self) -> None:
        self._followed: dict[Path, _Followed] = {}
        self._reading = threading.Lock()

    def follow(self, region: str, endpoint_name: str, stream: str, path: Path) -> None:
        """Show what is written to this file, which may not be there yet."""
        self._followed[path] = _Followed(region, _GROUP + endpoint_name, stream, path)

    def leave(self, path: Path) -> None:
        """Show what the file has until now, and nothing after that. Blocks."""
        followed = self._followed.pop(path, None)
        if followed is not None:
            self._read(followed, ended=True)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await asyncio.to_thread(self._look)

    def _look(self) -> None:
        for followed in list(self._followed.values()):
            self._read(followed, ended=False)

    def _read(self, followed: _Followed, *, ended: bool) -> None:
        with self._reading:
            try:
                for lines in _new_lines(followed, ended=ended):
                    _show(followed, lines)
            except Exception as error:  # moto's: what a container does must not depend on it
                _logger.warning("%s is not shown in logs: %r", followed.path, error)


def _show(followed: _Followed, lines: list[str]) -> None:
    from moto.logs.models import logs_backends

    logs = logs_backends[ACCOUNT][followed.region]
    logs.ensure_log_group(followed.group)
    logs.ensure_log_stream(followed.group, followed.stream)
    now = int(time.time() * 1000)
    stream = logs.groups[followed.group].streams[followed.stream]
    stream.put_log_events([{"timestamp": now, "message": line} for line in lines])
    followed.shown += sum(map(len, lines))
    if followed.shown > 2 * _KEPT:
        followed.shown = _drop_old(stream.events)


def _drop_old(events: list[Any]) -> int:
    """Leave the last events of a stream; how long they are together."""
    size = 0
    for number in range(len(events) - 1, -1, -1):
        size += len(events[number].message)
        if size > _KEPT:
            del events[: number + 1]
            break
    return size


def _new_lines(followed: _Followed, *, ended: bool) -> Iterator[list[str]]:
    """The lines that have come, some at a time; a last one without its end only if that is all."""
    if not followed.path.is_file():
        return
    with followed.path.open("rb") as file:
        size = file.seek(0, 2)
        followed.position = max(followed.position, size - _KEPT)
        while followed.position < size:
            file.seek(followed.position)
            read = file.read(_AT_ONCE)
            whole = read[: read.rfind(b"\n") + 1]
            if not whole and (ended or len(read) == _AT_ONCE):
                whole = read
            if not whole:
                return
            followed.position += len(whole)
            if lines := list(_events(whole.decode(errors="replace"))):
                yield lines


def _events(text: str) -> Iterator[str]:
    """Lines that say something, cut where one is longer than an event may be."""
    for line in text.splitlines():
        for start in range(0, len(line), _LONGEST):
            yield line[start : start + _LONGEST]
