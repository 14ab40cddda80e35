"""Why a command stopped, and whose fault it is.

DeployError
├── ConfigurationRefused   CONFIG.toml: every mistake, each with its line
├── Refused                the command's arguments, archive or image
├── MissingRight           AWS says that the caller may not
├── QuotaReached           AWS says that the account may not have more
├── Unreachable            no credentials, no region
│   └── NoAnswer           the network fails, or AWS for a while: asking again may help
├── CallRefused            AWS refuses a call for another reason
│   ├── AlreadyThere       the resource to be made exists
│   ├── NotThere           a resource does not exist, or AWS does not show it yet
│   └── InProgress         another change of the endpoint is under way
└── DeploymentFailed       the endpoint did not come into service
"""

from __future__ import annotations

from collections.abc import Sequence


class DeployError(Exception):
    """Its message is one sentence: what was found, what was expected, what to do."""


class Refused(DeployError):
    """The caller gave a wrong argument, archive or image."""


class ConfigurationRefused(DeployError):
    """mistakes: (line or None, sentence)."""

    def __init__(self, path: str, mistakes: Sequence[tuple[int | None, str]]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(
            "\n".join(
                f"{path}{'' if line is None else f', line {line}'}: {sentence}"
                for line, sentence in mistakes
            )
        )


class MissingRight(DeployError):
    """The caller, or the endpoint's role, lacks a right."""


class QuotaReached(DeployError):
    """A quota of the account."""


class Unreachable(DeployError):
    """No call reached AWS."""


class NoAnswer(Unreachable):
    """AWS did not answer, or answered that it cannot now."""


class CallRefused(DeployError):
    """AWS refuses a call. code: of AWS's error."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class AlreadyThere(CallRefused):
    """AWS also answers so to a call that is sent again because its answer was lost."""


class NotThere(CallRefused):
    """AWS's reads lag behind its writes: a new resource may not be seen yet."""


class InProgress(CallRefused):
    """AWS also answers so to a call that is sent again because its answer was lost."""


class DeploymentFailed(DeployError):
    """The endpoint did not come into service; the message has SageMaker's reason."""
