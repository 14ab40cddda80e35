"""What `up` would change."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.status.compare import find_changes
from deploy.status.report import Change


@pytest.mark.parametrize(
    ("present", "wanted", "changes"),
    [
        ({"A": 1, "AddedByAws": 2}, {"A": 1}, []),
        ({"A": 1}, {"A": 2}, [("it A", "1", "2")]),
        ({}, {"A": 2}, [("it A", None, "2")]),
        ({"A": [{"B": 1, "C": 1}]}, {"A": [{"B": 2, "C": 1}]}, [("it A B", "1", "2")]),
        ({"A": [{"B": 1}] * 2}, {"A": [{"B": 1}, {"B": 2}]}, [("it A[1] B", "1", "2")]),
        ({"A": ["x"]}, {"A": ["x", "y"]}, [("it A", "x", "x, y")]),
        ({"A": ["x"]}, {"A": []}, [("it A", "x", "none")]),
        ({"ModelName": "shop-1"}, {"ModelName": "shop-2"}, []),
        ({"KmsKeyId": "k"}, {}, [("it KmsKeyId", "k", None)]),
        (None, {"A": 1}, [("it", None, "new")]),
        ({"A": 1}, None, [("it", "there", None)]),
        (None, None, []),
    ],
)
def test_changes(present: Any, wanted: Any, changes: list[tuple[str, str, str]]) -> None:
    """Each by its path; what AWS added itself is none, and names of content are none."""
    assert list(find_changes("it", present, wanted)) == [Change(*change) for change in changes]


def test_environment_is_named_and_not_shown() -> None:
    """Its values may be secrets."""
    present = {"Environment": {"GONE": "secret1", "SAME": "x", "OTHER": "secret2"}}
    wanted = {"Environment": {"NEW": "secret3", "SAME": "x", "OTHER": "secret4"}}
    found = list(find_changes("model", present, wanted))
    names = [change.what.rpartition(" ")[2] for change in found]
    assert names == ["GONE", "NEW", "OTHER"]
    assert "secret" not in str(found)
    (gone,) = find_changes("model", {"Environment": {"GONE": "secret"}}, {})
    assert (gone.what, gone.wanted) == ("model Environment GONE", None)
