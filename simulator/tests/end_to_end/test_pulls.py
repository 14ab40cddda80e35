"""Pulls from an engine that fails as real ones do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from merlin_simulator.errors import ImageUnavailable
from merlin_simulator.runners.images import ImageRequest, Images, connect
from simulator.tests.support.control_plane import IMAGE, ROLE
from tests.support.docker_engine import FakeEngine, fake_engine

ASKED = ImageRequest(IMAGE, "AllTraffic", ROLE)


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    """Without the image."""
    with fake_engine() as running:
        yield running


async def test_an_engine_that_goes_while_it_pulls(engine: FakeEngine) -> None:
    """The endpoint's FailureReason has a sentence of it, as that of a registry that goes."""
    engine.stop_after, engine.breaks = 1, True
    told: list[str] = []
    with contextlib.closing(connect(engine.host)) as connected:
        images = Images(connected, None, 60.0)
        with pytest.raises(ImageUnavailable, match="could not be pulled: the Docker engine went"):
            await images.provide(ASKED, lambda kind, **_: told.append(kind))
    assert told == ["image_pull_started", "image_pull_failed"]
