"""What a replay is asked to do, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
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


def read_capture_path(text: str) -> Path:
    """Raises ValueError for an address, and for no path."""
    if not text:
        raise ValueError("found an empty path, expected that of a data capture")
    if text.startswith("s3://"):
        raise ValueError(f"{text} is no path; copy it first: aws s3 sync {text} DIR")
    if "://" in text and not Path(text).exists():
        raise ValueError(f"{text} is no path; download it first")
    return Path(text)


#: The endpoint's name where the replay starts it.
OWN_ENDPOINT = "replay"


@dataclass(frozen=True)
class Settings:
    """The load, and the endpoint that it is for."""

    models: int = 200
    zipf: float = 1.1  # the exponent, 0 being every model alike
    rps: float = 50.0  # the mean rate of arrivals
    duration_s: float = 60.0
    seed: int = 1
    outstanding: int = 512  # bounds the requests that wait for an answer at one time
    instances: int = 1
    memory: str | None = None  # as it was written (4GB), as are disk and cache (Disabled)
    disk: str | None = None
    model: Path | None = None
    request: Path | None = None
    cache: str | None = None
    capture: Path | None = None  # whose requests are sent in the place of drawn ones
    speed: float = 1.0  # of the capture
    #: Of one that somebody else runs, with the archives in its store.
    endpoint_url: str | None = None
    endpoint_name: str = OWN_ENDPOINT
