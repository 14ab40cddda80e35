"""What an archive store is: a download is whole or not there.

Foreign errors become ours in each store: what is wrong with the one archive is ArchiveUnavailable,
what is wrong with the store is PlatformFailed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from merlin_simulator.errors import PlatformFailed

#: What archives end in.
SUFFIX = ".tar.gz"
#: Bytes that are passed on at a time. Small, so that a slow store cannot keep a download from being
#: given up.
CHUNK = 64 * 1024


class ArchiveStore(Protocol):
    """Archives by target model. Its methods block, and may be called from several threads."""

    description: str
    #: The bucket in messages; a folder's path stands for one.
    bucket: str

    def key(self, target_model: str) -> str:
        """The archive's key in messages."""

    def download(self, target_model: str, file: Path, cancelled: Callable[[], bool]) -> int:
        """Put the archive at file, whole or not at all; its bytes.

        Raises ArchiveUnavailable, or PlatformFailed: the store, the disk, or cancelled.
        """

    def names(self, limit: int) -> list[str]:
        """At most limit target models that end in .tar.gz, sorted; others can be asked for too."""


def save(chunks: Iterable[bytes], file: Path, cancelled: Callable[[], bool]) -> int:
    """Write beside file and rename; the bytes. What chunks raises passes, nothing is left then."""
    partial, written = file.with_name(f"{file.name}.partial"), 0
    try:
        with partial.open("wb") as out:
            for chunk in chunks:
                if cancelled():
                    raise PlatformFailed("The download was given up: the endpoint is stopping.")
                written += out.write(chunk)
        partial.replace(file)
    except OSError as error:
        raise PlatformFailed(
            f"An archive cannot be written to {file.parent}: {error.strerror}. "
            "Make room there, or name another folder."
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return written
