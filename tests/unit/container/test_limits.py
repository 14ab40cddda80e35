"""What serve/ is bounded by, with the settings that it names."""

from __future__ import annotations

import pytest

from container import limits
from container.limits import largest_body
from container.settings.reading import SETTINGS, format_settings_table, read_settings
from container.settings.values import MIB
from ensemble_tools.setting_names import AUTO_COMPLETE, PICKLES, REWRITE
from serve.errors import BodyTooLarge
from serve.limit import name_setting


@pytest.mark.parametrize(
    ("environment", "megabytes", "setting"),
    [
        ({}, 64, "SERVE_MAX_REQUEST_MB"),
        ({"SERVE_MAX_REQUEST_MB": "256"}, 256, "SERVE_MAX_REQUEST_MB"),
        ({"SERVE_MAX_REQUEST_MB": "257"}, 256, "a quarter of SERVE_MAX_WAITING_TOTAL_MB"),
        ({"SERVE_MAX_WAITING_TOTAL_MB": "4"}, 1, "a quarter of SERVE_MAX_WAITING_TOTAL_MB"),
        ({"SERVE_MAX_WAITING_TOTAL_MB": "256"}, 64, "SERVE_MAX_REQUEST_MB"),
    ],
)
def test_the_largest_body(environment: dict[str, str], megabytes: int, setting: str) -> None:
    """What can never be held is too large, whatever one request may have."""
    largest = largest_body(read_settings(environment))
    assert largest == megabytes * MIB
    expected = f"the body: found more, expected at most {megabytes * MIB} bytes ({setting})"
    assert str(BodyTooLarge("more", largest)) == expected


def test_what_may_wait() -> None:
    """One budget of bytes: all of it for all models, a quarter for one; and counts beside it."""
    bounds = limits.waiting(read_settings({}))
    assert (bounds.held_bytes, bounds.total_held_bytes) == (256 * MIB, 1024 * MIB)
    assert (bounds.waiting, bounds.total_waiting) == (1000, 4000)
    bounds = limits.waiting(read_settings({"SERVE_MAX_WAITING_TOTAL_MB": "400"}))
    assert (bounds.held_bytes, bounds.total_held_bytes) == (100 * MIB, 400 * MIB)


def test_names_are_settings() -> None:
    """Each limit names the setting that it comes from, which exists, and no two the same."""
    settings = read_settings({})
    bounds = limits.waiting(settings)
    assert (
        name_setting(bounds.held_bytes) == f"a quarter of {name_setting(bounds.total_held_bytes)}"
    )
    named = [
        name_setting(bounds.total_held_bytes),
        name_setting(limits.connections(settings, 30).largest_body),
        name_setting(limits.load_timeout(settings)),
        name_setting(limits.invoke_timeout(settings)),
        name_setting(limits.request_rate(settings)),
        name_setting(limits.memory_reserve(settings)),
        name_setting(limits.gpu_memory_reserve(settings)),
        limits.MODEL_ROOT,
        limits.TRANSLATE_JSON_FROM,
    ]
    assert len(named) == len(set(named))
    assert set(named) <= {name for row in SETTINGS for name in row.names}


def test_messages_name_settings_that_there_are() -> None:
    """What the archive's messages send people to is a setting."""
    named = (REWRITE, AUTO_COMPLETE, PICKLES)
    assert [name for name in named if f"`{name}`" not in format_settings_table()] == []
