"""Our own protobuf, whatever an image chooses for its models' one.

Merlin's images set the variable to `python`, the slow one; with `cpp` ours is not imported at all.
Imported before all else, so it imports next to nothing.
"""

from __future__ import annotations

import contextlib
import os

_CHOICE = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"


def import_own_protobuf() -> None:
    """Imports it without the variable, which it reads once; what is started later inherits it.

    Where protobuf is not installed, whoever needs it says so.
    """
    chosen = os.environ.pop(_CHOICE, None)
    if chosen is not None:
        try:
            with contextlib.suppress(ModuleNotFoundError):
                from google.protobuf.internal import api_implementation  # noqa: F401
        finally:
            os.environ[_CHOICE] = chosen
