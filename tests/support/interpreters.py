"""Pythons of this machine, by version. Standard library only (see tests/docker/engine.py).

CI asks before it installs anything.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ASK_TIMEOUT_S = 120.0
_QUESTION = "import sys; print('%d.%d' % sys.version_info[:2])"


def interpreters(version: str) -> Iterator[Path]:
    """Those that run and are of that version, as `3.12`: on PATH, then pyenv's.

    pyenv's names on PATH may run nothing.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    on_path = (shutil.which(name) for name in (f"python{version}", "python3"))
    for candidate in (*on_path, *sorted(pyenv.glob(f"versions/{version}.*/bin/python"))):
        if candidate and _version(candidate) == version:
            yield Path(candidate)


def _version(executable: str | Path) -> str:
    asked = subprocess.run(
        [executable, "-c", _QUESTION],
        check=False,
        capture_output=True,
        text=True,
        timeout=ASK_TIMEOUT_S,
    )
    return asked.stdout.strip()
