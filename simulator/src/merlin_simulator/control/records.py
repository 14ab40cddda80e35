"""What is kept of a resource, and lists of it in pages."""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import math
import os
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.errors import PlatformFailed

_T = TypeVar("_T")

#: SageMaker's List* calls: ten if MaxResults is not given.
_DEFAULT = 10


def page(
    items: Sequence[_T],
    token: str | None,
    most: int | None,
    default: int = _DEFAULT,
    code: str = "ValidationException",
) -> tuple[Sequence[_T], str | None]:
    """The page after the token, and the next one's token; None at the end. See read_start."""
    start = read_start(token, code)
    end = start + (most or default)
    return items[start:end], make_token(end) if end < len(items) else None


def make_token(start: int) -> str:
    """A token that names where the next page starts."""
    return base64.b64encode(json.dumps({"start": start}).encode()).decode()


def read_start(token: str | None, code: str = "ValidationException") -> int:
    """Where the page of a token starts; 0 without one.

    Raises ServiceError for a token that is none; code: the service's own for it.
    """
    if token is None:
        return 0
    try:
        start = json.loads(base64.b64decode(token, validate=True))["start"]
        if type(start) is int and start >= 0:
            return start
    except (binascii.Error, ValueError, KeyError, TypeError, RecursionError):
        pass
    message = "Invalid pagination token: send the NextToken of the page before this one."
    raise ServiceError(message, code)


def filter_records(
    records: Iterable[Mapping[str, Any]],
    members: Mapping[str, Any],
    name: str,
    sorts: Mapping[str, str],
) -> list[Mapping[str, Any]]:
    """Records that pass SageMaker's filters, as its List* calls sort them.

    name: the record's member that NameContains looks at. sorts: the member that each value of
    SortBy means. Times are seconds since the epoch.
    """
    matching = [record for record in records if _passes(record, members, name)]
    by = sorts[members.get("SortBy", "CreationTime")]
    descending = members.get("SortOrder", "Descending") == "Descending"
    return sorted(matching, key=lambda record: (record[by], record[name]), reverse=descending)


def _passes(record: Mapping[str, Any], members: Mapping[str, Any], name: str) -> bool:
    if members.get("NameContains", "").lower() not in record[name].lower():
        return False
    return all(
        members.get(f"{member}After", -math.inf)
        < record[member]
        < members.get(f"{member}Before", math.inf)
        for member in ("CreationTime", "LastModifiedTime")
        if member in record
    )


Record = dict[str, Any]
_SUFFIX = ".json"
#: Whose records have times of the platform, and what tells when one was changed last.
_SERVICES = ("sagemaker", "cloudwatch", "autoscaling")
_TIMES = ("CreationTime", "LastModifiedTime", "StateUpdatedTimestamp")


#: The year 9000: no clock goes on behind it.
_LATEST = 221_845_392_000.0


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """A state's folder is this process's alone until the end of the block.

    Raises PlatformFailed where another process has it, or it cannot be written. The lock is the
    system's: a process that is killed holds it no more.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise PlatformFailed(
            f"The state's folder {folder} cannot be written ({error.strerror}): name another "
            "--state."
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PlatformFailed(
                f"The state in {folder} is in use by another simulator: end that one, or name "
                "another --state."
            ) from error
        yield


class Records:
    """Of one kind, by name, in the order in which they were made. folder: made where it lacks.

    needed: members without which a file there is none of ours.
    """

    def __init__(self, folder: Path, *needed: str) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = [(path, _read(path, needed)) for path in folder.glob(f"*{_SUFFIX}")]
        except OSError as error:
            raise PlatformFailed(
                f"The state in {folder} cannot be read ({error.strerror}): name another --state."
            ) from error
        files.sort(key=lambda file: (file[1].get("CreationTime", 0), file[0].name))
        self._records = {_name(path): record for path, record in files}

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def get(self, name: str) -> Record | None:
        """The record itself: whoever changes it puts it again."""
        return self._records.get(name)

    def values(self) -> tuple[Record, ...]:
        """All of them."""
        return tuple(self._records.values())

    def put(self, name: str, record: Record) -> None:
        """Keep this under the name. Raises PlatformFailed where it cannot be written."""
        path = self._path(name)
        beside = path.with_name(f".{path.name}.new")
        try:
            beside.write_text(json.dumps(record, indent=1))
            os.replace(beside, path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise PlatformFailed(f"{path} cannot be written: {error.strerror}.") from error
        self._records[name] = record

    def remove(self, name: str) -> None:
        """Nothing of that name is kept any more. Raises PlatformFailed where its file stays."""
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise PlatformFailed(f"{path} cannot be removed: {error.strerror}.") from error
        self._records.pop(name, None)

    def _path(self, name: str) -> Path:
        return self._folder / (urllib.parse.quote(name, safe="") + _SUFFIX)


def newest_time(state: Path) -> float:
    """The newest time in a state's records, seconds since the epoch; 0.0: none."""
    newest = 0.0
    for path in state.glob(f"*/*/*{_SUFFIX}"):
        with suppress(PlatformFailed, OSError):
            record = _read(path, ()) if path.parts[-3] in _SERVICES else {}
            times = [record.get(name, 0.0) for name in _TIMES]
            valid = (at for at in times if isinstance(at, int | float) and at < _LATEST)
            newest = max([newest, *valid])
    return newest


def _name(path: Path) -> str:
    return urllib.parse.unquote(path.name.removesuffix(_SUFFIX))


def _read(path: Path, needed: Collection[str]) -> Record:
    try:
        record = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise PlatformFailed(
            f"{path} is no JSON ({error}): remove it, or name another --state."
        ) from error
    if not isinstance(record, dict):
        raise PlatformFailed(f"{path} holds no record: remove it, or name another --state.")
    lacking = [name for name in needed if name not in record]
    if lacking or not isinstance(record.get("CreationTime", 0), int | float):
        fault = f"lacks {', '.join(lacking)}" if lacking else "has another CreationTime"
        raise PlatformFailed(
            f"{path} {fault}, so it is none of ours: remove it, or name another --state."
        )
    return record
