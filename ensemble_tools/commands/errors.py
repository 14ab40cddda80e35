"""What a command refuses besides what the library refuses. Each message is one sentence.

EnsembleToolsError
└── CommandError
    ├── DestinationUnusable  the place to write to is taken, or is not there
    └── NotPlain             a form that a Triton server without this container cannot serve
"""

from __future__ import annotations

from pathlib import Path

from ensemble_tools.errors import EnsembleToolsError


class CommandError(EnsembleToolsError):
    """A command that was given what it cannot work on."""


class DestinationUnusable(CommandError):
    """Nothing was written there."""

    def __init__(self, path: Path, found: str, remedy: str) -> None:
        super().__init__(f"{path}: {found}; {remedy}")


class NotPlain(CommandError):
    """The archive needs this container at run time."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}, and a Triton server without this container would not load them "
            "with it; ship the archive as it is and serve it with this container"
        )
