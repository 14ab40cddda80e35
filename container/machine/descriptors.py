"""How many descriptors this process may have, and how many of them callers may take."""

from __future__ import annotations

import contextlib
import resource

#: The soft limit is raised to the hard one, but no further: what is allowed to thousands of files
#: is of no use here, and programs exist that close every number up to it.
_ENOUGH = 65_536
#: Kept for loads, /ping, logs and what the libraries open.
_RESERVE = 128
#: More than this is no use to one process.
_MOST = 10_000


def raise_limit() -> tuple[int, int]:
    """Raise this process's soft limit as far as is sane; what it was before, for its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return soft, hard


def limit_descriptors(process_id: int, limits: tuple[int, int] | None) -> None:
    """Give a child its own limits, soft and hard: ours were raised, which is not meant for it."""
    if limits is not None:
        with contextlib.suppress(OSError):
            resource.prlimit(process_id, resource.RLIMIT_NOFILE, limits)


def count_connections_allowed() -> int:
    """How many connections callers may have.

    Half of the descriptors: each may need another one to tritonserver.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(16, min(_MOST, (soft - _RESERVE) // 2))
