"""Environments of several Pythons, made beside each other: the server's, and models' with numpy.

Each has what its lock says for its Python. They are kept, and made anew where a lock has changed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.container import ROOT
from tests.support.interpreters import interpreters

LOCKS = ROOT / "requirements"
#: numpy 1.26 has no wheel for Python 3.13, and is compiled: 15 minutes on two cores.
MAKE_TIMEOUT_S = 3600.0


class NotThere(Exception):
    """No Python of that version is here, or its environment could not be made."""


def server(version: str, folder: Path) -> Path:
    """The interpreter of an environment with the server and its tritonserver."""
    locks = (("server.txt", ()), ("triton.txt", ("--no-deps",)))
    return _made(version, folder / f"server-{version}", locks)


def models(version: str, folder: Path) -> Path:
    """The interpreter of an environment with numpy 1 and nothing else."""
    lock = folder / "numpy.txt"
    found = re.search(
        r"^numpy==.*?[^\\]$", (LOCKS / "demo.txt").read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, "demo.txt pins no numpy"
    folder.mkdir(parents=True, exist_ok=True)
    lock.write_text(found[0] + "\n")
    return _made(version, folder / f"models-{version}", ((str(lock), ("--no-deps",)),))


def _made(version: str, folder: Path, locks: Sequence[tuple[str, Sequence[str]]]) -> Path:
    python = folder / "bin/python"
    mark = folder / ".made-of"
    digest = hashlib.sha256(b"".join((LOCKS / name).read_bytes() for name, _ in locks)).hexdigest()
    if mark.is_file() and mark.read_text() == digest:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    interpreter = next(interpreters(version), None)
    if interpreter is None:
        raise NotThere(f"Python {version} is not here")
    _run(interpreter, "-m", "venv", folder)
    for name, options in locks:
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")
        _run(*pip, "install", "--require-hashes", *options, "-r", LOCKS / name)
    mark.write_text(digest)
    return python


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise NotThere(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-600:]}")
