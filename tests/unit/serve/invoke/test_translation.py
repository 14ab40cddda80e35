"""Which requests are translated, what their headers become, and that others run meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pytest

from serve.errors import CallerError, InvocationFailed
from serve.invoke.json.binary_request import BinaryRequest
from serve.invoke.json.tensor_json import Steps
from serve.invoke.pace import Pace
from serve.invoke.request_checks import check_request
from serve.invoke.translation import FairLock, Translation, TurnLate, stepwise
from serve.invoke.triton_request import TritonRequest
from serve.models.registry import Model
from serve.triton.connection import Answer, Headers
from tests.support.clock import Clock

_FROM_BYTES = 10_000
_WAIT_S = 120.0
#: A deadline that is not met, a caller who is there, and what is held for a request.
_SOON: tuple[float, Callable[[], bool], ExitStack] = (1e9, lambda: True, ExitStack())
_OWN: Headers = [(b"x-own", b"1")]
_BINARY_TYPE = b"application/octet-stream"
_SIZE = b"inference-header-content-length"


def _body(count: int) -> bytes:
    tensor = {"name": "IN", "datatype": "INT32", "shape": [count], "data": [7] * count}
    return json.dumps({"inputs": [tensor]}).encode()


_VERY_LARGE, _LARGE, _SMALL = _body(400_000), _body(5000), _body(3)


def _model() -> Model:
    return Model("m", "/opt/ml/models/x/model")


def _binary_answer(values: list[int]) -> Answer:
    raw = np.array(values, "<i4").tobytes()
    output = {
        "name": "OUT",
        "datatype": "INT32",
        "shape": [len(values)],
        "parameters": {"binary_data_size": len(raw)},
    }
    head = json.dumps({"model_name": "m", "outputs": [output]}).encode()
    headers = [(b"content-type", _BINARY_TYPE), (b"content-length", b"1"), (b"x-triton", b"2")]
    if values:
        headers.append((_SIZE, b"%d" % len(head)))
    return Answer(200, headers, deque([head, raw]))


async def test_large_json() -> None:
    """Large JSON becomes binary tensors under the headers that say so, in however many pieces."""
    pieces = [_LARGE[:7], _LARGE[7:9000], _LARGE[9000:]]
    question = await Translation(_FROM_BYTES).translate_request(
        _model(), TritonRequest(_OWN, pieces), *_SOON
    )
    assert question.translated
    assert question.in_json is None
    size = len(question.body[0])
    assert question.headers == [
        (b"x-own", b"1"),
        (b"content-type", _BINARY_TYPE),
        (_SIZE, b"%d" % size),
    ]
    assert b"".join(question.body)[size:] == np.full(5000, 7, "<i4").tobytes()


async def test_small_json() -> None:
    """Small JSON goes as it came."""
    triton_request = TritonRequest(_OWN, [_SMALL])
    assert (
        await Translation(_FROM_BYTES).translate_request(_model(), triton_request, *_SOON)
        is triton_request
    )


@pytest.mark.parametrize("length", [_FROM_BYTES - 1, _FROM_BYTES])
async def test_from_so_many_bytes_on(length: int) -> None:
    """The limit is a length of the body, and is translated itself."""
    body = _body(3000)
    padded = body + b" " * (length - len(body))
    triton_request = TritonRequest(_OWN, [padded])
    question = await Translation(_FROM_BYTES).translate_request(_model(), triton_request, *_SOON)
    assert question.translated == (length == _FROM_BYTES)


async def test_small_json_to_a_model_of_large_answers() -> None:
    """After a large answer in JSON small requests are translated too, until an answer is small."""
    model, translation = _model(), Translation(_FROM_BYTES)
    triton_request = TritonRequest(_OWN, [_SMALL])
    large = Answer(200, [(b"content-type", b"application/json")], deque([b"{", b" " * _FROM_BYTES]))
    assert await translation.translate_answer(model, triton_request, large, _SOON[0]) is large
    question = await translation.translate_request(model, triton_request, *_SOON)
    assert question.translated
    assert question.headers == [*_OWN, (b"content-type", b"application/json")]
    (head,) = question.body
    assert json.loads(head)["parameters"] == {"binary_data_output": True}
    assert json.loads(head)["inputs"] == json.loads(_SMALL)["inputs"]
    await translation.translate_answer(model, question, _binary_answer([1]), _SOON[0])
    assert await translation.translate_request(model, triton_request, *_SOON) is triton_request


@pytest.mark.parametrize(
    "triton_request",
    [
        TritonRequest(_OWN, [_LARGE], 20),
        TritonRequest([*_OWN, (b"accept-encoding", b"gzip")], [_LARGE]),
        TritonRequest([*_OWN, (b"accept-encoding", b"deflate")], [_LARGE]),
    ],
)
async def test_what_is_no_plain_json(triton_request: TritonRequest) -> None:
    """Binary requests go as they came, and those whose answer may be compressed."""
    assert (
        await Translation(_FROM_BYTES).translate_request(_model(), triton_request, *_SOON)
        is triton_request
    )


@pytest.mark.parametrize("broken", [_LARGE[:-1], _LARGE.replace(b"[5000]", b"[4999]")])
async def test_what_is_not_taken(broken: bytes) -> None:
    """What is not certainly understood goes as it came, for tritonserver to judge."""
    triton_request = TritonRequest(_OWN, [broken])
    assert (
        await Translation(_FROM_BYTES).translate_request(_model(), triton_request, *_SOON)
        is triton_request
    )


@pytest.mark.parametrize("values", [[1, -2, 3], []])
async def test_answers_in_json(values: list[int]) -> None:
    """The answer to a translated question is JSON, its other headers as they were."""
    question = TritonRequest([], [], translated=True)
    answer = await Translation(_FROM_BYTES).translate_answer(
        _model(), question, _binary_answer(values), _SOON[0]
    )
    assert answer.headers == [(b"x-triton", b"2"), (b"content-type", b"application/json")]
    (output,) = json.loads(b"".join(answer.body))["outputs"]
    assert output == {"name": "OUT", "datatype": "INT32", "shape": [len(values)], "data": values}


async def test_an_answer_is_counted_as_it_is_written() -> None:
    """With the tensors that it is written from; what counting raises ends it long before its end.

    A small one is not.
    """
    told: list[int] = []

    def grown(size: int) -> int:
        told.append(size)
        if size > 2_000_000:
            raise LookupError("too much")
        return size

    async def written(count: int) -> Answer:
        question, answer = (
            TritonRequest([], [], translated=True),
            _binary_answer([-1_000_000] * count),
        )
        return await Translation(_FROM_BYTES).translate_answer(
            _model(), question, answer, _SOON[0], grown
        )

    await written(1000)
    assert told == []
    size = sum(map(len, (await written(100_000)).body))
    assert size + 400_000 <= told[-1] < size + 401_000
    with pytest.raises(LookupError, match="too much"):
        await written(400_000)
    assert told[-1] < 2_200_000


async def test_answers_in_binary() -> None:
    """Outputs that the caller wants in binary stay so, and the headers say where they begin."""
    question = TritonRequest([], [], translated=True, in_json=frozenset())
    answer = await Translation(_FROM_BYTES).translate_answer(
        _model(), question, _binary_answer([1, 2]), _SOON[0]
    )
    body = b"".join(answer.body)
    assert answer.header(b"content-type") == _BINARY_TYPE
    assert body[int(answer.header(_SIZE) or 0) :] == np.array([1, 2], "<i4").tobytes()
    assert [name for name, _ in answer.headers].count(_SIZE) == 1


async def test_answers_to_other_questions() -> None:
    """An answer to a question that went as it came goes back as it came."""
    answer = _binary_answer([1, 2])
    assert (
        await Translation(_FROM_BYTES).translate_answer(
            _model(), TritonRequest([], []), answer, _SOON[0]
        )
        is answer
    )


async def test_answers_that_cannot_be_written() -> None:
    """FP16 in JSON is the caller's fault, a broken answer ours; the next request is served."""
    translation, question = Translation(_FROM_BYTES), TritonRequest([], [], translated=True)
    half = _binary_answer([1])
    half.body[0] = half.body[0].replace(b"INT32", b"FP16")
    half.headers[-1] = (_SIZE, b"%d" % len(half.body[0]))
    with pytest.raises(CallerError, match="FP16"):
        await translation.translate_answer(_model(), question, half, _SOON[0])
    broken = _binary_answer([1])
    broken.body.pop()
    with pytest.raises(InvocationFailed, match="cannot be read"):
        await translation.translate_answer(_model(), question, broken, _SOON[0])
    assert (
        await translation.translate_request(_model(), TritonRequest(_OWN, [_LARGE]), *_SOON)
    ).translated


async def test_others_run_meanwhile() -> None:
    """While a large request is translated, other tasks get their turns."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(other())
    body = _body(400_000)
    question = await Translation(_FROM_BYTES).translate_request(
        _model(), TritonRequest(_OWN, [body]), *_SOON
    )
    running.cancel()
    assert question.translated
    assert turns > 5
    turns = 0
    running = asyncio.ensure_future(other())
    values = [*range(400_000)]
    await Translation(_FROM_BYTES).translate_answer(
        _model(), TritonRequest([], [], translated=True), _binary_answer(values), _SOON[0]
    )
    running.cancel()
    assert turns > 5


async def test_cancelled_in_between() -> None:
    """A caller who goes away in the middle holds nobody else up."""
    translation = Translation(_FROM_BYTES)
    triton_request = TritonRequest(_OWN, [_body(400_000)])
    going = asyncio.ensure_future(translation.translate_request(_model(), triton_request, *_SOON))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not going.done()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    question = await asyncio.wait_for(
        translation.translate_request(_model(), triton_request, *_SOON), _WAIT_S
    )
    assert question.translated


async def test_the_turn_comes_too_late() -> None:
    """Waiting for others is bounded by the invocation's limit, both ways, and takes no turn."""
    lock = FairLock()
    translation = Translation(_FROM_BYTES, lock)
    triton_request = TritonRequest(_OWN, [_VERY_LARGE])
    question = await translation.translate_request(_model(), triton_request, *_SOON)
    soon = time.monotonic() + 0.05
    await lock.acquire(_SOON[0])
    with pytest.raises(TurnLate):
        await asyncio.wait_for(
            translation.translate_request(_model(), triton_request, soon, *_SOON[1:]), _WAIT_S
        )
    answer = translation.translate_answer(
        _model(), question, _binary_answer([*range(200_000)]), soon
    )
    with pytest.raises(TurnLate):
        await asyncio.wait_for(answer, _WAIT_S)
    lock.release()
    assert (await translation.translate_request(_model(), triton_request, *_SOON)).translated


async def test_the_turn_comes_too_late_behind_one_that_was_just_given() -> None:
    """The limit holds for whoever comes between the end of one turn and the start of the next."""
    lock = FairLock()
    translation = Translation(_FROM_BYTES, lock)
    triton_request = TritonRequest(_OWN, [_VERY_LARGE])
    await lock.acquire(_SOON[0])
    holder = asyncio.ensure_future(lock.acquire(_SOON[0]))
    await asyncio.sleep(0)
    lock.release()
    soon = time.monotonic() + 0.05
    with pytest.raises(TurnLate):
        await asyncio.wait_for(
            translation.translate_request(_model(), triton_request, soon, *_SOON[1:]), _WAIT_S
        )
    assert holder.done()


def _large(datatype: str = "FP32") -> TritonRequest:
    """Of 700 KB, as many numbers as that are."""
    return TritonRequest(_OWN, [_body(230_000).replace(b"INT32", datatype.encode())])


async def test_who_would_wait_for_long_goes_as_it_came() -> None:
    """As long as there are places beside; each is held until tritonserver has answered."""
    lock = FairLock()
    translation, triton_request = Translation(_FROM_BYTES, lock, beside=1), _large()
    await lock.acquire(_SOON[0])
    with ExitStack() as held:
        began = time.monotonic()
        going = translation.translate_request(_model(), triton_request, *_SOON[:2], held)
        assert await asyncio.wait_for(going, _WAIT_S) is triton_request
        assert time.monotonic() - began > 0.001
        waiting = asyncio.ensure_future(
            translation.translate_request(_model(), triton_request, *_SOON)
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        lock.release()
        assert (await waiting).translated
    await lock.acquire(_SOON[0])
    with ExitStack() as held:
        assert (
            await translation.translate_request(_model(), triton_request, *_SOON[:2], held)
            is triton_request
        )


async def test_a_turn_that_comes_soon_leaves_the_place() -> None:
    """However slow the machine is just then: nothing here goes by how long the work takes."""
    lock, pace, triton_request = FairLock(), Pace(), _large()
    pace.tell(1, -1.0)  # it is worth waiting for hours
    translation = Translation(_FROM_BYTES, lock, beside=1, pace=pace)
    with ExitStack() as held:
        for _ in range(3):
            going = translation.translate_request(_model(), triton_request, *_SOON[:2], held)
            assert (await asyncio.wait_for(going, _WAIT_S)).translated
        await lock.acquire(_SOON[0])
        pace.tell(1, 1e9)  # it is not: who finds a place takes it
        pace.estimate_worth_s(1)
        going = translation.translate_request(_model(), triton_request, *_SOON[:2], held)
        assert await asyncio.wait_for(going, _WAIT_S) is triton_request


async def test_what_tritonserver_reads_less_exactly_waits() -> None:
    lock = FairLock()
    translation = Translation(_FROM_BYTES, lock, beside=1)
    await lock.acquire(_SOON[0])
    waiting = asyncio.ensure_future(translation.translate_request(_model(), _large("FP64"), *_SOON))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    lock.release()
    assert (await waiting).translated


async def test_who_is_cancelled_while_it_waits_leaves_the_place() -> None:
    lock, slow = FairLock(), Pace()
    slow.tell(1, -1.0)  # it is worth waiting for seconds
    translation = Translation(_FROM_BYTES, lock, beside=1, pace=slow)
    await lock.acquire(_SOON[0])
    going = asyncio.ensure_future(translation.translate_request(_model(), _large(), *_SOON))
    await asyncio.sleep(0.01)
    going.cancel()
    await asyncio.wait({going})
    slow.tell(1, 1e9)
    with ExitStack() as held:
        triton_request = _large()
        slow.estimate_worth_s(1)
        assert (
            await translation.translate_request(_model(), triton_request, *_SOON[:2], held)
            is triton_request
        )


_CLIENTS, _TRITON_S, _MEASURED_S = 6, 0.04, 2.0


async def _answered(clock: Clock, translation: Translation | None) -> int:
    """How many large requests are answered in a time, where tritonserver has cores enough."""
    end, count, triton_request = clock() + _MEASURED_S, 0, _large()

    async def client() -> None:
        nonlocal count
        while clock() < end:
            with ExitStack() as held:
                sent = triton_request
                if translation is not None:
                    sent = await translation.translate_request(
                        _model(), triton_request, *_SOON[:2], held
                    )
                if not sent.translated:
                    check_request(sent.body[0], 0, "")  # as every request is that is not
                await asyncio.sleep(_TRITON_S / (10 if sent.translated else 1))
                count += 1

    await asyncio.gather(*(client() for _ in range(_CLIENTS)))
    return count


@pytest.mark.slow
async def test_slow_translation_costs_no_throughput(clock: Clock) -> None:
    """Where it is slower than tritonserver, requests go as they came, but for one now and then.

    Nothing takes any of the clock's time but tritonserver, and a translation five times as much.
    """

    async def slowly(steps: Steps[BinaryRequest]) -> BinaryRequest:
        await asyncio.sleep(5 * _TRITON_S)
        return await stepwise(steps)

    clock.stop()
    translation = Translation(_FROM_BYTES, beside=_CLIENTS, do=slowly, pace=Pace(clock))
    both = asyncio.gather(_answered(clock, None), _answered(clock, translation))
    while not both.done():
        for _ in range(50):
            await asyncio.sleep(0)
        clock.advance(0.01)
    plain, answered = both.result()
    assert plain == _CLIENTS * _MEASURED_S / _TRITON_S
    assert 0.9 * plain <= answered < plain


@pytest.mark.parametrize("given", [False, True])
async def test_a_turn_that_is_not_wanted_any_more(given: bool) -> None:
    """Whoever is cancelled while it waits, or as it gets its turn, leaves it to the next."""
    turn = FairLock()
    await turn.acquire(_SOON[0])
    going, staying = [asyncio.ensure_future(turn.acquire(_SOON[0])) for _ in range(2)]
    await asyncio.sleep(0)
    if given:
        turn.release()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    if not given:
        turn.release()
    await asyncio.wait_for(staying, _WAIT_S)
    turn.release()
    await asyncio.wait_for(turn.acquire(_SOON[0]), _WAIT_S)


async def test_who_is_not_very_large_waits_for_nobody() -> None:
    """Its steps go between those of whoever has the turn."""
    lock = FairLock()
    translation = Translation(_FROM_BYTES, lock)
    await lock.acquire(_SOON[0])
    triton_request = TritonRequest(_OWN, [_LARGE])
    question = await asyncio.wait_for(
        translation.translate_request(_model(), triton_request, *_SOON), _WAIT_S
    )
    assert question.translated
    answer = translation.translate_answer(_model(), question, _binary_answer([1, 2]), _SOON[0])
    assert (await asyncio.wait_for(answer, _WAIT_S)).status == 200


async def test_nobody_waits_any_more() -> None:
    """A caller that left while others were served is not translated for."""
    with pytest.raises(CallerError, match="gone"):
        await Translation(_FROM_BYTES).translate_request(
            _model(), TritonRequest(_OWN, [_LARGE]), _SOON[0], lambda: False, ExitStack()
        )
