"""Whole files on their way to a bucket, by threads of their own.

What is not uploaded waits on disk, and is tried again for as long as the container lives; the
spool's bound holds meanwhile. boto3 is imported where there is a bucket alone: it costs about
30 MB.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from container.settings.values import S3Prefix
from container.telemetry.capture.spool import remove_folders
from container.telemetry.capture.tally import CaptureTally
from container.telemetry.log_stream import name_failure

_CALL_TIMEOUT_S = 5.0  # of AWS, to connect and for each piece of an answer
#: Files at once: hundreds of archives have as many, each of which takes S3 some 50 ms.
_AT_ONCE = 4
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
    """Uploads files of the spool and removes them, several at once."""

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
        self._making = threading.Lock()
        self._files: SimpleQueue[tuple[Path, int] | None] = SimpleQueue()  # None: there are no more
        self._left: set[Path] = set()
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="capture uploads", daemon=True)
            for _ in range(_AT_ONCE)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, path: Path, records: int) -> None:
        """A file is whole."""
        self._left.add(path)
        self._files.put((path, records))

    def end(self, limit_s: float) -> int:
        """Try what is left, for so many seconds; how many files are left then."""
        deadline = time.monotonic() + limit_s
        self._ending.set()
        for _ in self._threads:
            self._files.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return len(self._left)

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # it is tried again, and then it is told
            self._get_client()  # now: to import takes the interpreter from callers
        pause_s, (first_s, longest_s) = 0.0, self._pauses_s
        while file := self._files.get():
            if self._send(*file):
                pause_s = 0.0
                continue
            if self._ending.is_set():  # each is tried once more
                continue
            self._files.put(file)
            pause_s = min(max(2 * pause_s, first_s), longest_s)
            self._ending.wait(pause_s)

    def _send(self, path: Path, records: int) -> bool:
        """Whether it is not to be tried again."""
        try:
            if path.exists():
                self._upload(path)
                self._tally.uploaded(records)
        except Exception as error:  # the network, the credentials, the bucket
            self._tally.fail_upload(name_failure(error), str(error), len(self._left))
            return False
        self._left.discard(path)
        remove_folders(path.parent)
        return True

    def _upload(self, path: Path) -> None:
        key = self._target.prefix + path.relative_to(self._root).as_posix()
        with path.open("rb") as file:
            self._get_client().put_object(Bucket=self._target.bucket, Key=key, Body=file)
        path.unlink(missing_ok=True)

    def _get_client(self) -> Any:
        """For all threads alike."""
        with self._making:
            if self._client is None:
                self._client = self._make_client()
            return self._client
