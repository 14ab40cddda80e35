"""Both event loops: uvloop runs in production, and its transports are of another make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.support.clock import ClockedLoop
from tests.unit.serve.served import Served, serving


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What touches sockets runs on both; the rest on the one that production runs on."""
    clocked = "clock" in getattr(item, "fixturenames", ())
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "uvloop": ClockedLoop if clocked else uvloop.new_event_loop
    }
    if "triton/test_http" in item.nodeid:
        loops["asyncio"] = asyncio.new_event_loop
    return loops


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """The multi-model routes in front of what stands for an Invocation."""
    async with serving() as running:
        yield running
