"""What serve/ is bounded by, with the settings that it names."""

from __future__ import annotations

import pytest

from container import limits
from container.limits import SETTING_NAMES, largest_body
from container.settings import SETTINGS, read_settings, settings_table
from container.settings.values import MIB
from ensemble_tools.commands.setting_names import CONTAINERS_NAMES
from serve.errors import BodyTooLarge
from serve.limit import setting_of


@pytest.mark.parametrize(
    ("environment", "megabytes", "setting"),
    [
        ({}, 64, "SERVE_MAX_REQUEST_MB"),
        ({"SERVE_MAX_REQUEST_MB": "256"}, 256, "SERVE_MAX_REQUEST_MB"),
        ({"SERVE_MAX_REQUEST_MB": "257"}, 256, "SERVE_MAX_WAITING_MB"),
        ({"SERVE_MAX_WAITING_MB": "1"}, 1, "SERVE_MAX_WAITING_MB"),
        ({"SERVE_MAX_WAITING_TOTAL_MB": "2"}, 2, "SERVE_MAX_WAITING_TOTAL_MB"),
        (
            {"SERVE_MAX_WAITING_TOTAL_MB": "2", "SERVE_MAX_WAITING_MB": "1"},
            1,
            "SERVE_MAX_WAITING_MB",
        ),
    ],
)
def test_the_largest_body(environment: dict[str, str], megabytes: int, setting: str) -> None:
    """What can never be held is too large, whatever one request may have."""
    largest = largest_body(read_settings(environment))
    assert largest == megabytes * MIB
    expected = f"the body: found more, expected at most {megabytes * MIB} bytes ({setting})"
    assert str(BodyTooLarge("more", largest)) == expected


def test_names_are_settings() -> None:
    """Each limit names the setting that it comes from, which exists, and no two the same."""
    settings = read_settings({})
    bounds, crowd = limits.waiting(settings), limits.connections(settings)
    named = [
        *map(setting_of, (bounds.waiting, bounds.held_bytes)),
        *map(setting_of, (bounds.total_waiting, bounds.total_held_bytes)),
        *map(setting_of, (crowd.connections, crowd.read_s, crowd.largest_body)),
        setting_of(limits.load_timeout(settings)),
        setting_of(limits.unload_timeout(settings)),
        setting_of(limits.invoke_timeout(settings)),
        setting_of(limits.memory_reserve(settings)),
        setting_of(limits.gpu_memory_reserve(settings)),
        limits.MODEL_ROOT,
        limits.TRANSLATE_JSON_FROM,
    ]
    assert len(named) == len(set(named))
    assert set(named) <= {name for row in SETTINGS for name in row.names}


def test_messages_name_settings_that_there_are() -> None:
    """What the archive's messages send people to is a setting, and commands say the same."""
    named = (SETTING_NAMES.rewrite, SETTING_NAMES.auto_complete, SETTING_NAMES.max_instances)
    assert [name for name in named if f"`{name}`" not in settings_table()] == []
    assert SETTING_NAMES == CONTAINERS_NAMES
