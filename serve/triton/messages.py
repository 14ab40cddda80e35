"""What tritonserver's messages mean: they, not its statuses, say whose fault a failure is. No I/O.

2.35 and 2.36 answer 400 to nearly everything; since 2.42 there are 404, 500, 501 and 503 as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from enum import Enum

from serve.triton.exhaustion import means_exhaustion
from serve.triton.workflow_failures import (
    FORMATTED,
    WORKFLOW_FAILED,
    find_failed_function,
    in_function,
    speaks_of_columns,
)


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


# Messages quote callers: names of inputs and outputs, and the request's id in front of everything.
# So each pattern is of a whole message, or of its beginning, where no words of a caller stand.
_STEP = r"(?:in ensemble '[^']*', )*"
#: The python backend wraps what a model raised; 2.36 answers it with 400.
_RAISED = r"Failed to process the request\(s\) for model (?:instance )?'[^']*', message: "
_MODEL_RAISED = re.compile(_STEP + _RAISED)
_STUB_DIED = re.compile(_STEP + rf"(?:{_RAISED})?Stub process '[^']*' is not healthy\.?")
#: In a namespace the name stands behind the repository's path: '/repository::name'. The second
#: form is what a model that was unloaded gets when the server went on (seen).
_NOT_LOADED = re.compile(
    _STEP + r"(?:Request for unknown model: '(?P<unknown>[^']*)'"
    r" (?:is not found|has no available versions|version -?\d+ is not found)"
    r"|Identifier of model '(?P<unmapped>[^']*)' is not found in global map"
    r"|Model '(?P<unready>[^']*)' is not ready\.?)"
)
#: A queue that is full, and one that a request stood in for longer than its config lets it.
_QUEUE_REFUSED = re.compile(
    _STEP + r"(?:(?:\[request id: .*\] )?Exceeds maximum queue size|Request timeout expired)",
    re.DOTALL,
)
_UNAVAILABLE = re.compile(
    _STEP + r"(?:(?:\[request id: .*\] )?"
    r"Server is stopping, scheduler for model has stopped accepting new inference requests"
    r"|Server not ready|Server exiting"
    r"|Request for unknown model: '[^']*' version -?\d+ is not at ready state)",
    re.DOTALL,
)
#: A workflow hands its error over and raises none.
_WORKFLOW_FAILED = re.compile(_STEP + WORKFLOW_FAILED)
#: What the step in QueryFeast's place says of its store (ensemble_tools/steps/lookup_model.py).
_STORE_DOWN = re.compile(_STEP + rf"(?:{_RAISED})?QueryFeast: the feature store cannot be asked: ")
#: What the core puts in front where the request has no id.
_NO_ID = "[request id: <id_unknown>] "
#: What the frontend says of a request that it cannot read: 500 since 2.42.
_UNREADABLE = re.compile(
    r"Unable to parse '|Unable to parse JSON bytes array|Unable to set 'classification'"
    r"|failed to parse the request JSON buffer: |Unsupported compression type$"
)
#: Of a model whose answers are not one each, at an endpoint that gives one: the setting's fault.
#: 400 in 2.36, 500 later; under generate 200, where it is found out behind the first answer.
MANY_ANSWERS = (
    "HTTP end point doesn't support models with decoupled transaction policy",
    "generate expects model to produce exactly 1 response, use generate stream for model that",
)
#: What the frontend and the core say of a request that does not fit the model: 400 always, and 404
#: for shared memory.
_UNFIT = re.compile(
    _STEP + r"(?:\[request id: |unexpected inference (?:input|output) '|unexpected size for input '"
    r"|invalid datatype for input |Unable to find shared memory region: '"
    r"|inference header size should be in range |parameter ')"
)


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
    if _STUB_DIED.fullmatch(message):
        return Verdict.STUB_DIED
    if (lost := _NOT_LOADED.fullmatch(message)) and _is_one_of(triton_names, lost):
        return Verdict.NOT_LOADED
    if _UNAVAILABLE.fullmatch(message):
        return Verdict.UNAVAILABLE
    if _QUEUE_REFUSED.fullmatch(message):
        return Verdict.QUEUE_REFUSED
    if _STORE_DOWN.match(message):
        return Verdict.STORE_DOWN
    if message.startswith(MANY_ANSWERS):
        return Verdict.ENDPOINT
    if _UNREADABLE.match(message) or (status < 500 and _UNFIT.match(message)):
        return Verdict.CALLER
    if means_exhaustion(message, body, memory):
        return Verdict.EXHAUSTED
    if _MODEL_RAISED.match(message) or _WORKFLOW_FAILED.match(message) or status >= 500:
        return Verdict.MODEL
    return Verdict.CALLER


def was_carried_out(message: str) -> bool:
    """Whether tritonserver gave the request to a model, as far as the message of its error tells.

    It did not when the model was not there. A caller who makes a model say the same gains nothing.
    """
    not_given = (_STUB_DIED, _NOT_LOADED, _UNAVAILABLE, _QUEUE_REFUSED)
    return not any(pattern.fullmatch(message) for pattern in not_given)


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

    It says so in any place and in any words around it, a traceback for instance: the calling model
    wrote it, and perhaps its caller. It is to be believed only when a stub is missing.
    """
    names = "|".join(map(re.escape, triton_names))
    death = rf"Stub process '(?:[^']*::)?(?:{names})(?:_\d+)*' is not healthy"
    return re.search(death, message) is not None


def _is_one_of(triton_names: Collection[str], lost: re.Match[str]) -> bool:
    name = next(name for name in lost.groups() if name is not None)
    return name.rpartition("::")[2] in triton_names


#: "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: ValueError: boom\n\nAt:"
_REASON = re.compile(
    r"version -?\d+ is at UNAVAILABLE state: (?:[A-Z][a-z]+(?: [a-z]+)?: )?(?P<reason>.+)",
    re.DOTALL,
)
#: A region of the python backend in /dev/shm: container/tritonserver/command.py's prefix and what
#: the backend makes of it, in 2.36 a number, later a UUID.
_REGION = re.compile(r"/?serve_[0-9]+_[0-9a-f]+_[0-9A-Za-z-]+")
_TRACEBACK = "\n\nAt:"


def load_failure_reason(message: str) -> str:
    """The innermost reason in the message of a failed load: for a model that raised, its error.

    The python backend sends the exception first and the places after it; pb_utils' own exceptions
    carry a formatted traceback instead, whose last line is the exception.
    """
    match = _REASON.search(message)  # the first: what the model said comes behind it
    return make_one_sentence(match["reason"] if match else message)


def remove_regions(message: str) -> str:
    """A message without the names of shared memory regions.

    Who knows one could have tritonserver map it and so read and write a model's memory
    (CVE-2025-23319, -23320, -23334): such names are nobody's business outside the container.
    """
    return _REGION.sub("(a shared memory region)", message)


def make_one_sentence(message: str) -> str:
    """A message on one line, without a traceback's places, regions' names and an id of nobody's."""
    message = remove_regions(message).replace(_NO_ID, "")
    reason = message.partition(_TRACEBACK)[0].partition(FORMATTED)[0].rstrip("; \n")
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        lines = lines[-1:]
    return " ".join(lines) or " ".join(message.split())


#: What stands in front of what a model raised: which model, of which ensemble.
_WRAPPER = re.compile(rf"in ensemble '[^']*', |{_RAISED}")
#: Merlin's workflow step: "Error: <class 'KeyError'> - 'x'".
_MERLINS = re.compile(r"Error: <class '(?:[\w.]*\.)?(\w+)'> - ")
#: A message with one of these shows lines of code.
_WITH_CODE = re.compile(
    r'Traceback|^\s*File "|~~~|<--- HERE|\(most recent call|Detected at node|Exception raised from',
    re.MULTILINE,
)
#: How Python and TorchScript write an exception, the last line of theirs.
_EXCEPTION = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: |$)|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+: "
)
#: Lines that say where, and not why.
_PLACE = re.compile(
    r"Node:|\[\[|frame #|Detected at|Exception raised from|\^|During handling|\+-"
    r"|The above exception|.*(?:~~~|<--- HERE|Traceback|File \"|\(most recent call)"
)
#: A place of Python's and TorchScript's, which write code below it, indented.
_INDENTED_PLACE = re.compile(r'\s+File "')
#: What stands in front of the lines of an ExceptionGroup.
_MARGIN = re.compile(r" +\| ?")
_OF_VALUES = re.compile(
    r"out of (?:range|bounds)|\b(?:index|indices|shapes?|sizes?|dimensions?)\b|is not in \["
    r"|could not convert|invalid literal",
    re.IGNORECASE,
)
_FULL_PATH = re.compile(r"(?<![\w.:/])/(?:[^\s/'\":,;()]+/)+(?=[^\s/'\":,;()])")
_UNSAID = "it did not say why in its last words; see the log"


def find_failure_cause(message: str, *, cut: bool = False) -> str:
    """Why a model failed, in one sentence for its caller: no code, no traceback and no paths.

    cut: the message had more words, and the reason stands in the last ones.
    """
    reason = message.replace(_NO_ID, "")
    while wrapped := _WRAPPER.match(reason):
        reason = reason[wrapped.end() :]
    cause = _FULL_PATH.sub("…/", remove_code(_MERLINS.sub(r"\1: ", reason), cut=cut))
    return in_function(find_failed_function(reason), cause)


def remove_code(message: str, *, cut: bool = False) -> str:
    """A message on one line, of which code, tracebacks and regions are left out; cut: as above.

    Models write some that are told as no failure of theirs: a wrong request, a lack of memory.
    """
    reason = remove_regions(message).replace(_NO_ID, "")
    reason = reason.partition(_TRACEBACK)[0].partition(FORMATTED)[0]
    lines = [line.rstrip() for line in reason.rstrip("; \n").splitlines() if line.strip()]
    if _WITH_CODE.search(reason):
        reason = _find_last_reason([_MARGIN.sub("", line, 1) for line in lines], cut=cut)
        return _FULL_PATH.sub("…/", reason)
    return " ".join(map(str.strip, lines))


def speaks_of_values(cause: str) -> bool:
    """Whether a failure's cause speaks of what a request's values and shapes decide."""
    return _OF_VALUES.search(cause) is not None or speaks_of_columns(cause)


def _find_last_reason(lines: list[str], *, cut: bool) -> str:
    """What stands behind the last place of a traceback; else the last exception, or the last line.

    lines: with the indents by which code is known.
    """
    last = max((at for at, line in enumerate(lines) if _INDENTED_PLACE.match(line)), default=-1)
    reasons = [(at, line) for at, line in enumerate(lines) if _is_reason(line, cut=cut)]
    behind = [line for at, line in reasons if 0 <= last < at]
    exceptions = [line for _, line in reasons if _EXCEPTION.match(line)]
    if behind:
        return behind[0]
    return (exceptions or [line for _, line in reasons] or [_UNSAID])[-1]


def _is_reason(line: str, *, cut: bool) -> bool:
    """Whether it says why. Of a message that was cut an exception's line alone does for certain."""
    if line[0].isspace() or _PLACE.match(line):
        return False
    return not cut or _EXCEPTION.match(line) is not None
