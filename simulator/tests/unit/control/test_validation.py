"""Members of calls: read by the service model, without nulls, and what AWS answers otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.model import ServiceModel, Shape

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.validation import read_members

SHAPES: dict[str, Any] = {
    "Input": {
        "type": "structure",
        "members": {
            "Count": {"shape": "Count"},
            "Long": {"shape": "Long"},
            "Weight": {"shape": "Weight"},
            "Target": {"shape": "Target"},
            "Name": {"shape": "Name"},
            "When": {"shape": "When"},
            "Inner": {"shape": "Inner"},
            "All": {"shape": "All"},
            "Words": {"shape": "Words"},
        },
    },
    "Inner": {"type": "structure", "members": {"Name": {"shape": "Name"}}},
    "All": {"type": "list", "member": {"shape": "Inner"}},
    "Words": {"type": "map", "key": {"shape": "Name"}, "value": {"shape": "Name"}},
    "Count": {"type": "integer"},
    "Long": {"type": "long"},
    "Weight": {"type": "float"},
    "Target": {"type": "double"},
    "Name": {"type": "string"},
    "When": {"type": "timestamp"},
}


@pytest.fixture(scope="module")
def shape() -> Shape:
    operations = {"Do": {"name": "Do", "input": {"shape": "Input"}}}
    model = ServiceModel({"metadata": {}, "operations": operations, "shapes": SHAPES})
    found = model.operation_model("Do").input_shape
    assert found is not None
    return found


def test_nulls_and_strangers_are_not_there(shape: Shape) -> None:
    members = {
        "Name": None,
        "Stranger": 1,
        "Inner": {"Name": "a", "Stranger": [1]},
        "All": [{"Name": None}, {"Name": "b", "x": None}],
        "Words": {"any": "thing"},
    }
    assert read_members(shape, members) == {
        "Inner": {"Name": "a"},
        "All": [{}, {"Name": "b"}],
        "Words": {"any": "thing"},
    }


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        (1.5, 1.5),
        ("1.5", 1.5),
        ("1970-01-02", 86400.0),
        ("1970-01-01T01:00:00Z", 3600.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_times_are_seconds(shape: Shape, when: float | str, seconds: float) -> None:
    assert read_members(shape, {"When": when}) == {"When": seconds}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("Count", 2**31),
        ("Count", -(2**31) - 1),
        ("Long", 10**400),
        ("Weight", 1e39),
        ("Target", float("inf")),
        ("Target", float("nan")),
        ("Target", 10**400),
        ("Name", "\ud800"),
        ("When", "yesterday"),
        ("When", 1e300),
        ("When", 10**400),
        ("When", "nan"),
    ],
)
def test_what_no_value_of_the_type_is(shape: Shape, member: str, value: Any) -> None:
    with pytest.raises(ServiceError, match=f"^{member.lower()} is ") as refused:
        read_members(shape, {member: value})
    assert refused.value.code == "SerializationException"


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
