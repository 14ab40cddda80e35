"""How many descriptors this process may have, and how many of them callers may take."""

from __future__ import annotations

import resource

#: The soft limit is raised to the hard one, but no further: what is allowed to thousands of files
#: is of no use here, and programs exist that close every number up to it.
_ENOUGH = 65_536
#: Kept for loads, /ping, logs and what the libraries open.
_RESERVE = 128
#: Of the rest, what callers' connections get; each may need another one to tritonserver.
_CALLERS_SHARE = 0.6
#: More than this is no use to one process.
_MOST = 10_000


def raise_limit() -> tuple[int, int]:
    """Raise this process's soft limit as far as is sane; what it was before, for its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft, hard


def most_connections() -> int:
    """How many connections callers may have by default."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(16, min(_MOST, int((soft - _RESERVE) * _CALLERS_SHARE)))
