"""Asks candidates what their models were asked, and measures what differs: behind the callers.

The line: a request goes to its model, and its bytes and the model's answer are kept where the lot
says so → the caller is answered → the model is idle → its candidate is asked the same bytes → both
answers are laid side by side, in a thread. One request of each model at a time, and so many bytes
in all; what finds no room, or a model that stays busy, is not compared. Nobody waits for any of it.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from ensemble_tools.answers.exchange import TensorAnswer, decode
from ensemble_tools.answers.overlaps import measure_overlaps
from serve.deadline import Deadline
from serve.errors import (
    BodyTooLarge,
    Overloaded,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.invoke.compressed_bodies import inflate_whole, is_compressed
from serve.invoke.headers import HEADER_LENGTH, make_response_headers
from serve.invoke.invocation import LOST, Invocation
from serve.invoke.request import Passage
from serve.invoke.triton_request import TritonRequest
from serve.models.candidates import Candidate, Candidates
from serve.models.registry import Model, State
from serve.telemetry.candidate_metrics import CandidateMetrics
from serve.telemetry.captures import CaptureQueue
from serve.threads import run_in_daemon_thread
from serve.triton.client import TritonClient
from serve.triton.connection import Answer
from serve.triton.diagnosis.model_errors import remove_regions
from serve.triton.diagnosis.verdicts import Verdict, read_refusal

#: Bytes of all requests and answers that are kept to be compared.
MOST_BYTES = 64 << 20
#: Bytes of an answer in JSON, and of ids and strings in binary tensors: to read and compare more
#: would hold the interpreter's lock for milliseconds, of a million ids for seconds.
_LARGEST_JSON = 128 << 10
#: Bytes of a binary answer. numpy alone reads its scores; it takes ten times their memory.
_LARGEST_BINARY = 4 << 20
#: Data types of scores.
_FLOATS = ("FP16", "BF16", "FP32", "FP64")
#: Between two looks at whether the model is idle, in seconds: the first comes when the caller has
#: been answered.
_LOOK_S = 0.02
#: How long a model may stay busy until its request is let go, in seconds.
PATIENCE_S = 1.0
#: A candidate may take so many times as long as its model, and at least so many seconds.
_TIMES, _LEAST_S = 10, 5.0
#: Requests that a candidate may fail at, one after the other.
MOST_FAILURES = 5
#: Characters of what a candidate says that stand in the log.
_LONGEST = 300


class Comparison:
    """One request that a model answers and its candidate is to be asked.

    at: when the model was asked, in seconds since 1970. held: its bytes.
    """

    __slots__ = ("answer", "at", "body", "candidate", "headers", "held", "seconds")

    def __init__(self, candidate: Candidate, request: TritonRequest) -> None:
        self.candidate, self.at = candidate, time.time()
        self.headers, self.body = request.headers, tuple(request.body)  # its own list is emptied
        self.answer, self.seconds, self.held = Answer(), 0.0, 0


class Comparing:
    """percent: of a model's requests. timeout_s: of an invocation. lot: from 0 to 1, exclusive.

    captures: where answers that differ go, None for nowhere.
    """

    def __init__(
        self,
        candidates: Candidates,
        triton: TritonClient,
        metrics: CandidateMetrics,
        percent: float,
        timeout_s: float,
        most_bytes: int = MOST_BYTES,
        lot: Callable[[], float] = random.random,
        patience_s: float = PATIENCE_S,
        captures: CaptureQueue | None = None,
    ) -> None:
        self._candidates, self._triton, self._metrics = candidates, triton, metrics
        self._share, self._timeout_s = percent / 100, timeout_s
        self._most_bytes, self._lot, self._patience_s = most_bytes, lot, patience_s
        self._captures = captures
        self.held_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, model: Model, request: TritonRequest) -> Comparison | None:
        """A request goes to the model; None where its candidate is not asked. The hot path.

        What is begun comes to `_end`.
        """
        candidate = self._candidates.find(model)
        if candidate is None or self._lot() >= self._share:
            return None
        comparison = Comparison(candidate, request)
        if not self._hold(comparison, sum(map(len, comparison.body))):
            return None
        candidate.is_asked = True
        return comparison

    async def note(self, comparison: Comparison, coming: Awaitable[Answer]) -> Answer:
        """The model's answer when it comes, of which a copy is kept."""
        began = time.monotonic()
        try:
            answer = await coming
        except BaseException:
            self._end(comparison)
            raise
        comparison.seconds = time.monotonic() - began
        comparison.answer = Answer(answer.status, answer.headers, answer.body.copy())
        size = sum(map(len, answer.body))
        is_small = size <= _find_most(answer.header(HEADER_LENGTH))
        if answer.status == 200 and is_small and self._hold(comparison, size):
            task = asyncio.ensure_future(self._compare(comparison))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._end(comparison)
        return answer

    def _hold(self, comparison: Comparison, count: int) -> bool:
        if self.held_bytes + count > self._most_bytes:
            return False
        comparison.held += count
        self.held_bytes += count
        return True

    def _end(self, comparison: Comparison) -> None:
        comparison.candidate.is_asked = False
        self.held_bytes -= comparison.held
        comparison.held = 0

    async def _compare(self, comparison: Comparison) -> None:
        candidate = comparison.candidate
        try:
            deadline = Deadline(self._patience_s)
            while deadline.remaining and not candidate.ending:
                await asyncio.sleep(_LOOK_S)
                if _is_idle(candidate.of) and not candidate.ending:
                    return await self._ask(comparison, candidate)
        finally:
            self._end(comparison)

    async def _ask(self, comparison: Comparison, candidate: Candidate) -> None:
        name, began = candidate.of.name, time.monotonic()
        limit_s = min(self._timeout_s, max(_LEAST_S, _TIMES * comparison.seconds))
        self._metrics.asked(name)
        try:
            answer = await self._infer(comparison, candidate, limit_s)
        except TritonTimeout:
            self._fail(candidate, f"it gave no answer within {limit_s:.3g} s", at_once=True)
        except Overloaded:  # nobody's fault
            pass
        except TritonUnavailable as error:
            self._fail(candidate, f"it was asked when tritonserver went: {error}", at_once=True)
        except ServeError as error:
            self._fail(candidate, error.logged)
        else:
            seconds = time.monotonic() - began
            if answer.status != 200:
                self._read_refusal(comparison, candidate, answer)
            else:
                await self._measure(comparison, candidate, answer, seconds)

    def _infer(
        self, comparison: Comparison, candidate: Candidate, limit_s: float
    ) -> Awaitable[Answer]:
        assert candidate.itself is not None, "only one that is loaded is asked"
        counted = 0

        def grown(size: int) -> int:
            nonlocal counted
            if not self._hold(comparison, size - counted):
                if comparison.held + size - counted > self._most_bytes:
                    raise BodyTooLarge(f"an answer of {size} bytes and more", self._most_bytes)
                raise Overloaded("answers of other candidates take the room")
            counted = size
            return size

        path = f"/v2/models/{candidate.itself.plan.entry}/infer".encode()
        return self._triton.infer(path, comparison.headers, comparison.body, limit_s, grown=grown)

    def _read_refusal(self, comparison: Comparison, candidate: Candidate, answer: Answer) -> None:
        assert candidate.itself is not None
        refused = read_refusal(answer, candidate.itself.plan, comparison.body, self._triton.memory)
        said = " ".join(remove_regions(refused.message).split())[:_LONGEST]
        if refused.verdict in LOST:
            self._fail(candidate, f"its process died: {said}", at_once=True, has_died=True)
        elif refused.verdict is Verdict.EXHAUSTED:
            self._fail(candidate, f"no resources to ask it: {said}", at_once=True)
        else:
            self._fail(candidate, said)

    async def _measure(
        self, comparison: Comparison, candidate: Candidate, answer: Answer, seconds: float
    ) -> None:
        work = partial(lay_side_by_side, comparison.answer, answer)
        try:
            overlaps = await run_in_daemon_thread(work, "candidate")
        except ValueError as error:
            self._capture(comparison, answer)
            return self._fail(candidate, str(error))
        except RuntimeError:  # no thread is to be had
            return None
        candidate.failures = 0
        if not candidate.ending:  # its model's series may have ended
            self._metrics.answered(candidate.of.name, comparison.seconds, seconds, overlaps)
            if any(overlap < 1 for _, overlap in overlaps):
                self._capture(comparison, answer)
        return None

    def _capture(self, comparison: Comparison, other: Answer) -> None:
        """Keep a request whose two answers differ, as tritonserver was asked and answered.

        The media type says what is JSON of it, as a caller's does.
        """
        if self._captures is None:
            return
        headers, body = make_response_headers(comparison.headers), comparison.body
        own, name = comparison.answer, comparison.candidate.of.name
        exchange = self._captures.begin(name, headers, body, sum(map(len, body)))
        if exchange is not None:
            exchange.at = comparison.at
            exchange.keep_answer(make_response_headers(own.headers), own.body)
            exchange.candidate_headers = make_response_headers(other.headers)
            exchange.candidate_answer = other.body
            self._captures.end(exchange)

    def _fail(
        self, candidate: Candidate, why: str, *, at_once: bool = False, has_died: bool = False
    ) -> None:
        """Count a request that it failed at. at_once: it is not asked again."""
        if candidate.ending:
            return
        self._metrics.failed(candidate.of.name)
        candidate.failures += 1
        if at_once:
            self._candidates.drop(candidate, why, has_died=has_died)
        elif candidate.failures >= MOST_FAILURES:
            many = f"it failed at {MOST_FAILURES} requests one after the other; at the last one"
            self._candidates.drop(candidate, f"{many}: {why}")


class ComparedInvocation(Invocation):
    """Forwards invocations, and has a sample of them asked of candidates behind that."""

    def __init__(self, *parts: Any, comparing: Comparing) -> None:
        super().__init__(*parts)
        self._comparing = comparing

    def _infer(self, passage: Passage) -> Awaitable[Answer]:
        coming = super()._infer(passage)
        comparison = self._comparing.begin(passage.model, passage.triton_request)
        return coming if comparison is None else self._comparing.note(comparison, coming)


def _is_idle(model: Model) -> bool:
    queue = model.queue
    return model.state is State.READY and not (model.in_flight or queue.taken or queue.waiting)


def lay_side_by_side(own: Answer, other: Answer) -> Sequence[tuple[int, float]]:
    """k and overlap@k of each list; none where the model's answer is not understood, or where the
    candidate's has more JSON than is read.

    Raises ValueError where the candidate's is not like it.
    """
    try:
        answered = _read(own)
    except Exception:  # whatever a model answers is passed on
        return ()
    try:
        return tuple(measure_overlaps(answered, _read(other)))
    except BodyTooLarge:
        return ()
    except Exception as error:
        raise ValueError(f"its answer is not like the model's: {error}"[:_LONGEST]) from error


def _read(answer: Answer) -> TensorAnswer:
    """Raises BodyTooLarge for what would take long, and what a strange answer raises."""
    size, pieces = answer.header(HEADER_LENGTH), [*answer.body]
    most = _find_most(size)
    if is_compressed(answer.headers):
        pieces = inflate_whole(pieces, most)
    body = b"".join(pieces)
    _check_size(len(body), most)
    head_size = len(body) if size is None else int(size)
    _check_size(head_size, _LARGEST_JSON)
    _check_size(_count_ids(body[:head_size]), _LARGEST_JSON)
    return TensorAnswer(decode(body, head_size))


def _find_most(head_size: object) -> int:
    """Of an answer, in bytes. head_size: None of one that is JSON."""
    return _LARGEST_JSON if head_size is None else _LARGEST_BINARY


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise BodyTooLarge(f"{size} bytes", most)


def _count_ids(head: bytes) -> int:
    """The bytes of binary tensors that python reads one by one: all but scores."""
    return sum(
        output.get("parameters", {}).get("binary_data_size", 0)
        for output in json.loads(head)["outputs"]
        if output["datatype"] not in _FLOATS
    )
