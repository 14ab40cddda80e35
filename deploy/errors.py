"""Why a command stopped, by whose fault it is.

DeployError
├── ConfigurationRefused   CONFIG.toml: every mistake, each with its line
├── Refused                what the command was asked for, or what it was given
├── MissingRight           AWS says that the caller may not
├── QuotaReached           AWS says that there is no more of it for this account
├── Unreachable            no credentials, no region
│   └── NoAnswer           the network, or AWS for a while: asking again may help
├── CallRefused            AWS refuses a call for another reason
│   ├── AlreadyThere       what a call makes is there
│   ├── NotThere           what a call is about is not there, or cannot be seen yet
│   └── InProgress         the endpoint is in another change
└── DeploymentFailed       the endpoint did not come into service
"""

from __future__ import annotations

from collections.abc import Sequence


class DeployError(Exception):
    """Its message is one sentence: what was found, what was expected, what to do."""


class Refused(DeployError):
    """The caller's: an argument, an archive, an image."""


class ConfigurationRefused(DeployError):
    """Of a configuration file; mistakes are (line or None, sentence)."""

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
    """AWS was not asked."""


class NoAnswer(Unreachable):
    """AWS was asked, and did not answer, or answered that it cannot now."""


class CallRefused(DeployError):
    """AWS's own words for a call; code: its error's."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class AlreadyThere(CallRefused):
    """Also what AWS says to a call that is sent again because its answer was lost."""


class NotThere(CallRefused):
    """AWS's reads lag behind its writes: what was made a moment ago may not be seen yet."""


class InProgress(CallRefused):
    """One change at a time; also the answer to a call that is sent again, its answer lost."""


class DeploymentFailed(DeployError):
    """What SageMaker, or the container's log, says of it."""
