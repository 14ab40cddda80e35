"""What the planner takes for granted about tritonserver, asked of both real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.archive.source_model import CONFIG_FILE
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import ServingPlan, plan_archive
from tests.golden.archives import PREDICTOR, Graph, Step, column, offline, write_step
from tests.golden.cases import AGE, CLICK, FLOATS, INTS, USER, Case, keeps_names
from tests.golden.conftest import RealTriton
from tests.support.tritons import BOTH

pytestmark = pytest.mark.xdist_group("golden-triton")


def one_step(step: Step) -> Case:
    graph = Graph()
    graph.call(step, graph.select(*step.columns_in))
    return Case(graph.done(), (step,), step.columns_in)


def delivered(root: Path) -> ServingPlan:
    return plan_archive(read_repository(root), None, Namespace(root.parent.name))


def write_ensemble(root: Path, name: str, inputs: str, outputs: str, *steps: str) -> None:
    (root / name).mkdir(parents=True)
    scheduling = " ".join(f"step {{ {step} }}" for step in steps)
    (root / name / CONFIG_FILE).write_text(
        f'platform: "ensemble"\n{inputs}\n{outputs}\nensemble_scheduling {{ {scheduling} }}'
    )


def tensor(kind: str, name: str, data_type: str = "TYPE_INT64") -> str:
    return f'{kind} {{ name: "{name}" data_type: {data_type} dims: -1 }}'


def mapped(model: str, source: str, target: str) -> str:
    return (
        f'model_name: "{model}" model_version: -1 input_map {{ key: "user" value: "{source}" }} '
        f'output_map {{ key: "user" value: "{target}" }}'
    )


@BOTH
def test_input_that_no_step_reads(triton: RealTriton, tmp_path: Path) -> None:
    """It is refused even when it is an output too: hence our refusal of such graphs."""
    root = tmp_path / "archive"
    write_step(root, Step("a", (USER,), (USER,)))
    inputs = tensor("input", "i") + tensor("input", "x")
    outputs = tensor("output", "o") + tensor("output", "x")
    write_ensemble(root, "e", inputs, outputs, mapped("a", "i", "o"))
    with pytest.raises(InferenceServerException):
        triton.answer(delivered(root), {"i": INTS, "x": INTS})


@BOTH
def test_ensemble_of_ensembles(triton: RealTriton, tmp_path: Path) -> None:
    """Ensembles of ensembles are served as delivered, and found by their new names."""
    root = tmp_path / "archive"
    write_step(root, Step("a", (USER,), (USER,), {"user": "user * 10"}))
    ends = tensor("input", "user"), tensor("output", "user")
    inner = ends[0].replace("user", "i"), ends[1].replace("user", "o")
    write_ensemble(root, "inner", *ends_as("user", "user_out"), mapped("a", "user", "user_out"))
    step = mapped("inner", "i", "x").replace('key: "user" value: "x"', 'key: "user_out" value: "x"')
    write_ensemble(root, "outer", *inner, step, mapped("a", "x", "o"))
    assert triton.answer(delivered(root), {"i": INTS})["o"].tolist() == [300, 100, 200]


def ends_as(source: str, target: str) -> tuple[str, str]:
    return tensor("input", source), tensor("output", target)


@BOTH
@pytest.mark.parametrize("declared", ["input", "optional_input"])
def test_missing_column(declared: str, triton: RealTriton, tmp_path: Path) -> None:
    """A request without a column is an error, as from the executor, also if it is `optional`."""
    case = keeps_names()
    root = case.write(tmp_path / "archive")
    config = root / "executor_model" / CONFIG_FILE
    if declared == "optional_input":
        config.write_text(
            config.read_text().replace("dims: [ -1 ] }", "dims: [ -1 ] optional: true }", 1)
        )
    made = case.planned(root, tmp_path.name)
    try:
        triton.load(made)
        with pytest.raises(InferenceServerException, match="expected 2 inputs but got 1"):
            triton.infer(made.entry, {"item": case.request["item"]})
        assert triton.infer(made.entry, case.request).keys() == {"click"}
    finally:
        triton.unload(made)


@BOTH
def test_optional_input_of_a_step(triton: RealTriton, tmp_path: Path) -> None:
    """A step's optional input that the graph does not feed is left open, and the step runs."""
    extra = 'input { name: "more" data_type: TYPE_INT64 dims: -1 optional: true }'
    case = one_step(Step("s", (USER,), (CLICK,), {"click": "user * 2"}, extra=extra))
    root = case.write(tmp_path / "archive")
    answer = triton.answer(case.planned(root, tmp_path.name), {"user": INTS})
    assert answer["click"].tolist() == [6.0, 2.0, 4.0]


@BOTH
def test_batching_step(triton: RealTriton, tmp_path: Path) -> None:
    """A step with a maximum batch size whose whole shape agrees answers every row."""
    step = Step(
        "s",
        (AGE,),
        (CLICK,),
        {"click": "age * 2"},
        PREDICTOR,
        dims={"age": "1", "click": "1"},
        extra="max_batch_size: 4",
    )
    case = one_step(step)
    root = case.write(tmp_path / "archive")
    config = root / "executor_model" / CONFIG_FILE
    config.write_text(config.read_text().replace("dims: [ -1 ]", "dims: [ -1, 1 ]"))
    answer = triton.answer(case.planned(root, tmp_path.name), {"age": FLOATS[:, None]})
    assert answer["click"].tolist() == (FLOATS[:, None] * 2).tolist()


@BOTH
def test_one_tensor_for_two_inputs(triton: RealTriton, tmp_path: Path) -> None:
    """One ensemble tensor may feed two steps and be an output, with the request's numbers too."""
    graph = Graph()
    u = column("u")
    first = Step("a", (USER,), (u,), {"u": "user * 10"})
    second = Step("b", (u, USER), (CLICK,), {"click": "u + user"})
    requested = graph.select(USER)
    made = graph.call(first, requested)
    both = graph.concat(made, requested)
    graph.concat(graph.call(second, both), both)
    case = Case(graph.done(), (first, second), (USER,))
    root = case.write(tmp_path / "archive")
    answer = triton.answer(case.planned(root, tmp_path.name), {"user": INTS})
    expected = offline(case.graph, {"a": first, "b": second}, {"user": INTS})
    assert answer.keys() == expected.keys() == {"click", "u", "user"}
    for name, numbers in expected.items():
        np.testing.assert_array_equal(answer[name], numbers)


def test_the_archive_stays_as_it_was(triton: RealTriton, tmp_path: Path) -> None:
    """Served and unloaded, an archive has the files that it came with."""
    case = keeps_names()
    root = case.write(tmp_path / "archive")
    version = root / "0_workflow/1"
    (version / "package").mkdir()
    (version / "package/__init__.py").touch()
    source = (version / "model.py").read_text()
    package = "import os, sys; sys.path.insert(0, os.path.dirname(__file__)); import package"
    (version / "model.py").write_text(f"{package}\n{source}")
    before = sorted(root.rglob("*"))
    triton.answer(case.planned(root, tmp_path.name), case.request)
    assert sorted(root.rglob("*")) == before
