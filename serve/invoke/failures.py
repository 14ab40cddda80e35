"""An answer that is no 200 -> whose fault it is, and the error that the caller is told."""

from __future__ import annotations

import re
from dataclasses import replace

from serve.errors import CallerError, FailedAtRequest, InvocationFailed, ServeError
from serve.invoke.column_mistakes import find_mistake
from serve.invoke.triton_request import TritonRequest
from serve.models.registry import MOST_FAILURES, Model, Registry, State
from serve.models.revival import Revival
from serve.triton.connection import MOST_OF_ERROR, Answer
from serve.triton.diagnosis.model_errors import (
    find_failure_cause,
    is_never_the_callers,
    refused_by_step,
    remove_code,
    remove_regions,
    speaks_of_values,
)
from serve.triton.diagnosis.request_mistakes import explain_refusal
from serve.triton.diagnosis.verdicts import (
    SENTENCES,
    FailedInference,
    Verdict,
    find_dead_model,
    quotes_a_death,
    read_refusal,
)

#: Stands at the end of what a model said, where that is not all of it.
_CUT = f"… (cut after {MOST_OF_ERROR // 1024} KB)"

_NO_REASON = "no reason was given"


class Failures:
    """Reads what tritonserver refuses.

    operation: the last part of Triton's path. memory: bytes that the machine has. streaming: what
    makes an endpoint that streams, as a message names it.
    """

    def __init__(
        self,
        registry: Registry,
        revival: Revival,
        operation: str,
        memory: float,
        streaming: str = "generate_stream",
    ) -> None:
        self._registry, self._revival = registry, revival
        self._operation, self._memory, self._streaming = operation, memory, streaming

    async def read(
        self, model: Model, generation: int, triton_request: TritonRequest, answer: Answer
    ) -> FailedInference:
        """Reads an answer that is no 200; tells the registry if stubs of that generation died."""
        if answer.rest is not None:
            answer.body.extend([piece async for piece in answer.rest])
        plan = model.plan
        refused = read_refusal(answer, plan, triton_request.body, self._memory)
        if answer.status == 400 and not refused.message and self._operation != "infer":
            return FailedInference(Verdict.ENDPOINT, _describe_unknown(self._operation))
        if refused.verdict is Verdict.STUB_DIED:
            dead = find_dead_model(refused.message, plan.triton_names) or plan.entry
            self._registry.note_lost(model, generation, dead)
        elif plan.called and quotes_a_death(refused.message, plan.triton_names):
            return await self._find_dead_called_model(model, generation, refused)
        return refused

    async def _find_dead_called_model(
        self, model: Model, generation: int, refused: FailedInference
    ) -> FailedInference:
        """The refusal itself, unless a stub has really died.

        What a model raises may repeat what its caller wrote, so the text alone is no proof.
        """
        dead = await self._revival.find_dead_stubs(model)
        for name in dead:
            self._registry.note_lost(model, generation, name)
        known = model.generation != generation or model.state is State.RELOADING
        return FailedInference(Verdict.STUB_DIED, refused.message) if dead or known else refused

    def error(
        self, model: Model, triton_request: TritonRequest, refused: FailedInference
    ) -> ServeError:
        """The error for it: in our words instead of tritonserver's, where ours say more."""
        explanation = explain_refusal(
            _name_model(refused.message, model),
            triton_request.body,
            lambda: model.plan.inputs,
            self._streaming,
            lambda: model.plan.outputs,
        )
        return _translate(
            model,
            replace(refused, message=explanation.said, logged=explanation.logged),
            triton_request,
        )


def _name_model(message: str, model: Model) -> str:
    """The message with the caller's name of the model in the place of tritonserver's."""
    entry = model.plan.entry
    if entry == model.name:
        return message
    return re.sub(rf"(?<=['\"]){re.escape(entry)}(?=['\".])", model.name, message)


def _describe_unknown(operation: str) -> str:
    """tritonserver 2.36 answers 400, and says nothing, where it does not know the path."""
    return (
        f"this tritonserver does not know `{operation}`; use a newer one, or another inference type"
    )


def _translate(model: Model, refused: FailedInference, triton_request: TritonRequest) -> ServeError:
    """Ours for Triton's: who is at fault decides what the caller is told."""
    if refused.verdict is Verdict.MODEL:
        return _translate_failure(model, refused, triton_request)
    mark = _CUT if refused.cut else ""  # behind a traceback nobody misses what is cut
    message = remove_code(refused.message + mark, cut=refused.cut) or _NO_REASON
    if refused.verdict is Verdict.CALLER:
        error = CallerError(refused_by_step(find_failure_cause(message)) or message)
        error.without_values = refused.logged
        return error
    if refused.verdict in SENTENCES:
        error_class, sentence = SENTENCES[refused.verdict]
        return error_class(sentence.format(model=model.name, message=message))
    cause = find_failure_cause(refused.message + mark, cut=refused.cut)
    return InvocationFailed(f"the model {model.name} failed: {cause}")


def _translate_failure(
    model: Model, refused: FailedInference, triton_request: TritonRequest
) -> ServeError:
    """The error for what a model raised, without its code; the log has all of it.

    It is the request's fault where that has a mistake in it, and may be where the model answers
    other requests, or speaks of values before it has answered any. A model that fails at one
    request after the other is at fault itself, and so is one whose code lacks a name or a module.
    """
    mark = _CUT if refused.cut else ""
    cause = find_failure_cause(refused.message + mark, cut=refused.cut) or _NO_REASON
    mistake = _find_mistake(model, cause, triton_request) if model.plan.has_columns else None
    failures = 0 if mistake else model.count_failure()
    error: ServeError
    if mistake:
        error = CallerError(mistake)
    elif is_never_the_callers(cause):
        error = InvocationFailed(f"the model {model.name} failed: {cause}")
    elif failures <= MOST_FAILURES:
        error = FailedAtRequest(
            f"the model {model.name} failed at this request, and answers others: {cause}"
        )
    elif failures <= 2 * MOST_FAILURES and speaks_of_values(cause):
        error = FailedAtRequest(f"the model {model.name} failed at this request: {cause}")
    else:
        error = InvocationFailed(f"the model {model.name} failed: {cause}")
    everything = " ".join(remove_regions(refused.message).split())
    error.without_values = f"the model {model.name} failed: {everything}"
    return error


def _find_mistake(model: Model, cause: str, triton_request: TritonRequest) -> str | None:
    """The request's, in words; None where none is found."""
    if refused := refused_by_step(cause):
        return refused
    mistake = find_mistake(triton_request.body, triton_request.json_size)
    return f"{mistake}; the model {model.name} failed: {cause}" if mistake else None
