"""Processes of ours: they end with us, whatever ends us; some are asked one question."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# When we die by SIGKILL, the kernel tells them to end (PR_SET_PDEATHSIG). util-linux does it, since
# between fork and exec a threaded process may not run Python.
_SETPRIV = Path("/usr/bin/setpriv")


def die_with_parent() -> tuple[str, ...]:
    """The words in front of a command; they hold for the thread that starts it."""
    return (str(_SETPRIV), "--pdeathsig", "TERM", "--") if _SETPRIV.exists() else ()


def ask_command(
    argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> str:
    """The output of a command that runs for a moment. Blocks.

    Raises OSError and subprocess.SubprocessError, also where it fails.
    """
    done = subprocess.run(
        [*die_with_parent(), *argv],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=True,
        start_new_session=True,  # Ctrl-C is for the container, which ends in order
    )
    return done.stdout


def read_last_words(error: Exception) -> str:
    """Why a command gave no answer: the last line that it said, if there is one."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer in {error.timeout:g} s"
    if isinstance(error, subprocess.CalledProcessError):
        output = (error.stderr or "").strip()
        return output.splitlines()[-1] if output else f"exit code {error.returncode}"
    return str(error) or type(error).__name__
