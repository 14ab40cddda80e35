"""Which requests are asked of candidates, when, and how much is held for that, on a fake."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import logging
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serve.invoke.bodies import Bodies
from serve.invoke.comparing import ComparedInvocation, Comparing, lay_side_by_side
from serve.invoke.failures import Failures
from serve.invoke.headers import HEADER_LENGTH
from serve.invoke.request import Request
from serve.models.candidates import LifecycleBesideCandidates
from serve.models.registry import Model
from serve.telemetry.candidate_metrics import CandidateMetrics
from serve.telemetry.captures import CaptureQueue
from serve.telemetry.invocation_record import target_model
from serve.triton.connection import Answer
from tests.fakes import tritonserver as fake
from tests.unit.serve.parts_on_fake import WAIT_S, PartsOnFake, invocation_of, parts_on_fake, until

BODY = b'{"inputs":[]}'


@dataclass
class Asking:
    """A model m with its candidate, loaded, and who asks both."""

    on: PartsOnFake
    comparing: Comparing
    invocation: ComparedInvocation
    archive: Path  # of m

    @property
    def model(self) -> Model:
        return self.on.registry.loaded("m")

    @property
    def candidates_requests(self) -> int:
        """How many it got."""
        events = fake.read_record(self.on.record)
        return sum(it["event"] == "infer" and it["model"] == "m=candidate" for it in events)

    async def ask(self, body: bytes = BODY) -> None:
        """Returns when the model has answered, and its candidate if it is asked."""
        await asyncio.wait_for(self.invocation.forward("m", Request([], [body])), WAIT_S)
        await until(lambda: self.comparing.held_bytes == 0)


@contextlib.asynccontextmanager
async def asking(
    tmp_path: Path,
    percent: float = 100,
    lot: Callable[[], float] = lambda: 0.5,
    most_bytes: int = 1 << 20,
    patience_s: float = WAIT_S,
    timeout_s: float = WAIT_S,
    captures: CaptureQueue | None = None,
    **knobs: Any,
) -> AsyncIterator[Asking]:
    """On a fake with these knobs."""
    async with parts_on_fake(tmp_path, lifecycle_class=LifecycleBesideCandidates, **knobs) as on:
        assert isinstance(on.lifecycle, LifecycleBesideCandidates)
        candidates = on.lifecycle.candidates
        comparing = Comparing(
            candidates,
            on.triton,
            CandidateMetrics(),
            percent,
            timeout_s,
            most_bytes,
            lot,
            patience_s,
            captures,
        )
        failures = Failures(on.registry, on.revival, "infer", on.triton.memory)
        parts = (on.registry, on.triton, on.revival, "infer", WAIT_S, Bodies(True), failures)
        archive = Path(on.archive())
        shutil.copytree(archive, archive / "candidate")
        await asyncio.wait_for(on.lifecycle.load("m", str(archive)), WAIT_S)
        await until(lambda: candidates.find(on.registry.loaded("m")) is not None)
        invocation = ComparedInvocation(*parts, comparing=comparing)
        yield Asking(on, comparing, invocation, archive)


@pytest.mark.parametrize(("percent", "expected"), [(100, 20), (25, 5), (5, 1), (0.5, 0)])
async def test_percent(tmp_path: Path, percent: float, expected: int) -> None:
    """The lot decides, evenly: of twenty evenly spread lots so many are below the share."""
    lots = itertools.count()
    async with asking(tmp_path, percent, lambda: next(lots) % 20 / 20 + 0.005) as both:
        for _ in range(20):
            await both.ask()
        assert both.candidates_requests == expected


async def test_bytes(tmp_path: Path) -> None:
    """A request, its answer and the candidate's together have at most so many bytes; what has more
    is answered as ever, and nothing of it stays."""
    async with asking(tmp_path, most_bytes=50_000) as both:
        small, large, larger = (
            b'{"inputs":[],"x":"%s"}' % (b"x" * size) for size in (10, 20_000, 60_000)
        )
        asked = []
        for body in (small, large, larger, small):
            await both.ask(body)
            asked.append(both.candidates_requests)
        # The fake's answer repeats the request: the large one's does not fit beside the model's.
        assert asked == [1, 2, 2, 3]
        assert isinstance(both.on.lifecycle, LifecycleBesideCandidates)
        candidate = both.on.lifecycle.candidates.find(both.model)
        assert candidate is not None
        assert candidate.failures == 0  # reset by the last


async def test_bytes_of_others(tmp_path: Path) -> None:
    """They leave a candidate's answer no room, which is no failure of its."""
    hangs = {"n=candidate": {"hang": True}}
    async with asking(tmp_path, most_bytes=90_000, infer=hangs) as both:
        lifecycle = both.on.lifecycle
        assert isinstance(lifecycle, LifecycleBesideCandidates)
        await lifecycle.load("n", str(both.archive))
        other = both.on.registry.loaded("n")
        await until(lambda: lifecycle.candidates.find(other) is not None)
        body = b'{"inputs":[],"x":"%s"}' % (b"x" * 20_000)
        for name in ("n", "m"):
            await asyncio.wait_for(both.invocation.forward(name, Request([], [body])), WAIT_S)
        await until(lambda: both.candidates_requests == 1)
        await until(lambda: lifecycle.candidates.find(both.model) is not None)
        candidate = lifecycle.candidates.find(both.model)
        assert candidate is not None
        assert candidate.failures == 0
        assert 0 < both.comparing.held_bytes < 50_000
        await lifecycle.unload("n")


async def test_only_where_nobody_waits(tmp_path: Path) -> None:
    """Not beside another request of the model; one that comes meanwhile is no sample, since one is
    compared at a time."""
    async with asking(tmp_path) as both:
        with invocation_of(both.model):
            for _ in range(3):
                await asyncio.wait_for(both.invocation.forward("m", Request([], [BODY])), WAIT_S)
            assert both.comparing.held_bytes > 0
            assert both.candidates_requests == 0
        await until(lambda: both.comparing.held_bytes == 0)
        assert both.candidates_requests == 1


async def test_a_model_that_stays_busy(tmp_path: Path) -> None:
    """Its request is let go after some time, and the next one may be the sample."""
    async with asking(tmp_path, patience_s=0.1) as both:
        with invocation_of(both.model):
            await both.ask()
        assert both.candidates_requests == 0
        await both.ask()
        assert both.candidates_requests == 1


async def test_a_caller_who_leaves(tmp_path: Path) -> None:
    """His request is nobody's sample, and is not held."""
    async with asking(tmp_path, infer={"m": {"delay_s": WAIT_S}}) as both:
        call = asyncio.ensure_future(both.invocation.forward("m", Request([], [BODY])))
        await until(lambda: both.comparing.held_bytes > 0)
        call.cancel()
        await until(lambda: both.comparing.held_bytes == 0)
        assert both.candidates_requests == 0


async def test_the_head_of_what_differs(tmp_path: Path) -> None:
    """Its target model, and the time of its request, however much later the candidate is asked."""
    dropped: list[str] = []
    captures = CaptureQueue(100, dropped.append)
    differs = {"m=candidate": {"status": 200, "message": "it has no outputs"}}
    given = {"name": "IN", "datatype": "FP32", "shape": [3], "data": [1, 3, 2]}
    request = Request(
        [(b"x-amzn-sagemaker-target-model", b"a.tar.gz")],
        [json.dumps({"inputs": [given]}).encode()],
    )
    async with asking(tmp_path, captures=captures, computes=True, infer=differs) as both:
        began = time.time()
        await asyncio.wait_for(both.invocation.forward("m", request), WAIT_S)
        answered = time.time()
        await until(lambda: both.comparing.held_bytes == 0)
    assert not dropped
    (exchange,) = captures.take()
    assert target_model(exchange.headers) == "a.tar.gz"
    assert began <= exchange.at <= answered


def make_answer(*more: dict[str, Any], is_compressed: bool = False) -> Answer:
    """Scores of three items as JSON, and further outputs."""
    scores = {"name": "scores", "datatype": "FP32", "shape": [1, 3], "data": [0.1, 0.7, 0.2]}
    body = json.dumps({"outputs": [scores, *more]}).encode()
    if is_compressed:
        return Answer(200, [(b"content-encoding", b"gzip")], deque([gzip.compress(body)]))
    return Answer(200, [], deque([body]))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_large_answer(is_compressed: bool) -> None:
    """A candidate's JSON is read only where it is small: its further outputs may be large, and to
    read them would hold up callers."""
    embedding = {"name": "embedding", "datatype": "FP32", "shape": [1, 50_000]}
    large = make_answer({**embedding, "data": [0.5] * 50_000}, is_compressed=is_compressed)
    small = make_answer(is_compressed=is_compressed)
    assert lay_side_by_side(make_answer(), small) == ((1, 1.0),)
    assert lay_side_by_side(make_answer(), large) == ()


@pytest.mark.parametrize(
    ("datatype", "size", "overlaps"),
    [
        ("FP32", 1 << 20, ((1, 1.0),)),
        ("FP32", 4 << 20, ()),
        ("INT64", 64 << 10, ((1, 1.0),)),
        ("INT64", 256 << 10, ()),
        ("BYTES", 256 << 10, ()),
    ],
)
def test_a_large_binary_answer(
    datatype: str, size: int, overlaps: tuple[tuple[int, float], ...]
) -> None:
    """Scores are read where they are many, ids and strings where they are few: a million of them
    would hold up all callers for seconds."""
    width = {"FP32": 4, "INT64": 8, "BYTES": 4}[datatype]  # of strings that are empty
    further = {"name": "further", "datatype": datatype, "shape": [size // width]}
    answer = make_answer({**further, "parameters": {"binary_data_size": size}})
    head = (HEADER_LENGTH, b"%d" % len(answer.body[0]))
    large = Answer(200, [head], deque([*answer.body, bytes(size)]))
    assert lay_side_by_side(make_answer(), large) == overlaps


async def test_it_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is dropped when its time is over, and its model answers on."""
    hangs = {"m=candidate": {"hang": True}}
    async with asking(tmp_path, timeout_s=0.1, infer=hangs) as both:
        await both.ask()
        published = both.on.repository / "m=candidate"
        await until(lambda: not published.exists())
        assert [it.getMessage() for it in caplog.records if it.levelno >= logging.WARNING] == [
            "the model's candidate is dropped: it gave no answer within 0.1 s"
        ]
        await both.ask()
        assert both.candidates_requests == 1


async def test_unload_meanwhile(tmp_path: Path) -> None:
    """A candidate that hangs holds up no unload, and nobody is told that it is dropped."""
    async with asking(tmp_path, infer={"m=candidate": {"hang": True}}) as both:
        await asyncio.wait_for(both.invocation.forward("m", Request([], [BODY])), WAIT_S)
        await until(lambda: both.candidates_requests == 1)
        await asyncio.wait_for(both.on.lifecycle.unload("m"), WAIT_S)
        await both.on.assert_empty()
