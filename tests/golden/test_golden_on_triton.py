"""What is planned is right: the real tritonservers answer a plan with the graph's own numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.golden.archives import offline
from tests.golden.cases import CASES
from tests.golden.conftest import RealTriton

pytestmark = pytest.mark.xdist_group("golden-triton")


@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, triton: RealTriton, tmp_path: Path) -> None:
    """The pure ensemble answers what the executor computes node by node, tensor for tensor."""
    case = CASES[name]()
    expected = offline(case.graph, {step.name: step for step in case.steps}, case.request)
    answer = triton.answer(case.plan(tmp_path / "archive", name), case.request)
    assert answer.keys() == expected.keys()
    for tensor, numbers in expected.items():
        np.testing.assert_array_equal(answer[tensor], numbers, err_msg=tensor)
