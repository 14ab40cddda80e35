"""What /ping says, and what the log says of it."""

from __future__ import annotations

import logging

import pytest

from container.health import HealthCheck


async def test_each_change_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """With the reason; that it has not started yet is none."""
    caplog.set_level(logging.INFO)
    up, trouble = False, None

    async def is_up() -> bool:
        return up

    check = HealthCheck(is_up, "tritonserver is not live", lambda: trouble)
    said: list[tuple[str, str, str | None]] = []

    async def asked() -> bool:
        caplog.clear()
        healthy = [await check() for _ in range(3)]
        assert len(set(healthy)) == 1
        said.extend(
            (record.levelname, record.message, getattr(record, "reason", None))
            for record in caplog.records
        )
        return healthy[0]

    assert not await asked()
    assert said == []
    up = True
    assert await asked()
    trouble = "no memory"
    assert not await asked()
    up = False  # another reason is no change
    assert not await asked()
    up, trouble = True, None
    assert await asked()
    up = False
    assert not await asked()
    well = ("INFO", "healthy: /ping answers 200", None)
    ill = ("ERROR", "unhealthy: /ping answers 503")
    assert said == [well, (*ill, "no memory"), well, (*ill, "tritonserver is not live")]
