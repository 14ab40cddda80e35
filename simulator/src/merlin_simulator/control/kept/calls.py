"""Calls of control planes that changed something, kept in a file and made again at a start.

Of a call its method, path, type and body are kept, not who signed it. A resource that is deleted
takes its calls with it, so that scripts that create and delete do not make the file longer.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from merlin_simulator.errors import PlatformFailed

_logger = logging.getLogger(__name__)

#: How a call's name begins that changes nothing.
_READS = ("Get", "List", "Describe", "Batch", "Filter", "Simulate", "Generate", "Validate", "Start")
#: Of these services everything else is kept; of logs what makes and describes groups.
_SERVICES = ("iam", "ecr", "logs")
_LOGS = (
    "CreateLogGroup",
    "DeleteLogGroup",
    "PutRetentionPolicy",
    "DeleteRetentionPolicy",
    "TagLogGroup",
    "UntagLogGroup",
    "TagResource",
    "UntagResource",
)
#: What a deletion names, and with it all calls that were about the same.
_SUBJECTS = {
    "DeleteRole": "RoleName",
    "DeleteUser": "UserName",
    "DeleteGroup": "GroupName",
    "DeletePolicy": "PolicyArn",
    "DeleteInstanceProfile": "InstanceProfileName",
    "DeleteRepository": "repositoryName",
    "DeleteLogGroup": "logGroupName",
}
#: Groups of this simulator's own containers are made by what runs.
_OWN_GROUPS = "/aws/sagemaker/Endpoints/"
#: More calls than a person's scripts leave behind, and more bytes for one; see CallJournal.
_MOST, _LONGEST = 20_000, 1024 * 1024


@dataclass(frozen=True)
class KeptCall:
    """A request to a service that is kept. target: its X-Amz-Target, or ""; body: its text."""

    service: str
    region: str
    target: str
    content_type: str
    body: str

    @property
    def operation(self) -> str:
        """Its name in the service model."""
        return self.target.rpartition(".")[2] or str(self.members.get("Action", ""))

    @property
    def members(self) -> Mapping[str, Any]:
        """Its input; {} where it cannot be read."""
        if not self.target:
            return dict(parse_qsl(self.body, keep_blank_values=True))
        try:
            members = json.loads(self.body or "{}")
        except ValueError:
            return {}
        return members if isinstance(members, dict) else {}


def is_kept(call: KeptCall) -> bool:
    """Whether the call changes what is to survive a restart."""
    if call.service not in _SERVICES or call.operation.startswith(_READS):
        return False
    if call.service == "logs":
        name = str(call.members.get("logGroupName", ""))
        return call.operation in _LOGS and not name.startswith(_OWN_GROUPS)
    return bool(call.operation)


def without_what_is_gone(calls: list[KeptCall], deletion: KeptCall) -> list[KeptCall] | None:
    """The calls before a deletion, less those about what it deletes; None: it is no deletion."""
    member = _SUBJECTS.get(deletion.operation)
    subject = deletion.members.get(member or "")
    if not subject:
        return None
    return [call for call in calls if not _is_about(call, deletion, str(member), subject)]


def _is_about(call: KeptCall, deletion: KeptCall, member: str, subject: Any) -> bool:
    if call.service != deletion.service:
        return False
    if call.service != "iam" and call.region != deletion.region:
        return False
    if call.operation == "CreatePolicy" and member == "PolicyArn":
        return str(subject).rpartition("/")[2] == call.members.get("PolicyName")
    return bool(call.members.get(member) == subject)


class CallJournal:
    """A file of calls, one JSON object a line; a call is in it before it is answered.

    Raises PlatformFailed where the file is not one of these. Called from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock, self._full = path, threading.Lock(), False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._calls = list(_read(path))
        self._rewrite()  # a last line that was cut off is gone

    @property
    def calls(self) -> tuple[KeptCall, ...]:
        """All that are kept, in their order."""
        return tuple(self._calls)

    def add(self, call: KeptCall) -> None:
        """A call was carried out."""
        with self._lock:
            left = without_what_is_gone(self._calls, call)
            if left is not None:
                self._calls = left
                self._rewrite()
            elif len(self._calls) >= _MOST or len(call.body) > _LONGEST:
                self._say_full()
            else:
                self._calls.append(call)
                with self._path.open("a") as file:
                    file.write(_line(call))

    def _say_full(self) -> None:
        if not self._full:
            self._full = True
            _logger.warning(
                "%s has %d calls or was given a very long one: what is not deleted there is not "
                "kept for the next start.",
                self._path,
                len(self._calls),
            )

    def _rewrite(self) -> None:
        beside = self._path.with_name(f".{self._path.name}.new")
        beside.write_text("".join(map(_line, self._calls)))
        os.replace(beside, self._path)


def _line(call: KeptCall) -> str:
    return json.dumps(asdict(call)) + "\n"


def _read(path: Path) -> Iterator[KeptCall]:
    try:
        text = path.read_text() if path.exists() else ""
    except (OSError, ValueError) as error:
        raise PlatformFailed(_damaged(path, error)) from error
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            members = json.loads(line)
            call = KeptCall(**members)
            if not all(isinstance(value, str) for value in members.values()):
                raise TypeError("a member is no string")
        except (ValueError, TypeError) as error:
            if number == len(lines) and not line.endswith("\n"):
                return  # it was being written when the last simulator was killed
            raise PlatformFailed(_damaged(path, error, number)) from error
        yield call


def _damaged(path: Path, error: Exception, line: int | None = None) -> str:
    where = "" if line is None else f"line {line} of "
    return (
        f"{where}{path} holds no call of this simulator ({type(error).__name__}: {error}): "
        "remove it, or name another --state."
    )
