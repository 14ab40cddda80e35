"""What keeps a replay from being done, as one sentence for the person who asked for it.

ReplayError
├── UnusableModel      the model folder or its request: found, expected, remedy
├── UnusableReport     no files can be written where the report is wanted
├── EndpointTrouble    the endpoint does not start, is not there, or is another one
└── Interrupted        Ctrl-C or SIGTERM before there was anything to report
"""

from __future__ import annotations

from typing import ClassVar


class ReplayError(Exception):
    """The replay cannot be done."""


class UnusableModel(ReplayError):
    """The model folder, or the request for it, is not what a replay needs."""


class UnusableReport(ReplayError):
    """The folder for what the replay writes cannot be had."""


class EndpointTrouble(ReplayError):
    """The endpoint cannot be asked."""


class Interrupted(ReplayError):
    """Somebody ended the replay before the traffic began."""

    REASON: ClassVar[str] = "interrupted"

    def __init__(self) -> None:
        super().__init__("interrupted before the traffic began; there is no report")
