"""A container with every committed Merlin export in it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.clock import Clock
from tests.support.container import ROOT, Container, running
from verification.serving.server import ANSWER_TIMEOUT_S

EXAMPLES = ROOT / "examples" / "merlin"
EXPORTS = ("dense", "ragged", "session", "two_workflows")
T = TypeVar("T")


async def ended_late(work: Coroutine[Any, Any, T], marker: Path, clock: Clock) -> T:
    """What the work returns when it has waited for an answer as long as it does.

    marker: there as soon as the model that never answers is asked.
    """
    task = asyncio.ensure_future(work)
    while not marker.exists() and not task.done():  # noqa: ASYNC110, ASYNC240 # a model makes it
        await asyncio.sleep(0.02)
    clock.advance(ANSWER_TIMEOUT_S + 1)
    return await task


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """All exports loaded side by side, at once; unloaded at the end, which leaves nothing."""
    directory: Path = tmp_path_factory.mktemp("exports")
    with (
        running(directory, SERVE_MODEL_ROOT=str(EXAMPLES)) as container,
        ThreadPoolExecutor(len(EXPORTS)) as pool,
    ):
        paths = [EXAMPLES / name / "repository" for name in EXPORTS]
        for answer in pool.map(container.load, EXPORTS, paths):
            assert answer.status_code == 200, answer.text
        yield container
        for answer in pool.map(container.unload, EXPORTS):
            assert answer.status_code == 200, answer.text
        assert not container.stubs()
        container.until_nothing_is_published()
