"""PURE. What the settings allow together."""

from __future__ import annotations

from container.settings import MIB, Settings
from serve.limit import Limit


def largest_body(settings: Settings) -> Limit:
    """Of an invocation: what is larger than all bodies may be together would never be taken."""
    return min(
        Limit(settings.max_request_mb * MIB, "SERVE_MAX_REQUEST_MB"),
        Limit(settings.max_waiting_mb * MIB, "SERVE_MAX_WAITING_MB"),
        Limit(settings.max_waiting_total_mb * MIB, "SERVE_MAX_WAITING_TOTAL_MB"),
    )
