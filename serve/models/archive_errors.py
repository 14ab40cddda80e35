"""The door of a load: what ensemble_tools and the machine raise in it, as errors of ours.

A shortage is never the archive's fault, whichever call met it: it is answered with 507, and what
the disk fails to give with 500. Only what is left is the archive's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ensemble_tools import EnsembleToolsError, ResourceLacking, SourceUnreadable
from ensemble_tools.archive.files import judged
from serve.errors import DiskFailed, ModelUnusable, ResourceExhausted, ServeError
from serve.telemetry.load_record import LoadRecord
from serve.threads import NoThread


@contextmanager
def archive_errors(record: LoadRecord) -> Iterator[None]:
    """Raises ResourceExhausted, DiskFailed or ModelUnusable. record: the load's."""
    try:
        yield
    except EnsembleToolsError as error:
        raise _ours(error)(str(error)) from error
    except MemoryError as error:
        raise ResourceExhausted(f"{_describe(record)}: there is no memory for it") from error
    except NoThread as error:
        raise ResourceExhausted(f"{_describe(record)}: {error}") from error
    except OSError as error:
        kind = _ours(judged(error, Path(error.filename or "")))
        raise kind(f"{_describe(record)}: {error}") from error


def _describe(record: LoadRecord) -> str:
    """The beginning of the sentence: which part of the load failed."""
    if record.under_way in ("read", "decide"):
        return "the archive could not be read"
    published = record.under_way in ("publish", "tables")
    return f"the model {record.model_name} could not be {'published' if published else 'loaded'}"


def _ours(error: EnsembleToolsError) -> type[ServeError]:
    if isinstance(error, ResourceLacking):
        return ResourceExhausted
    return DiskFailed if isinstance(error, SourceUnreadable) else ModelUnusable
