"""Containers' output as CloudWatch Logs has it, while it comes.

The group is /aws/sagemaker/Endpoints/NAME, the stream VARIANT/INSTANCE. Of each stream the last
megabytes are kept: those who follow one by time (`aws logs tail`, FilterLogEvents) miss nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

_logger = logging.getLogger(__name__)

_GROUP = "/aws/sagemaker/Endpoints/"
_ACCOUNT = "123456789012"
#: Between two looks at the files.
_LOOK_S = 0.3
#: Of a stream, so much is kept, in bytes; at twice that the older half is dropped.
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
    kept: int = 0
    made: bool = False


def make_logs_client(url: str, region: str) -> Any:
    """boto3's client of the logs at this url; none of the user's AWS settings matter."""
    return boto3.client(
        "logs",
        endpoint_url=url,
        region_name=region,
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(proxies={}),
    )


class ContainerLogs:
    """make_client: boto3's client of logs by region; its calls may block."""

    def __init__(self, make_client: Callable[[str], Any]) -> None:
        self._client = lru_cache(make_client)
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
                    self._show(followed, lines)
            except Exception as error:  # moto's: what a container does must not depend on it
                _logger.warning("%s is not shown in logs: %r", followed.path, error)

    def _show(self, followed: _Followed, lines: list[str]) -> None:
        client, named = self._client(followed.region), _named(followed)
        if not followed.made:
            followed.made = True
            _make(client, named)
        now = int(time.time() * 1000)
        events = [{"timestamp": now, "message": line} for line in lines]
        client.put_log_events(**named, logEvents=events)
        followed.kept += sum(map(len, lines))
        if followed.kept > 2 * _KEPT:
            followed.kept = _drop_old(followed)


def _named(followed: _Followed) -> dict[str, str]:
    return {"logGroupName": followed.group, "logStreamName": followed.stream}


def _make(client: Any, named: dict[str, str]) -> None:
    """The group and the stream, where they are not there from an earlier endpoint of the name."""
    exists = client.exceptions.ResourceAlreadyExistsException
    for make, members in (
        (client.create_log_group, ("logGroupName",)),
        (client.create_log_stream, ("logGroupName", "logStreamName")),
    ):
        try:
            make(**{member: named[member] for member in members})
        except exists:
            continue


def _drop_old(followed: _Followed) -> int:
    """Leave the last events of the stream in moto; how long they are together."""
    from moto.logs.models import logs_backends

    group = logs_backends[_ACCOUNT][followed.region].groups[followed.group]
    events, kept = group.streams[followed.stream].events, 0
    for number in range(len(events) - 1, -1, -1):
        kept += len(events[number].message)
        if kept > _KEPT:
            del events[: number + 1]
            return kept
    return kept


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
