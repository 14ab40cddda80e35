"""The first steps of a command of this project: signals, missing packages, and our own protobuf.

Imported before all else by those commands, so it imports next to nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import partial

from ensemble_tools.signals import leave_at_once

TYPE_CHECKING = False  # as in __init__.py
if TYPE_CHECKING:
    from types import TracebackType

#: Packages of this project, which are there or broken.
_OURS = {"container", "ensemble_tools", "serve", "verification"}
#: Merlin's images set it to `python`, the slow protobuf; with `cpp` ours is not imported at all.
_CHOICE = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"


def start_command(command: str, extra: str) -> None:
    """Before a command's other imports: a signal, or a package that is missing, ends it quietly.

    extra: the one of pyproject.toml that brings the packages.
    """
    leave_at_once()
    sys.excepthook = partial(_tell_missing, command, extra)
    import_own_protobuf()


def _tell_missing(
    command: str,
    extra: str,
    kind: type[BaseException],
    error: BaseException,
    at: TracebackType | None,
) -> None:
    """Print a sentence instead of a traceback, as for a Python outside of .venv."""
    name = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    if name.partition(".")[0] in {"", *_OURS}:
        sys.__excepthook__(kind, error, at)
        return
    print(
        f"{command}: the Python package {name!r} is not installed for {sys.executable}; in a "
        "checkout `make setup` installs it for .venv/bin/python, elsewhere pip install "
        f"'.[{extra}]'",
        file=sys.stderr,
    )


def import_own_protobuf() -> None:
    """Import protobuf without an image's choice for its models; processes started later have it.

    The variable is read once. Where protobuf is not installed, whoever needs it says so.
    """
    chosen = os.environ.pop(_CHOICE, None)
    if chosen is not None:
        try:
            with contextlib.suppress(ModuleNotFoundError):
                from google.protobuf.internal import api_implementation  # noqa: F401
        finally:
            os.environ[_CHOICE] = chosen
