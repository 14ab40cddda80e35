"""Graphs that a pure ensemble cannot hold: the form they take, and the executor's own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.golden.conftest import RealTriton
from tests.golden.stepped import STEPPED

pytestmark = pytest.mark.xdist_group("golden-triton")


@pytest.mark.parametrize("name", STEPPED)
def test_form(name: str, tmp_path: Path) -> None:
    """The form, the generated models, and a reason for each place."""
    stepped = STEPPED[name]()
    made = stepped.case.plan(tmp_path)
    steps = {f"model.{step.name}" for step in stepped.case.steps}
    generated = [found for found in made.triton_names if found not in {*steps, "model"}]
    assert made.form is stepped.form
    assert tuple(generated) == tuple(f"model.{wanted}" for wanted in stepped.generated)
    for words in stepped.reasons:
        assert any(words in reason for reason in made.reasons), (words, made.reasons)


@pytest.mark.parametrize("name", STEPPED)
def test_numbers(name: str, triton: RealTriton, tmp_path: Path) -> None:
    """Both real tritonservers answer what the executor computes, type for type, bit for bit."""
    case = STEPPED[name]().case
    expected = case.expected()
    answer = triton.answer(case.plan(tmp_path / "archive", name), case.request)
    assert answer.keys() == expected.keys()
    for tensor, numbers in expected.items():
        assert answer[tensor].dtype == numbers.dtype
        np.testing.assert_array_equal(answer[tensor], numbers, err_msg=tensor)
