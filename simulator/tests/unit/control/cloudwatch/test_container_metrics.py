"""Pages of containers that are read: long ones, and those that are none."""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp
import pytest

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.published import CONTAINERS, ContainerMetrics, Page
from merlin_simulator.control.cloudwatch.store import MetricStore
from simulator.tests.unit.plain_http import plain_http

LONG = "".join(f'things{{number="{number}",filling="{"x" * 600}"}} 1\n' for number in range(1500))


async def published(texts: Sequence[str]) -> MetricStore:
    """What the store has of instances whose pages these are."""
    store = MetricStore()
    with plain_http(lambda _, path: texts[int(path.strip("/"))].encode()) as port:
        pages = [
            Page("shop", "all", f"all-{number}", f"http://127.0.0.1:{port}/{number}", 60.0)
            for number in range(len(texts))
        ]
        async with aiohttp.ClientSession() as http:
            await ContainerMetrics(store, Clock(), lambda: pages).look(http)
    return store


async def test_a_long_page_is_read_to_its_end() -> None:
    store = await published([LONG])
    numbers = {dict(one.dimensions)["number"] for one in store.metrics()}
    assert numbers == {str(number) for number in range(1500)}


@pytest.mark.parametrize("bad", ["<html>", 'asked{code="200", ="x"} 1\n', "x" * (9 * 1024 * 1024)])
async def test_a_page_that_is_none_leaves_those_of_others(bad: str) -> None:
    store = await published([bad, "things 7\n"])
    (metric,) = store.metrics()
    assert (metric.namespace, metric.name) == (CONTAINERS, "things")
    assert dict(metric.dimensions)["InstanceId"] == "all-1"
