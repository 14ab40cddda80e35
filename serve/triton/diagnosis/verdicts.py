"""Whose fault a failed inference is: tritonserver's message says it, its status does not. No I/O.

2.35 and 2.36 answer 400 to nearly everything; since 2.42 there are 404, 500, 501 and 503 as well.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ensemble_tools import ServingPlan
from serve.errors import (
    InvocationFailed,
    Overloaded,
    ResourceExhausted,
    ServeError,
    StoreUnavailable,
    TritonUnavailable,
)
from serve.triton.connection import Answer
from serve.triton.diagnosis.exhaustion import means_exhaustion
from serve.triton.diagnosis.model_errors import RAISED, WORKFLOW_FAILED


class Verdict(Enum):
    """Whose fault a failed inference is."""

    CALLER = "caller"
    MODEL = "model"
    STUB_DIED = "stub died"
    NOT_LOADED = "not loaded"
    EXHAUSTED = "exhausted"
    UNAVAILABLE = "unavailable"
    QUEUE_REFUSED = "queue refused"
    STORE_DOWN = "store down"
    ENDPOINT = "endpoint"


#: The error for the caller, and its sentence. A verdict that is not here depends on more than the
#: message (serve/invoke/failures.py).
SENTENCES: Mapping[Verdict, tuple[type[ServeError], str]] = {
    Verdict.EXHAUSTED: (ResourceExhausted, "no resources to invoke the model {model}: {message}"),
    Verdict.STORE_DOWN: (StoreUnavailable, "the model {model} cannot answer now: {message}"),
    Verdict.QUEUE_REFUSED: (
        Overloaded,
        "a queue of the model {model} refused the request: {message}",
    ),
    Verdict.UNAVAILABLE: (TritonUnavailable, "{message}"),
    Verdict.ENDPOINT: (InvocationFailed, "{message}"),
}

# Messages quote callers: names of inputs and outputs, and the request's id in front of everything.
# So each pattern is of a whole message, or of its beginning, where no words of a caller stand.
_STEP = r"(?:in ensemble '[^']*', )*"
#: Whole messages, asked first: no model was given the request.
_NOT_GIVEN: Mapping[Verdict, re.Pattern[str]] = {
    Verdict.STUB_DIED: re.compile(_STEP + rf"(?:{RAISED})?Stub process '[^']*' is not healthy\.?"),
    # In a namespace the name stands behind the repository's path: '/repository::name'. The second
    # form is what a model that was unloaded gets when the server went on (seen).
    Verdict.NOT_LOADED: re.compile(
        _STEP + r"(?:Request for unknown model: '(?P<unknown>[^']*)'"
        r" (?:is not found|has no available versions|version -?\d+ is not found)"
        r"|Identifier of model '(?P<unmapped>[^']*)' is not found in global map"
        r"|Model '(?P<unready>[^']*)' is not ready\.?)"
    ),
    Verdict.UNAVAILABLE: re.compile(
        _STEP + r"(?:(?:\[request id: .*\] )?"
        r"Server is stopping, scheduler for model has stopped accepting new inference requests"
        r"|Server not ready|Server exiting"
        r"|Request for unknown model: '[^']*' version -?\d+ is not at ready state)",
        re.DOTALL,
    ),
    # A queue that is full, and one that a request stood in for longer than its config lets it.
    Verdict.QUEUE_REFUSED: re.compile(
        _STEP + r"(?:(?:\[request id: .*\] )?Exceeds maximum queue size|Request timeout expired)",
        re.DOTALL,
    ),
}
#: Of a model whose answers are not one each, at an endpoint that gives one: the setting's fault.
#: 400 in 2.36, 500 later; under generate 200, where it is found out behind the first answer.
MANY_ANSWERS = (
    "HTTP end point doesn't support models with decoupled transaction policy",
    "generate expects model to produce exactly 1 response, use generate stream for model that",
)
#: Beginnings of messages, asked next, with the lowest status from which they mean something else.
_BEGINNINGS: Sequence[tuple[Verdict, float, re.Pattern[str]]] = (
    # What the step for QueryFeast says of its store (ensemble_tools/steps/lookup_model.py).
    (
        Verdict.STORE_DOWN,
        math.inf,
        re.compile(_STEP + rf"(?:{RAISED})?QueryFeast: the feature store cannot be asked: "),
    ),
    (Verdict.ENDPOINT, math.inf, re.compile("|".join(map(re.escape, MANY_ANSWERS)))),
    # What the frontend says of a request that it cannot read: 500 since 2.42.
    (
        Verdict.CALLER,
        math.inf,
        re.compile(
            r"Unable to parse '|Unable to parse JSON bytes array|Unable to set 'classification'"
            r"|failed to parse the request JSON buffer: |Unsupported compression type$"
        ),
    ),
    # What the frontend and the core say of a request that does not fit the model: 400 always, and
    # 404 for shared memory.
    (
        Verdict.CALLER,
        500,
        re.compile(
            _STEP + r"(?:\[request id: |unexpected inference (?:input|output) '"
            r"|unexpected size for input '|invalid datatype for input "
            r"|Unable to find shared memory region: '"
            r"|inference header size should be in range |parameter ')"
        ),
    ),
)
#: Asked last, after means_exhaustion. A workflow hands its error over and raises none; 2.36 answers
#: 400 to what a model raised.
_MODEL_FAILED = re.compile(_STEP + rf"(?:{RAISED}|{WORKFLOW_FAILED})")


def judge(
    status: int,
    message: str,
    triton_names: Collection[str],
    body: Sequence[bytes] = (),
    memory: float = math.inf,
) -> Verdict:
    """Whose fault it is that an inference was answered with this status and message.

    body: what the caller wrote, in pieces. A message may repeat it, and a model, too: what stands
    there is no word of tritonserver's. memory: bytes that the machine has.

    triton_names: the models that the inference goes through. A model that calls others may pass on
    that one of those is unknown; loading its own again would not help.
    """
    for verdict, pattern in _NOT_GIVEN.items():
        match = pattern.fullmatch(message)
        if match and (verdict is not Verdict.NOT_LOADED or _is_one_of(triton_names, match)):
            return verdict
    for verdict, end, pattern in _BEGINNINGS:
        if status < end and pattern.match(message):
            return verdict
    if means_exhaustion(message, body, memory):
        return Verdict.EXHAUSTED
    if status >= 500 or _MODEL_FAILED.match(message):
        return Verdict.MODEL
    return Verdict.CALLER


def was_carried_out(message: str) -> bool:
    """Whether tritonserver gave the request to a model, as far as the message of its error tells.

    It did not when the model was not there. A caller who makes a model say the same gains nothing.
    """
    return not any(pattern.fullmatch(message) for pattern in _NOT_GIVEN.values())


def find_dead_model(message: str, triton_names: Collection[str]) -> str | None:
    """Which of the models a message with the verdict STUB_DIED is about, if it says so.

    It names the instance: the model's name, its version or group, and a number.
    """
    instance = message.rpartition("Stub process '")[2].partition("'")[0].rpartition("::")[2]
    fitting = [
        name for name in triton_names if re.fullmatch(re.escape(name) + r"(?:_\d+)*", instance)
    ]
    return max(fitting, key=len, default=None)


def quotes_a_death(message: str, triton_names: Collection[str]) -> bool:
    """Whether the message of a model that calls others says that the stub of one of them died.

    It says so anywhere and in any words around it, a traceback for instance: the calling model
    wrote it, and perhaps its caller. It is to be believed only when a stub is missing.
    """
    names = "|".join(map(re.escape, triton_names))
    death = rf"Stub process '(?:[^']*::)?(?:{names})(?:_\d+)*' is not healthy"
    return re.search(death, message) is not None


def _is_one_of(triton_names: Collection[str], lost: re.Match[str]) -> bool:
    name = next(name for name in lost.groups() if name is not None)
    return name.rpartition("::")[2] in triton_names


#: In front of an error under generate_stream.
_EVENT = b"data: "
#: A character that JSON writes by its number has so many letters.
_LONGEST_ESCAPE = 6


@dataclass(frozen=True)
class FailedInference:
    """An inference that was not carried out, and whose fault that is."""

    verdict: Verdict
    message: str
    cut: bool = False  # the message had more words than are kept
    logged: str = ""  # the message for the log, where that is to be another one


def read_refusal(
    answer: Answer, plan: ServingPlan, body: Sequence[bytes] = (), memory: float = math.inf
) -> FailedInference:
    """Reads an answer of the plan's entry model that is no 200.

    body: what the caller wrote, in pieces; words of his prove no lack of memory. memory: bytes that
    the machine has.
    """
    message = read_message(answer)
    verdict = judge(answer.status, message, plan.triton_names, body, memory)
    return FailedInference(verdict, message, answer.cut)


def read_message(answer: Answer) -> str:
    """Its message, as far as it has come."""
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
