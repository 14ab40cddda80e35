"""Patterns of service models, which are Java's, held against members."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.model import ServiceModel

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.validation import read_members


def check(pattern: str, value: str) -> None:
    """Against an operation with one member of that pattern."""
    shapes: dict[str, Any] = {
        "Input": {"type": "structure", "members": {"Name": {"shape": "Name"}}},
        "Name": {"type": "string", "pattern": pattern},
    }
    operations = {"Do": {"name": "Do", "input": {"shape": "Input"}}}
    model = ServiceModel({"metadata": {}, "operations": operations, "shapes": shapes})
    read_members(model.operation_model("Do").input_shape, {"Name": value})


@pytest.mark.parametrize(
    ("pattern", "fits", "breaks"),
    [
        (r"\p{Print}+", "a policy (1)", "a\tb"),
        (r"[\p{L}\p{N}_-]+", "Über_1", "a b"),
        (r"[\[\p{N}]+", "[1", "a"),
        (r"\p{ASCII}{2}", "ab", "é1"),
    ],
)
def test_classes_of_unicode_count_within_brackets_and_without(
    pattern: str, fits: str, breaks: str
) -> None:
    check(pattern, fits)
    with pytest.raises(ServiceError, match="regular expression pattern"):
        check(pattern, breaks)
