"""Errors inside a stream of server-sent events, told without code, tracebacks and paths. No I/O.

An error that comes before anything else has a status, and goes another way (invocation). Behind the
first piece tritonserver passes on what a model raised, as one more event: the line
`data: {"error":"…"}`. It is told here as any failure is; everything else goes as it comes.
"""

from __future__ import annotations

import json
from collections import deque

from serve.triton.connection import MOST_OF_ERROR, Answer
from serve.triton.diagnosis.model_errors import find_failure_cause, remove_regions
from serve.triton.diagnosis.verdicts import read_message

_BEGUN = b'data: {"error":"'
_NO_REASON = "no reason was given"


class StreamErrors:
    """Of one stream, whose pieces may end anywhere.

    told: what errors said whose words were changed, for the log; whoever logs it empties it.
    """

    __slots__ = ("_inside", "_line", "told")

    def __init__(self) -> None:
        #: Whether the line that comes is none of an error; of one that may be, what has come.
        self._inside, self._line = False, b""
        self.told: list[str] = []

    def pass_on(self, piece: bytes) -> bytes:
        """The bytes to pass on when this piece has come."""
        if not (self._inside or self._line or _BEGUN in piece) and piece.endswith(b"\n"):
            return piece  # whole lines
        *lines, rest = (self._line + piece).split(b"\n")
        passed: list[bytes] = []
        for line in lines:
            passed += (line if self._inside else self._tell(line), b"\n")
            self._inside = False
        if self._inside or not (rest.startswith(_BEGUN) or _BEGUN.startswith(rest)):
            passed.append(rest)
            self._inside, self._line = True, b""
        else:
            self._line = rest[:MOST_OF_ERROR]
        return b"".join(passed)

    def end(self) -> bytes:
        """The bytes that are left when nothing more comes."""
        return self._tell(self._line)

    def _tell(self, line: bytes) -> bytes:
        if not line.startswith(_BEGUN):
            return line
        cut = len(line) >= MOST_OF_ERROR
        message = read_message(Answer(body=deque([line[:MOST_OF_ERROR]]), cut=cut))
        cause = find_failure_cause(message, cut=cut) or _NO_REASON
        if cause == message:
            return line
        self.told.append(" ".join(remove_regions(message).split()))
        return b"data: " + json.dumps({"error": cause}, separators=(",", ":")).encode()
