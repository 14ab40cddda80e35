"""PURE. What tritonserver's messages mean: they, not its statuses, say whose fault a failure is.

2.35 and 2.36 answer 400 to nearly everything; since 2.42 there are 404, 500, 501 and 503 as well.
"""

from __future__ import annotations

import re
from enum import Enum

from serve.exhaustion import means_exhaustion


class Verdict(Enum):
    """Whose fault a failed inference is."""

    CALLER = "caller"
    MODEL = "model"
    STUB_DIED = "stub died"
    NOT_LOADED = "not loaded"
    EXHAUSTED = "exhausted"
    UNAVAILABLE = "unavailable"


_STUB_DIED = re.compile(r"Stub process '?.*'? ?is not healthy", re.DOTALL)
_NOT_LOADED = re.compile(
    r"Request for unknown model: '.*' is not found"
    r"|has no available versions"
    r"|^Model '.*' is not ready"
)
#: The request is no JSON, or not the protocol's; 2.51 answers both with 500.
_UNREADABLE = re.compile(r"^failed to parse the request JSON buffer|^Unable to parse '")
#: The python backend wraps what a model raised; 2.36 answers it with 400.
_MODEL_RAISED = re.compile(r"Failed to process the request\(s\) for model")
_UNAVAILABLE = re.compile(
    r"Server is stopping|server is not ready|exceeds maximum queue size", re.I
)


def judge(status: int, message: str) -> Verdict:
    """Whose fault it is that an inference was answered with this status and message."""
    if _STUB_DIED.search(message):
        return Verdict.STUB_DIED
    if means_exhaustion(message):
        return Verdict.EXHAUSTED
    if _MODEL_RAISED.search(message):
        return Verdict.MODEL
    if _UNAVAILABLE.search(message):
        return Verdict.UNAVAILABLE
    if _NOT_LOADED.search(message):
        return Verdict.NOT_LOADED
    if _UNREADABLE.search(message):
        return Verdict.CALLER
    return Verdict.CALLER if 400 <= status < 500 else Verdict.MODEL


#: "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: ValueError: boom\n\nAt:"
_REASON = re.compile(r"UNAVAILABLE state: (?:[A-Z][a-z]+(?: [a-z]+)?: )?(?P<reason>.+)", re.DOTALL)
_TRACEBACK = "\n\nAt:"


def load_failure_reason(message: str) -> str:
    """The innermost reason in the message of a failed load: for a model that raised, its error.

    The python backend sends the exception first and the places after it; pb_utils' own exceptions
    carry a formatted traceback instead, whose last line is the exception.
    """
    reasons = [part for part in message.split("version ") if "UNAVAILABLE state" in part]
    match = _REASON.search(reasons[-1]) if reasons else None
    return one_sentence(match["reason"] if match else message)


def one_sentence(message: str) -> str:
    """A message without the places that a traceback names, on one line."""
    reason = message.partition(_TRACEBACK)[0]
    lines = [line.strip() for line in reason.strip().splitlines() if line.strip()]
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        lines = lines[-1:]
    return " ".join(lines).rstrip("; ") or message.strip()
