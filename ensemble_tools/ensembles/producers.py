"""Producers of an ensemble's columns and tensors: the request, a call, an inline operator, a step.

No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FromRequest:
    """The request that the executor, or the ensemble in its place, is asked."""


@dataclass(frozen=True)
class FromCall:
    """A call of a model of the archive, by its key (wiring.Call)."""

    key: str

    @property
    def step(self) -> str:
        """The step of the ensemble that it is: each call has one of its own."""
        return self.key


@dataclass(frozen=True)
class FromInline:
    """An operator that runs inside the executor, by its key (wiring.Inline)."""

    key: str


@dataclass(frozen=True)
class FromStep:
    """A generated step, which makes each of its tensors for one reader."""

    step: str
    #: A call's key, or ANSWER.
    reader: str


REQUEST = FromRequest()
#: The reader that is the graph's answer; no model directory is called so.
ANSWER = "/answer"
