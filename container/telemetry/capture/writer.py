"""The thread that writes what the event loop has captured: it alone encodes, hides and opens."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path

from prometheus_client import CollectorRegistry

from container.errors import Mistake, SettingsError
from container.settings.reading import Settings
from container.settings.values import MIB, S3Prefix
from container.telemetry.capture.hiding import ColumnHider, NotUnderstood
from container.telemetry.capture.lines import name_folder, write_line
from container.telemetry.capture.spool import Spool, SpoolFull
from container.telemetry.capture.tally import DISK, FULL, UNREAD, CaptureTally
from container.telemetry.capture.uploads import Uploads
from serve.errors import BodyTooLarge, CallerError
from serve.telemetry.captures import TOO_LARGE, CapturedExchange, CaptureQueue

#: From one look at the queue to the next, in seconds: nobody is woken for each request.
_TURN_S = 0.05
#: What is written at once at most, in bytes.
_AT_ONCE = 1024 * 1024
#: From the first line to the look whether any had the columns of SERVE_CAPTURE_OMIT, in seconds.
_LOOK_S = 60.0
#: After so many seconds of work whoever answers callers gets the interpreter, for so many.
_WORK_S, _PAUSE_S = 0.0002, 0.0001


def start_capture(
    settings: Settings, spool_folder: Path, registry: CollectorRegistry
) -> CaptureWriter:
    """spool_folder: where files lie until they are in the bucket, if they are to go to one.

    Raises SettingsError for a directory that cannot be written to.
    """
    tally, target, uploads = CaptureTally(registry), settings.capture, None
    root = spool_folder if isinstance(target, S3Prefix) else target
    assert root is not None, "capture is off"
    if isinstance(target, S3Prefix):
        uploads = Uploads(target, root, tally)
    try:
        spool = Spool(root, settings.capture_mb * MIB, uploads.put if uploads else None)
    except OSError as error:
        expected = f"a directory that can be written to ({error.strerror})"
        raise SettingsError([Mistake("SERVE_CAPTURE", str(target), expected)]) from error
    return CaptureWriter(
        CaptureQueue(settings.capture_percent, tally.drop),
        spool,
        tally,
        _name_endpoint(settings),
        ColumnHider(settings.capture_omit) if settings.capture_omit else None,
        uploads,
    )


def _name_endpoint(settings: Settings) -> tuple[str, str]:
    """The endpoint's name and its variant's: no container is told them, but operators may tell."""
    told = {name.lower().removesuffix("name"): value for name, value in settings.metric_dimensions}
    return told.get("endpoint", "endpoint"), told.get("variant", "AllTraffic")


class CaptureWriter:
    """Takes what waits in the queue to the spool until it is ended.

    endpoint: its name and its variant's, the first two folders. hider: None where every column may
    be written. look_s: from the first line to the look whether any had the columns to be hidden.
    """

    def __init__(
        self,
        queue: CaptureQueue,
        spool: Spool,
        tally: CaptureTally,
        endpoint: tuple[str, str],
        hider: ColumnHider | None,
        uploads: Uploads | None,
        look_s: float = _LOOK_S,
    ) -> None:
        self.queue = queue
        self._spool, self._tally, self._uploads = spool, tally, uploads
        self._endpoint, self._hider = endpoint, hider
        self._look_s, self._began = look_s, float("inf")
        self._lines: dict[str, list[bytes]] = defaultdict(list)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._thread.start()

    def end(self, limit_s: float) -> None:
        """Write what waits, close the files and upload them, for so many seconds."""
        deadline = time.monotonic() + limit_s
        self._ending.set()
        self._thread.join(limit_s)
        left = self._uploads.end(deadline - time.monotonic()) if self._uploads is not None else 0
        if left or self._thread.is_alive():
            self._tally.tell("the last captures were not written and uploaded in time", files=left)

    def _run(self) -> None:
        while not self._ending.wait(_TURN_S):
            self._turn()
        self._look_s = 0.0
        self._turn()
        try:
            self._spool.close()
        except OSError as error:
            self._tell_of_disk(error)

    def _turn(self) -> None:
        try:
            self._write()
            if time.monotonic() - self._began >= self._look_s:
                self._tell_of_columns()
        except OSError as error:
            self._tell_of_disk(error)
        except Exception:  # a bug may not end the thread
            self._lines.clear()
            self._tally.tell("captures failed for a reason that was not foreseen", exc_info=True)

    def _write(self) -> None:
        size, worked = 0, time.perf_counter()
        for exchange in self.queue.take():
            line = self._make_line(exchange)
            if line is not None:
                self._lines[name_folder(*self._endpoint, exchange)].append(line)
                size += len(line)
                self._began = min(self._began, time.monotonic())
            if size >= _AT_ONCE:
                self._flush()
                size = 0
            if time.perf_counter() - worked > _WORK_S:
                time.sleep(_PAUSE_S)
                worked = time.perf_counter()
        self._flush()

    def _make_line(self, exchange: CapturedExchange) -> bytes | None:
        try:
            return write_line(exchange, self._hider)
        except BodyTooLarge:
            self._tally.drop(TOO_LARGE)
        except (NotUnderstood, CallerError):
            self._tally.drop(UNREAD)
        return None

    def _flush(self) -> None:
        for folder, lines in self._lines.items():
            try:
                self._spool.append(folder, lines)
                self._tally.wrote(len(lines))
            except SpoolFull:
                self._tally.drop(FULL, len(lines))
                self._tally.tell("captures are dropped: there are SERVE_CAPTURE_MB of them here")
            except OSError as error:
                self._tally.drop(DISK, len(lines))
                self._tell_of_disk(error)
        self._lines.clear()
        self._spool.close_due()

    def _tell_of_columns(self) -> None:
        """A misspelled one would be written in clear without a word."""
        for name, alike in (self._hider.take_unmet() if self._hider else {}).items():
            self._tally.tell(
                f"no request or answer that was captured so far has the column {name!r} of"
                " SERVE_CAPTURE_OMIT; under another name its values are written"
                + (f"; did you mean {alike!r}?" if alike else "")
            )

    def _tell_of_disk(self, error: OSError) -> None:
        self._tally.tell("captures cannot be written", reason=str(error))
