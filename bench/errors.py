"""What can end a run of measurements.

BenchError
├── ProgramMissing      something that must be installed is not
├── ServerFailed        a contender did not start, or ended
├── AnswerWrong         an answer that is not a 200, or not the expected one
└── LoadFailed          wrk reported errors, or nothing at all
"""

from __future__ import annotations


class BenchError(Exception):
    """A measurement could not be made; its text is for people."""


class ProgramMissing(BenchError):
    """A program is not on PATH."""

    def __init__(self, program: str, remedy: str) -> None:
        super().__init__(f"found no {program} on PATH, and it is needed; {remedy}")


class ServerFailed(BenchError):
    """A contender did not become ready, or ended by itself; the end of its log says why."""

    def __init__(self, contender: str, found: str, log_end: str) -> None:
        super().__init__(
            f"{contender}: {found}, expected a running server; its log ends:\n{log_end}"
        )


class AnswerWrong(BenchError):
    """Found before anything was timed: correct numbers are the product."""

    def __init__(self, contender: str, what: str, found: str, expected: str) -> None:
        super().__init__(f"{contender}, {what}: found {found}, expected {expected}")


class LoadFailed(BenchError):
    """What wrk counted as errors, or what it printed instead of its counts."""

    def __init__(self, target: str, found: str) -> None:
        super().__init__(f"wrk on {target}: found {found}, expected answers without errors")
