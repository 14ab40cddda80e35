"""Why a verification could not be carried out. Each message is one sentence.

VerificationError
├── RequestsUnusable   the file of requests cannot be read, or holds no request of the v2 protocol
├── NothingToAsk       no requests can be generated for this executor
├── FormUnusable       one of the two forms cannot be published or loaded
└── TritonLost         tritonserver did not start, or died
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class VerificationError(Exception):
    """Nothing can be said about whether the two forms are equal."""


class RequestsUnusable(VerificationError):
    """Where in the file, what was found, what was expected."""

    def __init__(self, path: Path, where: str, found: str, expected: str) -> None:
        place = f"{path}: {where}" if where else f"{path}"
        super().__init__(f"{place}: {found}; expected {expected}")


class NothingToAsk(VerificationError):
    """Inputs of data types whose values nobody here knows how to make."""

    def __init__(self, config: Path, inputs: Iterable[str]) -> None:
        super().__init__(
            f"{config}: no requests can be generated for the data types of its inputs "
            f"{', '.join(inputs)}; give requests with --requests FILE"
        )


class FormUnusable(VerificationError):
    """Which form, and what was said when it was loaded."""

    def __init__(self, form: str, reason: str) -> None:
        self.form = form
        super().__init__(f"{form} cannot be loaded: {reason}")


class TritonLost(VerificationError):
    """There is no tritonserver to ask; its last words are part of the message."""

    def __init__(self, what: str, last_words: str) -> None:
        ending = f"; its last words: {last_words}" if last_words else ""
        super().__init__(f"{what}{ending}")
