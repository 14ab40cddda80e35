"""Whole files on their way to a bucket, by a thread of their own.

What is not uploaded waits on disk, and is tried again for as long as the container lives; the
spool's bound holds meanwhile. boto3 is imported where there is a bucket alone: it costs about
30 MB.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from container.settings.values import S3Prefix
from container.telemetry.capture.spool import remove_folders
from container.telemetry.capture.tally import CaptureTally
from container.telemetry.log_stream import name_failure

_CALL_TIMEOUT_S = 5.0  # of AWS, to connect and for each piece of an answer
#: From the first failure to the next try, and the longest: each is twice as long as the last.
PAUSES_S = (1.0, 60.0)


def make_s3_client() -> Any:
    """S3 by the container's role and region. It tries once: who calls tries again."""
    import boto3
    from botocore.config import Config

    limits = Config(
        connect_timeout=_CALL_TIMEOUT_S,
        read_timeout=_CALL_TIMEOUT_S,
        retries={"total_max_attempts": 1},
    )
    return boto3.client("s3", config=limits)


class Uploads:
    """Uploads files of the spool, in the order in which they were closed, and removes them."""

    def __init__(
        self,
        target: S3Prefix,
        root: Path,
        tally: CaptureTally,
        client: Callable[[], Any] = make_s3_client,
        pauses_s: tuple[float, float] = PAUSES_S,
    ) -> None:
        self._target, self._root, self._tally = target, root, tally
        self._make_client, self._pauses_s = client, pauses_s
        self._client: Any = None
        self._files: deque[tuple[Path, int]] = deque()
        self._changed, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture uploads", daemon=True)
        self._thread.start()

    def put(self, path: Path, records: int) -> None:
        """A file is whole."""
        self._files.append((path, records))
        self._changed.set()

    def end(self, limit_s: float) -> int:
        """Try what is left once, for so many seconds; how many files are left then."""
        self._ending.set()
        self._changed.set()
        self._thread.join(limit_s)
        return len(self._files)

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # it is tried again, and then it is told
            self._client = self._make_client()  # now: to import takes the interpreter from callers
        pause_s, (first_s, longest_s) = 0.0, self._pauses_s
        while not self._ending.wait(pause_s):
            self._changed.wait()
            self._changed.clear()
            pause_s = 0.0 if self._send() else min(max(2 * pause_s, first_s), longest_s)
        self._send()

    def _send(self) -> bool:
        """All that wait; False where one could not be sent, and is tried again."""
        while self._files:
            path, records = self._files[0]
            try:
                if path.exists():
                    self._upload(path)
                else:  # somebody took it away
                    records = 0
            except Exception as error:  # the network, the credentials, the bucket
                self._tally.fail_upload(name_failure(error), str(error), len(self._files))
                self._changed.set()
                return False
            self._tally.uploaded(records)
            self._files.popleft()
            remove_folders(path.parent)
        return True

    def _upload(self, path: Path) -> None:
        if self._client is None:
            self._client = self._make_client()
        key = self._target.prefix + path.relative_to(self._root).as_posix()
        with path.open("rb") as file:
            self._client.put_object(Bucket=self._target.bucket, Key=key, Body=file)
        path.unlink(missing_ok=True)
