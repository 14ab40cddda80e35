"""What tritonserver means by an answer that is no 200, and the words of it. No I/O."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ensemble_tools import ServingPlan
from serve.triton.connection import Answer
from serve.triton.messages import Verdict, judge

#: In front of an error under generate_stream.
_EVENT = b"data: "
#: A character that JSON writes by its number has so many letters.
_LONGEST_ESCAPE = 6


@dataclass(frozen=True)
class Refusal:
    """An inference that was not carried out, and whose fault that is.

    cut: the message had more words than are kept. logged: the message for the log, where that is to
    be another one.
    """

    verdict: Verdict
    message: str
    cut: bool = False
    logged: str = ""


def read_refusal(
    answer: Answer, plan: ServingPlan, body: Sequence[bytes] = (), memory: float = math.inf
) -> Refusal:
    """What an answer of the plan's entry model that is no 200 means.

    body: what the caller wrote, in pieces; words of his prove no lack of memory. memory: bytes that
    the machine has.
    """
    message = read_message(answer)
    verdict = judge(answer.status, message, plan.triton_names, body, memory)
    return Refusal(verdict, message, answer.cut)


def read_message(answer: Answer) -> str:
    """What it says, as far as it has come."""
    body = b"".join(answer.body)
    return _read_cut_message(body) if answer.cut else read_error_message(body)


def read_error_message(body: bytes) -> str:
    """The text of Triton's error body, or the body itself when it is none.

    Under generate_stream an error is a server-sent event.
    """
    try:
        error = json.loads(body.removeprefix(_EVENT))["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return body.decode(errors="replace").strip()
    return str(error)


def _read_cut_message(body: bytes) -> str:
    """As read_error_message, for the beginning of a body, which may end inside an escape."""
    text = body.removeprefix(_EVENT).decode(errors="replace")
    for dropped in range(_LONGEST_ESCAPE):
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            return str(json.loads(text[: len(text) - dropped] + '"}')["error"])
    return text.strip()
