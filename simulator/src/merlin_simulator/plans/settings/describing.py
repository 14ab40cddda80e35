"""Settings as plain data, which a plan's JSON and its report tell them by. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

from merlin_simulator.plans.settings.settings import PlanSettings


def describe_settings(settings: PlanSettings) -> dict[str, Any]:
    """The same tree, with texts for paths and for what has names."""
    found: dict[str, Any] = _plain(asdict(settings))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value
