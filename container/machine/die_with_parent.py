"""Processes that end with us, whatever ends us."""

from __future__ import annotations

from pathlib import Path

# When we die by SIGKILL, the kernel tells them to end (PR_SET_PDEATHSIG). util-linux does it, since
# between fork and exec a threaded process may not run Python.
_SETPRIV = Path("/usr/bin/setpriv")


def die_with_parent() -> tuple[str, ...]:
    """What goes in front of a command; it holds for the thread that starts it."""
    return (str(_SETPRIV), "--pdeathsig", "TERM", "--") if _SETPRIV.exists() else ()
