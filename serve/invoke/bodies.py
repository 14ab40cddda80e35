"""What came -> what tritonserver is asked, checked or translated; its answer -> what was asked for.

tritonserver is given nothing that it must not be given (request_checks.py), and the very bytes that
were checked.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from serve.errors import BadRequest
from serve.invoke.all_outputs import ask_for_all, is_json
from serve.invoke.compressed_bodies import MOST_INFLATED, inflate, is_compressed
from serve.invoke.headers import ACCEPT_ENCODING, read_headers
from serve.invoke.json.exact_doubles import read_exact_doubles
from serve.invoke.json.tensor_json import NotTaken
from serve.invoke.request import Passage
from serve.invoke.request_checks import CheckedRequest, check_object, check_request, check_strings
from serve.invoke.translation import Translation, in_steps, write_in_json
from serve.invoke.triton_request import TritonRequest
from serve.triton.connection import Answer

#: What may take long goes on beside other requests.
_inflate, _check_strings = in_steps(inflate), in_steps(check_strings)
_read_exact_doubles = in_steps(read_exact_doubles)


class Bodies:
    """Reads requests, and writes answers.

    infers: requests are of the v2 protocol. translation: of large JSON; none where JSON goes to
    tritonserver as it comes, as it must for generate. largest_body: bytes that one may inflate to.
    threshold_setting: what sets from which size on JSON is translated, as a message names it.
    """

    def __init__(
        self,
        infers: bool,
        translation: Translation | None = None,
        largest_body: int = MOST_INFLATED,
        threshold_setting: str = "the threshold",
    ) -> None:
        self._infers, self._translation = infers, translation
        self._largest_body, self._threshold_setting = largest_body, threshold_setting

    async def read(self, passage: Passage) -> TritonRequest:
        """The request for tritonserver. Raises BadRequest, BodyTooLarge, Overloaded, TurnLate."""
        began = time.monotonic()
        try:
            triton_request = await self._read(passage)
        finally:
            passage.request.record.translating_s = time.monotonic() - began
        if self._infers and passage.model.fails_in_part:
            return _ask_for_all(triton_request, passage.model.plan.outputs)
        return triton_request

    async def _read(self, passage: Passage) -> TritonRequest:
        request = passage.request
        body = request.body
        if not any(body):
            raise BadRequest("the body", "nothing", "an inference request of the v2 protocol")
        if is_compressed(request.headers):
            body = await _inflate(body, self._largest_body, passage.hold_derived)
            request.release_body()
        forwarded, size = read_headers(request.headers, body)
        triton_request = TritonRequest(forwarded, body, size)
        translation = self._translation
        if translation is not None and translation.is_worth_it(passage.model, triton_request):
            triton_request = await translation.translate_request(
                passage.model, triton_request, passage.deadline, request.is_wanted, passage.beside
            )
        if triton_request.translated:
            passage.hold_tensors(triton_request)
            text, *tensors = triton_request.body
            # Its strings were written by us.
            checked = check_request(text, sum(map(len, tensors)), self._threshold_setting)
        else:
            if size == 0:  # one tensor and no word about it
                return triton_request
            # tritonserver gets the very bytes that are read here.
            if len(body) > 1 and not (self._infers and size is not None and size <= len(body[0])):
                triton_request = TritonRequest(forwarded, [b"".join(body)], size)
            if not self._infers:
                check_object(triton_request.body[0])
                return triton_request
            text = triton_request.body[0][:size]
            behind = sum(map(len, triton_request.body)) - len(text)
            checked = check_request(text, behind, self._threshold_setting)
            if not checked.strings and not checked.has_doubles:
                return triton_request
            whole = b"".join(triton_request.body)
            triton_request = TritonRequest(forwarded, [whole], size)
            for start, end, count in checked.strings:
                await _check_strings(whole, len(text) + start, len(text) + end, count)
        if checked.has_doubles:  # of a translated one in lists that are too short for that
            tensors = (
                triton_request.body[1:]
                if triton_request.translated
                else [triton_request.body[0][len(text) :]]
            )
            return await _put_exact_doubles(triton_request, checked, text, tensors)
        return triton_request

    async def write(self, passage: Passage, answer: Answer) -> Answer:
        """The answer as it was asked for. Raises what Translation.translate_answer does."""
        triton_request = passage.triton_request
        if self._translation is None:
            if triton_request.translated:
                answer = await write_in_json(triton_request, answer, passage.hold_answer)
            return answer
        began = time.monotonic()
        answer = await self._translation.translate_answer(
            passage.model, triton_request, answer, passage.deadline, passage.hold_answer
        )
        passage.request.record.translating_s += time.monotonic() - began
        return answer


def _ask_for_all(triton_request: TritonRequest, outputs: Sequence[str]) -> TritonRequest:
    """The request that asks for all outputs, where it asks for a part of them."""
    text = triton_request.body[0][: triton_request.json_size]
    whole = ask_for_all(text, outputs) if text else None
    if whole is None:
        return triton_request
    all_of_it, part = whole
    forwarded = [header for header in triton_request.forwarded if header[0] != ACCEPT_ENCODING]
    in_json = frozenset(output.name for output in part if is_json(output))
    return TritonRequest(
        forwarded,
        [all_of_it, triton_request.body[0][len(text) :], *triton_request.body[1:]],
        None if triton_request.json_size is None else len(all_of_it),
        translated=True,
        in_json=triton_request.in_json if triton_request.translated else in_json,
        wanted=tuple(output.name for output in part),
    )


async def _put_exact_doubles(
    triton_request: TritonRequest, checked: CheckedRequest, text: bytes, tensors: Sequence[bytes]
) -> TritonRequest:
    """The request with its FP64 as binary tensors; as it is where tritonserver will refuse it."""
    body = [*checked.written]
    try:
        body = body or await _read_exact_doubles(text, checked.with_doubles, tensors)
    except NotTaken:
        return triton_request
    if len(body) == 1:
        return triton_request
    return replace(triton_request, json_size=len(body[0]), body=body)
