"""What tests of archives need of a disk."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


def going_on() -> bool:
    """Nobody gives it up."""
    return False


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """No file of this process grows beyond most bytes: a disk that is full, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
