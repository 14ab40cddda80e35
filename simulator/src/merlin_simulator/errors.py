"""What the platform tells a caller of InvokeEndpoint, by whose fault it is. No HTTP numbers here.

SimulatorError
├── InvalidRequest             the request itself: a field, a header, the target model's name
│   └── TargetModelRefused     a target model on an endpoint that serves one model only
├── EndpointNotFound           another endpoint's name
├── ArchiveUnavailable         the archive's fault: it is not there, or may not be read
│   └── ArchiveUnusable        it is there, and is no archive that may be extracted
├── ImageUnavailable           the container's image: it is not there, or cannot be pulled
├── ModelNotReady              the model is still being downloaded or loaded
├── ContainerFailed            the container answered with an error, or not at all
├── NoInstance                 no instance is in service
└── PlatformFailed             ours, or the store's: S3 down, disk full
"""

from __future__ import annotations


class SimulatorError(Exception):
    """Whatever a caller of the runtime API may be told; the message is one sentence for people."""


class InvalidRequest(SimulatorError):
    """The request cannot be carried out as it stands: what was found, expected, and the remedy."""


class TargetModelRefused(InvalidRequest):
    """A target model was named on an endpoint that serves one model."""


class EndpointNotFound(SimulatorError):
    """There is no endpoint of that name, or none yet; played: the only one, where that is so."""

    def __init__(self, asked: str, played: str | None = None) -> None:
        only = f": this simulator plays {played}." if played else "."
        super().__init__(f"Endpoint {asked} of account {ACCOUNT} not found{only}")


class ArchiveUnavailable(SimulatorError):
    """The archive cannot be had: it does not exist, or may not be read."""

    failed_step = "download"

    def __init__(self, bucket: str, key: str, reason: str) -> None:
        location = f"(bucket: {bucket}, key: {key})"
        super().__init__(f"Failed to {self.failed_step} model data {location}. {reason}")


class ArchiveUnusable(ArchiveUnavailable):
    """The file is no archive, or none that may be extracted."""

    failed_step = "extract"


class ImageUnavailable(SimulatorError):
    """No container can be made: its image is not there, or cannot be pulled. A FailureReason."""


class ModelNotReady(SimulatorError):
    """The model is still being downloaded or loaded, which goes on; the caller may try again."""

    def __init__(self, target_model: str, waited_s: float) -> None:
        super().__init__(
            f"Model {target_model} is not ready after {waited_s:g} s: "
            "it is still being downloaded or loaded; try again later."
        )


class ContainerFailed(SimulatorError):
    """The container's fault, or the model's in it.

    status is the container's HTTP status, 0 where it did not answer in time (as SageMaker has it);
    original is its body as text, what it was doing is told by doing ("load", "invoke").
    """

    def __init__(self, doing: str, status: int, original: str) -> None:
        super().__init__(original)
        self.doing, self.status, self.original = doing, status, original


class NoInstance(SimulatorError):
    """No instance of the endpoint is in service; the message says what each of them does."""


class PlatformFailed(SimulatorError):
    """Ours, or the archive store's: not the caller's, the archive's or the container's fault."""


#: The account in messages and names, as AWS's documents write one.
ACCOUNT = "123456789012"
