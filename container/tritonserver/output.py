"""Reads what tritonserver and the models print: a pipe, and the thread that reads it for the log.

Whoever prints never waits for who reads the log: this thread takes whatever comes, and what the log
has no room for is dropped and counted there. It looks 200 times a second at most, so that a model
that prints without end costs the others little.

There is one pipe for all lives of tritonserver, and its end is never waited for: processes that a
model has started may hold it for as long as they like.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import select
import threading
import time
from collections.abc import Iterable

from container.logs.json_lines import format_json_line
from container.logs.setup import LogFormat
from container.logs.sink import Lane, Sink
from container.logs.text_lines import is_plain, mark_lines
from container.tritonserver.log_lines import FindModel, TritonLines
from container.tritonserver.start_output import StartOutput
from container.tritonserver.unread_configs import UnreadConfigs

log = logging.getLogger(__name__)

#: Longer lines are cut, in bytes; and how much is read at once.
LINE_MAX = _AT_ONCE = 64 * 1024
#: What the pipe holds while nobody looks, in bytes: the most that is given to everybody.
_PIPE = 1024 * 1024
#: How often it is looked at, and how many times in a row at once: lines are seldom many.
_LOOKS_PER_S, _LOOKS_AT_ONCE = 200, 20
#: Each takes some 15 µs as JSON, which are taken from requests.
LINES_PER_S = 10_000
#: As text only what is to be escaped takes as long: so many bytes of it.
_ESCAPED_LINE = 64
_CUT = b"..."
#: What its HTTP library says of each Unix socket that it listens on: TCP's option is none there.
_NO_DELAY = b"NODELAY NOT SUPPORTED"
_NO_DELAY_LINE = re.compile(rb"[^\n]*evhtp\.c:[^\n]*" + _NO_DELAY + rb"[^\n]*\n")


class TritonOutput:
    """`descriptor`: what tritonserver's standard output and standard error are to be.

    lines_per_s: as JSON, or with characters to escape; what is more is dropped. It has a daemon
    thread, until `close`.
    """

    def __init__(
        self, sink: Sink, log_format: LogFormat = "text", *, lines_per_s: int = LINES_PER_S
    ) -> None:
        self._sink = sink
        self._lines = TritonLines() if log_format == "json" else None
        self._allowed = _Allowance(lines_per_s, lines_per_s)
        self._read_end, self.descriptor = os.pipe()
        os.set_blocking(self._read_end, False)  # of this end alone
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, _PIPE)
        self._rest, self._in_long, self._ended = b"", False, False
        self._reading = threading.Lock()
        self._start: StartOutput | None = None
        self._unread_configs = UnreadConfigs()
        threading.Thread(target=self._read_on, name="tritonserver's output", daemon=True).start()

    def name_models(self, find_model: FindModel) -> None:
        """From now on lines as JSON name the model that they are about."""
        if self._lines is not None:
            self._lines.find_model = find_model

    def begin_start(self, *, has_added: bool = False) -> None:
        """What comes next is of a tritonserver that reads its arguments; has_added: an operator's,
        too."""
        with self._reading:
            self._start = StartOutput(has_added=has_added)

    def end_start(self) -> None:
        """tritonserver has taken its arguments, and models may print."""
        with self._reading:
            self._start = None

    @property
    def refusal(self) -> str:
        """The reason for which an argument was refused at this start; empty for none."""
        return self._start.refusal if self._start is not None else ""

    def take_unread(self, triton_name: str) -> str:
        """Why tritonserver could not read this model's config, as it has printed; told once."""
        with self._reading:
            self._look()
            return self._unread_configs.take(triton_name)

    def drain(self) -> None:
        """Hand on all that has been printed, a last line without an end, too. Never waits."""
        with self._reading:
            self._look()
            rest, self._rest, self._in_long = self._rest, b"", False
            if rest:
                self._look(rest + b"\n")

    def close(self) -> None:
        """Let its thread end with the last process that holds the pipe."""
        os.close(self.descriptor)

    # -- the thread

    def _read_on(self) -> None:
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        looks = _Allowance(_LOOKS_PER_S, _LOOKS_AT_ONCE)
        while not self._ended:
            poll.poll()
            with self._reading:
                self._look()
            if not looks.take(1):
                time.sleep(1 / _LOOKS_PER_S)
        os.close(self._read_end)

    # -- who reads

    def _look(self, last: bytes = b"") -> None:
        """Hand on what is there, or this last line."""
        try:
            if last:
                self._hand_on(last)
            elif not self._ended:
                self._ended = not self._pump()
        except Exception as error:  # tritonserver would stand still if nobody read on
            log.error("some of tritonserver's output was lost", exc_info=error)

    def _pump(self) -> bool:
        """Read what is there, a pipeful at most; False when nobody will print any more."""
        for _ in range(_PIPE // _AT_ONCE):
            try:
                data = os.read(self._read_end, _AT_ONCE)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._split(data)
        return True

    def _split(self, data: bytes) -> None:
        """Hand on the lines that end in the data; only the first of them may be too long."""
        if self._in_long:
            _, line_end, data = data.partition(b"\n")
            self._in_long = not line_end
        first_end = data.find(b"\n")
        if len(self._rest) + (first_end if first_end >= 0 else len(data)) > LINE_MAX:
            self._hand_on((self._rest + data)[:LINE_MAX] + _CUT + b"\n")
            self._rest, self._in_long = b"", first_end < 0
            data = data[first_end + 1 :] if first_end >= 0 else b""
        whole, end, rest = data.rpartition(b"\n")
        if end:
            self._hand_on(self._rest + whole + end)
            self._rest = rest
        else:
            self._rest += rest

    def _hand_on(self, data: bytes) -> None:
        self._unread_configs.keep(data)
        if _NO_DELAY in data:
            data = _NO_DELAY_LINE.sub(b"", data)
        if self._start is not None:
            data = self._start.keep(data)
        if self._lines is None:
            if data:
                self._hand_on_text(data)
            return
        count = data.count(b"\n")
        if not self._sink.has_room(Lane.CHILD) or not self._allowed.take(count):
            self._sink.drop(count, lane=Lane.CHILD)
            return
        output = b"".join(_to_json(data.split(b"\n")[:-1], self._lines))
        if output:
            self._sink.put(output, lane=Lane.CHILD)

    def _hand_on_text(self, data: bytes) -> None:
        cost = len(data) // _ESCAPED_LINE
        if self._sink.has_room(Lane.CHILD) and (is_plain(data) or self._allowed.take(cost)):
            self._sink.put(mark_lines(data), lane=Lane.CHILD)
        else:
            self._sink.drop(data.count(b"\n"), lane=Lane.CHILD)


class _Allowance:
    """So many a second, and some at once after a pause."""

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s, self._at_once = per_s, at_once
        self._left, self._counted_at = at_once, time.monotonic()

    def take(self, count: int) -> bool:
        """Whether any are left; these may be more, and are made up for later."""
        now = time.monotonic()
        self._left += (now - self._counted_at) * self._per_s
        self._left, self._counted_at = min(self._left, self._at_once), now
        if self._left <= 0:
            return False
        self._left -= count
        return True


def _to_json(lines: Iterable[bytes], reader: TritonLines) -> Iterable[bytes]:
    now = time.time()
    for raw in lines:
        line = reader.read(raw.decode(errors="backslashreplace").rstrip("\r"))
        if line is not None:
            others = [("model", line.model)] if line.model else []
            text = format_json_line(
                now, line.level, line.source, line.message, others, logger=line.logger
            )
            yield f"{text}\n".encode()
