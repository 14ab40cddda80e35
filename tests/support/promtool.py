"""promtool, Prometheus' own checker of its files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class PromtoolMissing(Exception):
    """It is not installed, so that a test fails and says so."""


def find_promtool(path: str | None = None) -> str:
    """The program, looked for along path (PATH where None). Raises PromtoolMissing."""
    if found := shutil.which("promtool", path=path):
        return found
    raise PromtoolMissing(
        "found no program `promtool`, which the tests of examples/observe need; "
        "on Debian: apt-get install prometheus"
    )


def run_promtool(*words: str | Path) -> tuple[int, str]:
    """Exit code, and all that it says."""
    ended = subprocess.run(
        [find_promtool(), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return ended.returncode, ended.stdout
