"""The seam to ensemble_tools: what reading and publishing an archive raises, as errors of ours.

A shortage is never the archive's fault, whichever call met it: it is answered with 507, and what
the disk fails to give with 500. Only what is left is the archive's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ensemble_tools import EnsembleToolsError, ResourceLacking
from ensemble_tools import SourceUnreadable as DiskFailed
from ensemble_tools.archive.files import judged
from serve.errors import ModelUnusable, ResourceExhausted, ServeError, SourceUnreadable
from serve.threads import NoThread


@contextmanager
def archive_errors(what: str) -> Iterator[None]:
    """Raises ResourceExhausted, SourceUnreadable or ModelUnusable; what: failed, in a sentence."""
    try:
        yield
    except EnsembleToolsError as error:
        raise _ours(error)(str(error)) from error
    except MemoryError as error:
        raise ResourceExhausted(f"{what}: there is no memory for it") from error
    except NoThread as error:
        raise ResourceExhausted(f"{what}: {error}") from error
    except OSError as error:
        kind = _ours(judged(error, Path(error.filename or "")))
        raise kind(f"{what}: {error}") from error


def _ours(error: EnsembleToolsError) -> type[ServeError]:
    if isinstance(error, ResourceLacking):
        return ResourceExhausted
    return SourceUnreadable if isinstance(error, DiskFailed) else ModelUnusable
