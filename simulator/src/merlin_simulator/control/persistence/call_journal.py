"""Calls that changed something, kept in a file and made again at a start.

Of a call its method, path, headers and body are kept, not who signed it. A resource that is
deleted takes its calls with it, so that scripts that create and delete do not make the file longer.
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
from urllib.parse import parse_qsl, unquote

from merlin_simulator.errors import PlatformFailed

_logger = logging.getLogger(__name__)

#: How a call's name begins that changes nothing.
_READS = ("Get", "List", "Describe", "Batch", "Filter", "Simulate", "Generate", "Validate", "Start")
#: Of these services everything else is kept; of logs what makes and describes groups, of S3 what is
#: said of buckets: objects are kept as such.
SERVICES = ("iam", "ecr", "logs", "s3")
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
class JournaledCall:
    """A request to a service that is kept."""

    service: str
    region: str
    headers: Mapping[str, str]  # by lower-case name
    body: str  # as ISO-8859-1
    method: str = "POST"
    path: str = "/"
    query: str = ""

    @property
    def operation(self) -> str:
        """Its name in the service model; of S3 "", as its calls do not name one."""
        target = self.headers.get("x-amz-target", "")
        return target.rpartition(".")[2] or str(self.members.get("Action", ""))

    @property
    def members(self) -> Mapping[str, Any]:
        """Its input; {} where it cannot be read."""
        if "x-amz-target" not in self.headers:
            return dict(parse_qsl(self.body, keep_blank_values=True))
        try:
            members = json.loads(self.body or "{}")
        except ValueError:
            return {}
        return members if isinstance(members, dict) else {}

    @property
    def bucket(self) -> str:
        """Of a call about a bucket of S3."""
        return unquote(self.path.strip("/"))

    @property
    def aspect(self) -> str:
        """The aspect of a bucket that the call is about: "policy", "versioning" and so on; "": all
        of it.
        """
        fields = dict(parse_qsl(self.query, keep_blank_values=True))
        return "&".join(name if name != "id" else f"id={fields['id']}" for name in sorted(fields))


def is_journaled(call: JournaledCall) -> bool:
    """Whether the call changes what is to survive a restart."""
    if call.service == "s3":
        return call.method in ("PUT", "DELETE")
    if call.service not in SERVICES or call.operation.startswith(_READS):
        return False
    if call.service == "logs":
        name = str(call.members.get("logGroupName", ""))
        return call.operation in _LOGS and not name.startswith(_OWN_GROUPS)
    return bool(call.operation)


def _is_deletion(call: JournaledCall) -> bool:
    """Whether nothing has to be done again once it and what it is about are left out."""
    if call.service == "s3":
        return call.method == "DELETE"
    return bool(call.members.get(_SUBJECTS.get(call.operation, "")))


def _makes_needless(later: JournaledCall, call: JournaledCall) -> bool:
    """Whether nothing is left of a call after a later one."""
    if call.service != later.service:
        return False
    if call.service == "s3":
        return call.bucket == later.bucket and later.aspect in ("", call.aspect)
    if not _is_deletion(later) or (call.service != "iam" and call.region != later.region):
        return False
    member = _SUBJECTS[later.operation]
    subject = later.members[member]
    if call.operation == "CreatePolicy" and member == "PolicyArn":
        return str(subject).rpartition("/")[2] == call.members.get("PolicyName")
    return bool(call.members.get(member) == subject)


class CallJournal:
    """A file of calls, one JSON object a line; a call is in it before it is answered.

    Raises PlatformFailed where the file is not one of these. Called from several threads.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock, self._full = path, threading.Lock(), False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._calls = list(_read(path))
        self._rewrite()  # a last line that was cut off is gone

    @property
    def calls(self) -> tuple[JournaledCall, ...]:
        """All that are kept, in their order."""
        return tuple(self._calls)

    def add(self, call: JournaledCall) -> None:
        """A call was carried out."""
        with self._lock:
            calls = [before for before in self._calls if not _makes_needless(call, before)]
            needless = len(self._calls) - len(calls)
            is_new = not _is_deletion(call)
            if is_new and (len(calls) >= _MOST or len(call.body) > _LONGEST):
                self._say_full()
                is_new = False
            self._calls = [*calls, call] if is_new else calls
            if needless:
                self._rewrite()
            elif is_new:
                with self.path.open("a") as file:
                    file.write(_line(call))

    def _say_full(self) -> None:
        if not self._full:
            self._full = True
            _logger.warning(
                "%s has %d calls or was given a very long one: what is not deleted there is not "
                "kept for the next start.",
                self.path,
                len(self._calls),
            )

    def _rewrite(self) -> None:
        beside = self.path.with_name(f".{self.path.name}.new")
        beside.write_text("".join(map(_line, self._calls)))
        os.replace(beside, self.path)


def _line(call: JournaledCall) -> str:
    return json.dumps(asdict(call)) + "\n"


def _read(path: Path) -> Iterator[JournaledCall]:
    try:
        text = path.read_text() if path.exists() else ""
    except (OSError, ValueError) as error:
        raise PlatformFailed(_damaged(path, error)) from error
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            members = json.loads(line)
            call = JournaledCall(**members)
            texts = [*call.headers.values(), *({**members, "headers": ""}).values()]
            if not all(isinstance(text, str) for text in texts):
                raise TypeError("a member is no string")
        except (ValueError, TypeError, AttributeError) as error:
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
