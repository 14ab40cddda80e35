"""The metrics page where one of those that it asks fails or does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge

from serve.http.metrics_route import MetricsRoute
from serve.telemetry.exposition import ModelNumbers
from serve.telemetry.invocation_record import InvocationRecord
from serve.telemetry.metrics import Metrics
from serve.telemetry.page import MetricsPage, Sources

TRITON = '# HELP nv_x x\n# TYPE nv_x counter\nnv_x{model="m"} 1\n'


async def machine() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("serve_memory_free_bytes", "x", registry=registry).set(5)
    return registry


async def triton() -> str:
    return TRITON


async def fails() -> Any:
    raise RuntimeError("can't start new thread")


def page(
    machine: Callable[[], Awaitable[CollectorRegistry]] = machine,
    triton: Callable[[], Awaitable[str]] = triton,
    numbers: Callable[[], ModelNumbers] = lambda: ModelNumbers({"m": 0}),
) -> MetricsPage:
    metrics = Metrics()
    metrics.meters.begin("m").invoked(InvocationRecord("m", status=200, seconds=0.1))
    return MetricsPage(metrics, Sources(numbers, machine, triton))


async def written(pieces: AsyncIterator[bytes]) -> str:
    return b"".join([piece async for piece in pieces]).decode()


OURS = 'serve_invocations_total{target_model="m",model_name="m",code="200"} 1\n'


async def test_all_of_it() -> None:
    text = await written(page().pieces())
    assert OURS in text
    assert "serve_memory_free_bytes 5.0\n" in text
    assert "\nserve_tritonserver_scrape_success 1\n" in text
    assert "nv_x{" in text


@pytest.mark.parametrize("part", ["machine", "triton"])
async def test_what_fails_is_left_out(part: str) -> None:
    """For want of a thread, say: the rest is wanted most then."""
    text = await written(page(**{part: fails}).pieces())  # type: ignore[arg-type]
    assert OURS in text
    assert ("serve_memory_free_bytes" in text) == (part != "machine")
    assert ("nv_x" in text) == (part != "triton")
    assert f"\nserve_tritonserver_scrape_success {int(part != 'triton')}\n" in text


async def test_a_tritonserver_that_stands_still_holds_up_only_its_own_part() -> None:
    asked = asyncio.Event()

    async def stands_still() -> str:
        await asked.wait()
        return TRITON

    pieces = page(triton=stands_still).pieces()
    text = b""
    while OURS.encode() not in text:
        text += await asyncio.wait_for(anext(pieces), 60)
    asked.set()
    assert b"nv_x{" in b"".join([piece async for piece in pieces])


async def answer(metrics_page: MetricsPage, method: str) -> list[dict[str, Any]]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    await MetricsRoute(metrics_page)({"type": "http", "method": method}, receive, send)
    return sent


async def test_a_head_asks_for_nothing() -> None:
    """What is shown once is not taken from who asks for the page."""
    start, body = await answer(page(numbers=lambda: 1 / 0), "HEAD")  # type: ignore[arg-type, return-value]
    assert (start["status"], body["body"]) == (200, b"")


async def test_a_page_that_cannot_be_made_is_no_200() -> None:
    def fault() -> ModelNumbers:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await answer(page(numbers=fault), "GET")
    start, *_ = await answer(page(), "GET")
    assert start["status"] == 200
