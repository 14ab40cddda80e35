"""The largest body that an invocation may have: the least of three settings, which it knows."""

from __future__ import annotations

import pytest

from container.limits import largest_body
from container.settings import MIB, read_settings
from serve.errors import BodyTooLarge


@pytest.mark.parametrize(
    ("environment", "megabytes", "setting"),
    [
        ({}, 64, "SERVE_MAX_REQUEST_MB"),
        ({"SERVE_MAX_REQUEST_MB": "256"}, 256, "SERVE_MAX_REQUEST_MB"),
        ({"SERVE_MAX_REQUEST_MB": "257"}, 256, "SERVE_MAX_WAITING_MB"),
        ({"SERVE_MAX_WAITING_MB": "1"}, 1, "SERVE_MAX_WAITING_MB"),
        ({"SERVE_MAX_WAITING_TOTAL_MB": "2"}, 2, "SERVE_MAX_WAITING_TOTAL_MB"),
        ({"SERVE_MAX_WAITING_TOTAL_MB": "2", "SERVE_MAX_WAITING_MB": "1"}, 1,
         "SERVE_MAX_WAITING_MB"),
    ],
)  # fmt: skip
def test_the_largest_body(environment: dict[str, str], megabytes: int, setting: str) -> None:
    """What can never be held is too large, whatever one request may have."""
    largest = largest_body(read_settings(environment))
    assert largest == megabytes * MIB
    expected = f"the body: found more, expected at most {megabytes * MIB} bytes ({setting})"
    assert str(BodyTooLarge("more", largest)) == expected
