"""Both event loops: uvloop runs in production, and its transports are of another make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.support.clock import ClockedLoop
from tests.unit.serve.routes_on_fake import RoutesOnFake, routes_on_fake


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
async def routes() -> AsyncIterator[RoutesOnFake]:
    """The multi-model routes in front of a fake Invocation."""
    async with routes_on_fake() as running:
        yield running
