"""Records as JSON, and what is not read as one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ensemble_tools.workflows.runtime.operations.grouping import Group
from ensemble_tools.workflows.runtime.operations.scaling import Clip, Log1
from ensemble_tools.workflows.runtime.records import NumpyNumber, number_of


def test_numbers_keep_their_types() -> None:
    assert number_of(3) == 3
    assert type(number_of(2.5)) is float
    found = number_of(NumpyNumber("f4", 0.5))
    assert (found, found.dtype) == (0.5, np.float32)


def test_what_a_record_is_in_json() -> None:
    """Programs that were published hold these names."""
    clip = Clip(NumpyNumber("i1", -3), None)
    assert clip.to_json() == {"min": {"dtype": "i1", "value": -3}, "max": None}
    assert Log1().to_json() == {}
    group = Group(1, 0, True, ((0, "list"),), (None, "int32"), ("a", "a_list"))
    written = json.loads(json.dumps(group.to_json()))
    assert written["aggregations"] == [[0, "list"]]
    assert Group.from_json(written) == group


@pytest.mark.parametrize("written", [{}, {"min": 1}, {"min": 1, "max": 2, "mean": 3}])
def test_other_parameters_are_not_guessed(written: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"Clip has \['max', 'min'\]"):
        Clip.from_json(written)
