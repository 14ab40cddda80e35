"""Graphs that a pure ensemble cannot hold: the form they take, and the executor's own numbers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from ensemble_tools.executor_graph import Column
from ensemble_tools.plan import Form
from tests.golden.archives import Graph, Step
from tests.golden.cases import CLICK, INTS, ITEM, MORE, USER, Case, predictor
from tests.golden.conftest import RealTriton
from tests.golden.stepped import STEPPED

pytestmark = pytest.mark.xdist_group("golden-triton")

#: python stubs take up to 2 s to end; a request that is held is held for ever.
GONE_S = 10.0


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


def errs_on_negative(name: str, columns: tuple[Column, ...]) -> Step:
    """A workflow that raises at once when a number is negative, and takes a while otherwise."""
    own = columns[0].name
    formula = f"{own} if (({own} >= 0).all() and __import__('time').sleep(0.2) is None) else 1 // 0"
    return Step(name, columns, columns, {own: formula})


@pytest.mark.parametrize("bad", ["user", "item", "both"])
def test_errors_in_branches(bad: str, triton: RealTriton, tmp_path: Path) -> None:
    """Branches that err leave nothing behind: the ensemble can be unloaded, and loaded again.

    tritonserver never releases a request in which a step errs while another one runs, so workflows
    wait for each other.
    """
    graph = Graph()
    users, items = errs_on_negative("0_users", (USER,)), errs_on_negative("1_items", (ITEM,))
    predict = predictor("2_predict", (USER, ITEM), CLICK, "user / item")
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(ITEM))))
    good = {"user": INTS, "item": MORE}
    case = Case(graph.done(), (users, items, predict), (USER, ITEM), good)
    made = case.plan(tmp_path / "archive", f"branches_{bad}")
    assert made.form is Form.PURE_ENSEMBLE
    for _ in range(2):
        triton.load(made)
        for wrong in ({"user", "item"} if bad == "both" else {bad},) * 3:
            request = {name: -array if name in wrong else array for name, array in good.items()}
            with pytest.raises(InferenceServerException):
                triton.infer(made.entry, request)
        answer = triton.infer(made.entry, good)
        np.testing.assert_array_equal(answer["click"], case.expected()["click"])
        triton.unload(made)
        deadline = time.monotonic() + GONE_S
        while held := triton.held(made):
            assert time.monotonic() < deadline, held
            time.sleep(0.05)
