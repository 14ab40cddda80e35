"""Graphs that a pure ensemble cannot hold: the form they take, and the executor's own numbers."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb
from tritonclient.utils import InferenceServerException

from ensemble_tools.archive.executor_graph import Node, SchemaColumn
from ensemble_tools.serving.plan import Form, ServingPlan
from tests.golden.archives import Graph, Step, column
from tests.golden.cases import BUY, CLICK, INTS, ITEM, MORE, USER, Case, predictor, workflow
from tests.golden.conftest import RealTriton
from tests.golden.stepped import STEPPED
from tests.support.tritons import BOTH

pytestmark = pytest.mark.xdist_group("golden-triton")

#: python stubs take up to 2 s to end; a request that is held is held for ever.
GONE_S = 60.0


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


def errs_on_negative(name: str, columns: tuple[SchemaColumn, ...]) -> Step:
    """A workflow that raises at once when a number is negative, and takes a while otherwise."""
    own = columns[0].name
    formula = f"{own} if (({own} >= 0).all() and __import__('time').sleep(0.2) is None) else 1 // 0"
    return Step(name, columns, columns, {own: formula})


@BOTH
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


FILTER = "merlin.systems.dag.ops.session_filter.FilterCandidates"


def config_of(made: ServingPlan, name: str) -> pb.ModelConfig:
    text = next(model.config_text for model in made.models if model.triton_name == name)
    return text_format.Parse(text or "", pb.ModelConfig())


def behind_an_operator(graph: Graph, prepare: Step, predict: Step) -> Node:
    """workflow → inline operator → predictor: the predictor's node."""
    prepared = graph.call(prepare, graph.select(*prepare.columns_in))
    return graph.call(predict, graph.inline(FILTER, prepared))


def test_idle_call_behind_an_inline_operator(tmp_path: Path) -> None:
    """A model that nothing in the answer needs, deeper than the operators' step, is no step."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER,), user="user * 10")
    predict = predictor("1_predict", (USER,), CLICK, "user * 0.5")
    idle = predictor("2_idle", (CLICK,), BUY, "click * 2")
    first = behind_an_operator(graph, prepare, predict)
    graph.keep(graph.concat(first, graph.call(idle, first)), "click")
    case = Case(graph.done(), (prepare, predict, idle), (USER,), {"user": INTS})
    made = case.plan(tmp_path)
    assert set(made.triton_names) == {
        "model.0_workflow",
        "model.1_predict",
        "model.operators",
        "model",
    }
    assert all(step.output_map for step in config_of(made, "model").ensemble_scheduling.step)


def test_operators_step_has_what_the_executor_has(tmp_path: Path) -> None:
    """Modules beside the executor's model.py, its environment, and as many instances."""
    graph = Graph()
    prepare = workflow("0_workflow", (USER,), user="user * 10")
    behind_an_operator(graph, prepare, predictor("1_predict", (USER,), CLICK, "user * 0.5"))
    steps = (prepare, predictor("1_predict", (USER,), CLICK, "user * 0.5"))
    environment = "$$TRITON_MODEL_DIRECTORY/env.tar.gz"
    extra = (
        f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{environment}" }} }}\n'
        "instance_group { count: 8 kind: KIND_CPU }\n"
    )
    case = Case(graph.done(), steps, (USER,), {"user": INTS}, extra=extra)
    case.write(tmp_path)
    (tmp_path / "executor_model/1/mine.py").touch()
    (tmp_path / "executor_model/env.tar.gz").touch()
    made = case.planned(tmp_path)
    published = next(model for model in made.models if model.triton_name == "model.operators")
    assert {name for name, _ in published.links} == {"1/ensemble", "1/mine.py", "env.tar.gz"}
    assert [name for name, _ in published.files] == ["1/model.py"]
    config = config_of(made, "model.operators")
    assert config.parameters["EXECUTION_ENV_PATH"].string_value == environment
    assert [group.count for group in config.instance_group] == [8]


def test_a_called_workflow_waits_for_nobody(tmp_path: Path) -> None:
    """Who calls it by name does not know of an input that was added."""
    graph = Graph()
    users, items = workflow("0_users", (USER,)), workflow("1_items", (ITEM,))
    predict = predictor("2_predict", (USER, ITEM), CLICK, "user / item")
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(ITEM))))
    case = Case(graph.done(), (users, items, predict), (USER, ITEM), {"user": INTS, "item": MORE})
    case.write(tmp_path)
    path = tmp_path / "2_predict/1/model.py"
    path.write_text(path.read_text() + '\nCALLED = pb_utils and "1_items", "InferenceRequest"\n')
    made = case.planned(tmp_path)
    assert made.called == ("model.1_items",)
    assert [tensor.name for tensor in config_of(made, "model.1_items").input] == ["item"]


def test_names_with_control_characters(tmp_path: Path) -> None:
    """Archives choose the names of tensors; none can be taken for a generated one."""
    odd = column("a\0b")
    step = Step("0_workflow", (odd,), (CLICK,), {"click": "1"})
    graph = Graph()
    graph.call(step, graph.select(odd))
    wanted = Case(graph.done(), (step,), (column("a\0b", "int32"),))
    assert wanted.plan(tmp_path).form is Form.STEPPED_ENSEMBLE
