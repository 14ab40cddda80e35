"""Loading a plan and asking its entry model, over the same client that serves invocations."""

from __future__ import annotations

import re
import time

from container.workflows.table_process import TableProcesses
from ensemble_tools import ServingPlan, WorkflowsUnusable, publish
from ensemble_tools.answers.exchange import (
    HEAD_SIZE_HEADER,
    Refusal,
    Reply,
    TensorAnswer,
    TensorRequest,
    decode,
    encode,
)
from ensemble_tools.signals import blocking
from serve.deadline import Deadline
from serve.errors import ServeError, TritonError, TritonTimeout, TritonUnavailable
from serve.limit import TimeLimit
from serve.triton.diagnosis.verdicts import Verdict, read_refusal
from verification.errors import FormUnusable, TritonLost
from verification.serving.server import ANSWER_TIMEOUT_S, Server

#: What a model or tritonserver says of a request, as opposed to accidents.
_JUDGED = {Verdict.CALLER, Verdict.MODEL}
_LONGEST_MESSAGE = 300
#: How the client ends a refusal of a load; nothing of that log is left here.
_CONTAINERS_LOG = "; see the log of the container for more"
_TRACEBACK = "Traceback (most recent call last)"
#: What a container is told to do where the models' Python lacks a library.
_INSTALLED_THERE = re.compile(
    "; install (?:it there or set SERVE_BACKEND_PYTHON|.* into the Python that runs models)"
    "(?:(?P<own>, or put .*)|.*)"
)
_ANOTHER_PYTHON = "; name a Python that has it with --python"
_OURS = ": in a checkout .venv-frameworks/bin/python, which `make setup` makes"
#: How a traceback names what was raised.
_RAISED = re.compile(r"[\w.]+(?:Error|Exception): ")


class Late(Exception):
    """No answer in time; who did not answer will not answer the next request either."""

    def __init__(self, form: str, timeout_s: float) -> None:
        super().__init__(f"the form `{form}` gave no answer within {timeout_s:g} s")


async def load(server: Server, plan: ServingPlan, timeout_s: float) -> float:
    """Publish and load; the seconds that both took.

    Raises FormUnusable with Triton's reason, TritonLost.
    """
    started = time.perf_counter()
    try:
        with blocking():
            publish(plan, server.serving, TableProcesses().write)
    except WorkflowsUnusable as error:  # not NVTabular in its place is to be compared
        name, reason = next(iter(error.reasons.items()))
        raise FormUnusable(f"{name}, compiled,", reason) from error
    try:
        await server.client.control.request_load(
            plan, Deadline(TimeLimit(timeout_s, "SERVE_LOAD_TIMEOUT"))
        )
    except TritonUnavailable as error:
        raise TritonLost(
            f"tritonserver died while {plan.entry} was loaded", server.read_last_words()
        ) from error
    except ServeError as error:
        reason = str(error).removesuffix(_CONTAINERS_LOG)
        raise FormUnusable(f"the form `{plan.form.value}`", name_another_python(reason)) from error
    return time.perf_counter() - started


def name_another_python(reason: str) -> str:
    """The reason, with --python as the remedy where the models' Python lacks a library.

    No environment of ours has a module of the archive's own.
    """
    return _INSTALLED_THERE.sub(lambda it: f"{_ANOTHER_PYTHON}{it['own'] or _OURS}", reason)


async def ask(server: Server, plan: ServingPlan, request: TensorRequest, model: str = "") -> Reply:
    """Send a request to the plan's entry model, or another one of it; raises Late, TritonLost."""
    model = model or plan.entry
    head, content = encode(request.tensors)
    headers = [(HEAD_SIZE_HEADER, b"%d" % len(head))]
    path = f"/v2/models/{model}/infer".encode()
    try:
        answer = await server.client.infer(path, headers, [head, content], ANSWER_TIMEOUT_S)
    except TritonTimeout as error:
        raise Late(model, ANSWER_TIMEOUT_S) from error
    except TritonError as error:
        raise TritonLost(
            f"tritonserver died at the request `{request.title}` to {model}",
            server.read_last_words(),
        ) from error
    if answer.status != 200:
        refused = read_refusal(answer, plan)
        return Refusal(extract_sentence(refused.message), refused.verdict in _JUDGED)
    body = b"".join(answer.body)
    size = answer.header(HEAD_SIZE_HEADER)
    try:
        return TensorAnswer(decode(body, int(size) if size else len(body)))
    except (ValueError, KeyError, TypeError) as error:
        return Refusal(f"its answer cannot be read ({error})", judged=False)


def extract_sentence(message: str) -> str:
    """The fault, without the way there; at most some lines of a terminal.

    Of a Python traceback that is the exception; what the python backend says of one ends where its
    own traceback begins (`At:`); the workflow's model packs one into its line. Of any other message
    it is the first line.
    """
    text = message.partition("\nAt:\n")[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if _TRACEBACK in text:
        candidates = [line for line in lines if _RAISED.match(line)] or lines
        line = candidates[-1]
    else:
        line = lines[0]
    return line.partition(", Traceback: [")[0][:_LONGEST_MESSAGE]
