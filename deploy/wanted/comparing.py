"""What there is against what is wanted. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def has_all(present: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; AWS adds members of its own. None: nothing is."""
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(
            has_all(present.get(name), value) for name, value in wanted.items()
        )
    return bool(present == wanted)
