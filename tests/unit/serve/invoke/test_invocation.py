"""One request to the entry model and its answer back, on a fake tritonserver."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import sys
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from serve.errors import (
    BadRequest,
    BodyTooLarge,
    CallerError,
    InvocationFailed,
    ModelNotLoaded,
    Overloaded,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.invoke.bodies import Bodies
from serve.invoke.compressed_bodies import MOST_INFLATED
from serve.invoke.failures import Failures
from serve.invoke.invocation import Invocation
from serve.invoke.request import Request
from serve.invoke.translation import Translation
from serve.limit import Limit
from serve.models.registry import State
from serve.models.request_queue import MIB, Bounds, HeldBody, RequestQueues
from serve.triton.connection import Answer
from tests.support.clock import Clock
from tests.unit.serve.parts_on_fake import DEAD, WAIT_S, parts_on_fake, until

BINARY = b"application/vnd.sagemaker-triton.binary+json"


async def test_binary_goes_there_and_back(tmp_path: Path) -> None:
    """The header size in SageMaker's form outside, in Triton's inside; the bytes as they are."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        head = b'{"inputs":[{"name":"x","shape":[3],"datatype":"UINT8"'
        head += b',"parameters":{"binary_data_size":3}}]}'
        media_type = BINARY + b";json-header-size=%d" % len(head)
        headers = [(b"content-type", media_type), (b"x-kept", b"1")]
        answer = await on.invocation.forward("m", Request(headers, [head, b"\0\1", b"\xff"]))
        assert b"".join(answer.body) == head + b"\0\1\xff"
        assert answer.header(b"content-type") == media_type
        assert answer.header(b"inference-header-content-length") is None
        assert on.events("infer") == ["infer"]


@pytest.mark.parametrize("datatype", ["UINT8", "BYTES", "FP64"])
async def test_binary_in_any_pieces(tmp_path: Path, datatype: str) -> None:
    """Wherever a body is cut, it goes there to the byte, and is refused for the same reason."""
    tensor = {"UINT8": b"abcdefgh", "BYTES": b"\4\0\0\0abcd", "FP64": b"abcdefgh"}[datatype]
    shape = b"8" if datatype == "UINT8" else b"1"
    both = b'{"inputs":[{"name":"x","shape":[%s],"datatype":"%s"' % (shape, datatype.encode())
    both += b',"parameters":{"binary_data_size":8}}%s]}'
    more = b',{"name":"y","shape":[1],"datatype":"FP64","data":[1.5]}'
    async with parts_on_fake(tmp_path) as on:
        await on.load()

        async def ask(head: bytes, *pieces: bytes) -> bytes | str:
            headers = [(b"content-type", BINARY + b";json-header-size=%d" % len(head))]
            try:
                answer = await on.invocation.forward("m", Request(headers, [*pieces]))
            except BadRequest as error:
                return str(error)
            return b"".join(answer.body)

        for head in (both % b"", both % more):
            for body in (head + tensor, head + tensor + b"!", head + b"\x09" + tensor[1:]):
                whole = await ask(head, body)
                assert whole == body or isinstance(whole, str) or head == both % more
                for first in (1, len(head) - 1, len(head), len(head) + 1, len(body) - 1):
                    for second in (first + 1, len(body)):
                        pieces = body[:first], body[first:second], body[second:]
                        assert await ask(head, *filter(None, pieces)) == whole


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (
            {"status": 400, "message": "unexpected inference input 'out of memory' for model 'm'"},
            CallerError,
            "the inputs: found 'out of memory', which the model has not",
        ),
        ({"status": 500, "message": "Unable to parse 'data': x"}, CallerError, "Unable to parse"),
        ({"status": 415, "message": ""}, CallerError, "no reason was given"),
        ({"status": 500, "message": "my own words"}, InvocationFailed, "model m failed: my own"),
        (
            {
                "status": 400,
                "message": "Failed to process the request(s) for model instance 'm_0',"
                " message: ValueError: boom\n\nAt:\n  /m.py(1): x\n",
            },
            InvocationFailed,
            "boom",
        ),
        (
            {
                "status": 500,
                "message": "Failed to process the request(s) for model 'm_0_0', message:"
                " MemoryError: Unable to allocate 512. TiB\n\nAt:\n  x",
            },
            ResourceExhausted,
            "512",
        ),
        (
            {"status": 503, "message": "[request id: <id_unknown>] Exceeds maximum queue size"},
            Overloaded,
            "a queue of the model m refused the request: ",
        ),
        (
            {"status": 503, "message": "in ensemble 'm', Request timeout expired"},
            Overloaded,
            "a queue of the model m refused the request: .*timeout expired; try again",
        ),
        (
            {"status": 404, "message": "Request for unknown model: 'nowhere' is not found"},
            ServeError,
            "nowhere",
        ),
        ({"garbage": True}, TritonUnavailable, "no HTTP"),
        ({"close_mid_answer": True}, TritonUnavailable, "ended"),
        (
            {"hang": True},
            TritonTimeout,
            "the invocation of the model m took longer than 1 s; raise SERVE_INVOKE_TIMEOUT",
        ),
    ],
    ids=[
        "unexpected input",
        "parse",
        "415",
        "own words",
        "raised",
        "memory",
        "queue",
        "queue's time",
        "bls",
        "garbage",
        "half",
        "hangs",
    ],
)
@pytest.mark.parametrize("operation", ["infer", "generate"])
async def test_answers_that_are_errors(
    tmp_path: Path, wrong: dict[str, Any], error: type[ServeError], says: str, operation: str
) -> None:
    """Each is ours, of the right kind, in one line; nothing stays in flight or is loaded again."""
    knobs: Any = {"infer": {"m": {**wrong, "times": 1}}}
    limit_s = 1.0 if "hang" in wrong else WAIT_S
    async with parts_on_fake(
        tmp_path, invoke_timeout_s=limit_s, operation=operation, **knobs
    ) as on:
        await on.load()
        with pytest.raises(error, match=says) as raised:
            await on.invoke()
        on.invocation.timeout_s = WAIT_S
        assert len(str(raised.value).splitlines()) == 1
        assert on.registry.loaded("m").in_flight == 0
        assert on.events("load") == ["load"]
        assert b"echo" in await on.invoke()


async def test_a_caller_knows_the_model_by_its_own_name(tmp_path: Path) -> None:
    """tritonserver's name of it has its dots written in another way, or a number behind it."""
    said = "'x' of \"a=_b\": in ensemble 'a=_b', model 'a=_b.step' expects 'INT64'; a=_b 'a=_b=-1'"
    knobs: Any = {"infer": {"a=_b": {"status": 400, "message": said, "times": 1}}}
    async with parts_on_fake(tmp_path, **knobs) as on:
        await asyncio.wait_for(on.lifecycle.load("a.b", on.archive()), WAIT_S)
        with pytest.raises(CallerError) as raised:
            await on.invoke("a.b")
        assert str(raised.value) == (
            "'x' of \"a.b\": in ensemble 'a.b', model 'a.b.step' expects 'INT64'; a=_b 'a=_b=-1'"
        )


@pytest.mark.parametrize("operation", ["infer", "generate_stream"])
@pytest.mark.parametrize(
    ("message", "cut"),
    [("boom " + "x" * 100_000, True), ("boom\n\nAt:\n" + "x" * 100_000, False)],
    ids=["words", "traceback"],
)
async def test_a_model_of_many_words(
    tmp_path: Path, message: str, cut: bool, operation: str
) -> None:
    """Its caller gets those that there is room for, and is told when there were more."""
    knobs: Any = {"infer": {"m": {"status": 500, "message": message}}}
    async with parts_on_fake(tmp_path, operation=operation, **knobs) as on:
        await on.load()
        with pytest.raises(InvocationFailed) as raised:
            await on.invocation.forward("m", Request([], [b'{"inputs":[]}']))
        said = str(raised.value)
        assert said.startswith("the model m failed: boom")
        assert len(said) < 66_000
        assert said.endswith("… (cut after 64 KB)" if cut else "boom")
        assert on.registry.loaded("m").in_flight == 0


@pytest.mark.parametrize("body", [[], [b""], [b"", b""]])
async def test_an_empty_body(tmp_path: Path, body: list[bytes]) -> None:
    """The caller's fault, without asking tritonserver."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        with pytest.raises(BadRequest, match="the body: found nothing"):
            await on.invocation.forward("m", Request([], body))
        assert on.events("infer") == []


async def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    """Unknown, or still being loaded."""
    go_on = tmp_path / "go_on"
    async with parts_on_fake(tmp_path, load={"m": {"until": str(go_on)}}) as on:
        with pytest.raises(ModelNotLoaded, match="is not loaded"):
            await on.invoke()
        loading = asyncio.ensure_future(on.load())
        await until(lambda: bool(on.events("load")))
        with pytest.raises(ModelNotLoaded, match="is being loaded"):
            await on.invoke()
        go_on.touch()
        await loading


async def test_a_request_goes_when_its_answer_comes(tmp_path: Path) -> None:
    """Both have room one after the other where they have none together."""
    references: list[int] = []

    class Queues(RequestQueues):
        """Says who has the request whenever more of anything is held."""

        def hold(self, name: str, count: int) -> None:
            references.append(sys.getrefcount(tensor))
            super().hold(name, count)

    queues = Queues(Bounds(held_bytes=4 * MIB, total_held_bytes=4 * MIB))
    async with parts_on_fake(tmp_path, queues=queues) as on:
        await on.load()
        tensor = bytes(bytearray(3 * MIB))
        head = b'{"inputs":[{"name":"x","shape":[%d],"datatype":"UINT8"' % len(tensor)
        head += b',"parameters":{"binary_data_size":%d}}]}' % len(tensor)
        media_type = BINARY + b";json-header-size=%d" % len(head)
        held = HeldBody(queues, "m", 4 * MIB)
        held.grow(len(tensor))
        references.clear()  # from here on what is held is the answer's
        request = Request([(b"content-type", media_type)], [head + tensor[:0], tensor], held=held)
        answer = await on.invocation.forward("m", request)
        assert b"".join(answer.body) == head + tensor
        assert set(references) == {2}
        assert queues.held_bytes < 4 * MIB
        request.release_answer()
        held.release()
        assert queues.held_bytes == 0


@pytest.mark.parametrize("compressed", [True, False])
async def test_what_is_made_of_a_request_is_counted(tmp_path: Path, compressed: bool) -> None:
    """Two bytes of text are eight of a tensor; one that can never have room is too large."""
    data = b",".join([b"0"] * 100_000)
    body = b'{"inputs":[{"name":"x","shape":[100000],"datatype":"FP64","data":[' + data + b"]}]}"
    headers = [(b"content-encoding", b"gzip")] if compressed else []
    came = gzip.compress(body) if compressed else body
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        queues = on.registry.queues
        counted: list[int] = []

        async def infer(*_: Any, **__: Any) -> Answer:
            counted.append(queues.held_bytes)
            return Answer(200, [(b"content-type", b"application/json")], deque([b"{}"]))

        async def triton_request() -> None:
            held = HeldBody(queues, "m", MIB)
            held.grow(len(came))
            try:
                await on.invocation.forward("m", Request(headers, [came], held=held))
            finally:
                held.release()

        on.triton.instead["infer"] = infer
        with pytest.raises(InvocationFailed, match="cannot be read"):
            await triton_request()
        assert 800_000 < counted[0] < 801_000
        assert queues.held_bytes == 0
        in_all = Limit(MIB // 2, "SERVE_MAX_WAITING_TOTAL_MB")
        queues.bounds = Bounds(held_bytes=MIB, total_held_bytes=in_all)
        said = r"more with all that is made of it, expected at most 524288 .*_WAITING_TOTAL_MB\)"
        with pytest.raises(BodyTooLarge, match=said):
            await triton_request()
        assert len(counted) == 1
        assert queues.held_bytes == 0


@pytest.mark.parametrize("large_answers", [True, False])
async def test_json_that_is_too_long_to_be_read(tmp_path: Path, large_answers: bool) -> None:
    """What sets the size from which on JSON is translated is named, also where only its answer is.

    Many short lists stay in the text, which then goes with a wish for binary outputs alone.
    """
    values = b'{"name":"x%d","shape":[1],"datatype":"INT64","data":[1]}'
    body = b'{"inputs":[' + b",".join(values % number for number in range(320_000)) + b"]}"
    assert len(body) > 16 * MIB
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        on.registry.loaded("m").note_answer(large=large_answers)
        invocation = Invocation(
            on.registry,
            on.triton,
            on.revival,
            "infer",
            WAIT_S,
            Bodies(True, Translation(1 << 14), threshold_setting="THE_THRESHOLD"),
            Failures(on.registry, on.revival, "infer", on.triton.memory),
        )
        with pytest.raises(BodyTooLarge, match="or THE_THRESHOLD is against it"):
            await invocation.forward("m", Request([], [body]))
        assert on.events("infer") == []


@pytest.mark.slow
async def test_a_bomb_does_not_hold_the_loop(tmp_path: Path) -> None:
    """While a compressed body is looked at, others are answered."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        bomb = gzip.compress(b"\0" * MOST_INFLATED, 1)
        headers = [(b"content-encoding", b"gzip")]
        looking = asyncio.ensure_future(on.invocation.forward("m", Request(headers, [bomb])))
        answered = 0
        while not looking.done():
            await on.invoke()
            answered += 1
        with pytest.raises(BadRequest, match="bytes of JSON"):
            await looking
        assert answered > 2


async def test_a_stream(tmp_path: Path) -> None:
    """Its pieces as they come; in flight until the last one was read."""
    async with parts_on_fake(tmp_path, operation="generate_stream") as on:
        await on.load()
        model = on.registry.loaded("m")
        answer = await on.invocation.forward("m", Request([], [b'{"say":"hi"}']))
        assert answer.header(b"content-type") == b"text/event-stream"
        assert answer.rest is not None
        assert model.in_flight == 1
        assert b"".join([piece async for piece in answer.rest]).count(b"data: ") == 2
        assert model.in_flight == 0


@pytest.mark.parametrize("pieces", [0, 1])
async def test_a_stream_that_is_closed_early(tmp_path: Path, pieces: int) -> None:
    """Before its first piece too: it is no longer in flight, and an unload does not wait."""
    async with parts_on_fake(tmp_path, operation="generate_stream") as on:
        await on.load()
        body = await on.stream()
        for _ in range(pieces):
            await anext(body)
        body.close()
        body.close()
        assert on.registry.loaded("m").in_flight == 0
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await on.assert_empty()


async def test_a_stream_that_meets_a_loss(tmp_path: Path) -> None:
    """The model is loaded again before the first byte of the answer goes out."""
    knobs: Any = {"infer": {"m": {**DEAD, "times": 1}}}
    async with parts_on_fake(tmp_path, operation="generate_stream", **knobs) as on:
        await on.load()
        body = await on.stream()
        assert b"data: " in b"".join([piece async for piece in body])
        assert on.registry.loaded("m").generation == 1
        assert on.registry.loaded("m").in_flight == 0


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"status": 500, "message": "boom"}, InvocationFailed),
        ({"hang": True}, TritonTimeout),
        ({"garbage": True}, TritonUnavailable),
    ],
)
async def test_a_stream_that_fails_at_its_head(
    tmp_path: Path, wrong: dict[str, Any], error: type[ServeError]
) -> None:
    """An error of ours, and nothing in flight."""
    limit_s = 0.5 if "hang" in wrong else WAIT_S
    options: Any = {
        "operation": "generate_stream",
        "invoke_timeout_s": limit_s,
        "infer": {"m": wrong},
    }
    async with parts_on_fake(tmp_path, **options) as on:
        await on.load()
        with pytest.raises(error):
            await on.stream()
        assert on.registry.loaded("m").in_flight == 0
        assert on.registry.loaded("m").state is State.READY


async def test_a_caller_who_goes_away(tmp_path: Path) -> None:
    """Waiting, he is gone at once; what tritonserver has keeps its place until it is answered."""
    go_on = tmp_path / "go_on"
    async with parts_on_fake(tmp_path, infer={"m": {"until": str(go_on), "times": 1}}) as on:
        await on.load()
        model = on.registry.loaded("m")
        model.queue.open(1)
        first, second = (asyncio.ensure_future(on.invoke()) for _ in range(2))
        await until(lambda: on.events("infer") == ["infer"] and model.queue.waiting == 1)
        third = asyncio.ensure_future(on.invoke())
        await until(lambda: model.queue.waiting == 2)
        for caller in (first, second):
            caller.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert (model.in_flight, model.queue.taken, model.queue.waiting) == (1, 1, 1)
        go_on.touch()
        assert b"echo" in await third
        assert on.events("infer") == ["infer", "infer"]
        assert (model.in_flight, model.queue.taken) == (0, 0)
        assert not on.http.left


async def test_a_caller_who_is_not_waited_for(clock: Clock, tmp_path: Path) -> None:
    """An answer that never comes takes its place twice as long as an invocation may take."""
    knobs: Any = {"infer": {"m": {"hang": True, "times": 1}}}
    async with parts_on_fake(tmp_path, invoke_timeout_s=100, **knobs) as on:
        await on.load()
        model = on.registry.loaded("m")
        model.queue.open(1)
        first = asyncio.ensure_future(on.invocation.forward("m", Request([], [b'{"inputs":[]}'])))
        await until(lambda: on.events("infer") == ["infer"])
        second = asyncio.ensure_future(on.invocation.forward("m", Request([], [b'{"inputs":[]}'])))
        await until(lambda: model.queue.waiting == 1)
        clock.advance(101)
        with pytest.raises(TritonTimeout, match="waiting for others of that model, took longer"):
            await second
        with pytest.raises(TritonTimeout, match="the invocation of the model m took longer"):
            await first
        clock.advance(50)
        third = asyncio.ensure_future(on.invocation.forward("m", Request([], [b'{"inputs":[]}'])))
        await until(lambda: model.queue.waiting == 1)
        assert (model.in_flight, model.queue.taken) == (1, 1)
        clock.advance(55)
        assert b"echo" in b"".join((await third).body)
        assert (model.in_flight, model.queue.taken) == (0, 0)


async def test_the_time_that_was_spent_waiting(clock: Clock, tmp_path: Path) -> None:
    """Who waited for others for most of his time is told so: no higher limit is what he needs."""
    knobs: Any = {"infer": {"m": {"delay_s": 70}}}
    async with parts_on_fake(tmp_path, invoke_timeout_s=100, **knobs) as on:
        await on.load()
        on.registry.loaded("m").queue.open(1)
        first, second = (
            asyncio.ensure_future(on.invocation.forward("m", Request([], [b'{"inputs":[]}'])))
            for _ in range(2)
        )
        await until(lambda: on.events("infer") == ["infer"])
        clock.advance(71)
        assert b"echo" in b"".join((await first).body)
        await until(lambda: on.events("infer") == ["infer"] * 2)
        clock.advance(31)
        with pytest.raises(TritonTimeout, match=r"which waited [789]\d(\.\d+)? s of that for"):
            await second


async def test_a_tritonserver_that_dies_frees_its_places(tmp_path: Path) -> None:
    """Also those of callers who left."""
    async with parts_on_fake(
        tmp_path, dies=True, infer={"m": {"hang": True}}, invoke_timeout_s=20
    ) as on:
        await on.load()
        model = on.registry.loaded("m")
        caller = asyncio.ensure_future(on.invoke())
        await until(lambda: on.events("infer") == ["infer"])
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert (model.in_flight, model.queue.taken) == (0, 1)
        assert on.process.pid is not None
        os.kill(on.process.pid, signal.SIGKILL)
        await until(lambda: model.queue.taken == 0)


async def test_a_stream_holds_a_place(tmp_path: Path) -> None:
    """Until it is read or closed."""
    async with parts_on_fake(tmp_path, operation="generate_stream") as on:
        await on.load()
        model = on.registry.loaded("m")
        model.queue.open(1)
        pieces = await on.stream()
        waits = asyncio.ensure_future(on.stream())
        await until(lambda: model.queue.waiting == 1)
        pieces.close()
        pieces = await asyncio.wait_for(waits, WAIT_S)
        assert model.queue.taken == 1
        pieces.close()
        assert model.queue.taken == 0
