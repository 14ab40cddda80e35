"""The exports of XGBoost, LightGBM and TensorFlow in the container: their forms, their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import Form, Namespace, plan_archive, read_executor_graph, read_repository
from tests.end_to_end.conftest import EXAMPLES
from tests.support.container import ROOT, Container, running

PYTHON = ROOT / ".venv-frameworks/bin/python"
FORMS = {
    "forest_xgboost": Form.STEPPED_ENSEMBLE,
    "forest_lightgbm": Form.STEPPED_ENSEMBLE,
    "tensorflow_ragged": Form.PURE_ENSEMBLE,
}
#: Sums of floats in another order than offline.
RELATIVE = 1e-6


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """All three loaded, with the Python that has their libraries."""
    settings = {"SERVE_MODEL_ROOT": str(EXAMPLES), "SERVE_BACKEND_PYTHON": str(PYTHON)}
    with running(tmp_path_factory.mktemp("frameworks"), **settings) as running_container:
        for name in FORMS:
            answer = running_container.load(name, EXAMPLES / name / "repository")
            assert answer.status_code == 200, answer.text
        yield running_container


def read(name: str, file: str) -> Any:
    return json.loads((EXAMPLES / name / file).read_text())


def first_row(tensor: dict[str, Any]) -> dict[str, Any]:
    """The tensor of a request of one row; a ragged column is cut by its offsets."""
    shape = [1, *tensor["shape"][1:]]
    size = 1
    for length in shape:
        size *= length
    return {**tensor, "shape": shape, "data": tensor["data"][:size]}


def one_row(request: dict[str, Any]) -> dict[str, Any]:
    offsets = {
        tensor["name"].removesuffix("__offsets"): tensor["data"][:2]
        for tensor in request["inputs"]
        if tensor["name"].endswith("__offsets")
    }
    inputs = []
    for tensor in request["inputs"]:
        column, _, part = tensor["name"].rpartition("__")
        if part == "values" and column in offsets:
            end = offsets[column][1]
            inputs.append({**tensor, "shape": [end], "data": tensor["data"][:end]})
        elif part == "offsets":
            inputs.append({**tensor, "shape": [2], "data": offsets[column]})
        else:
            inputs.append(first_row(tensor))
    return {"inputs": inputs}


def check(found: dict[str, Any], expected: dict[str, Any]) -> None:
    described = ("name", "datatype", "shape")
    assert [found[key] for key in described] == [expected[key] for key in described]
    assert found["data"] == pytest.approx(expected["data"], rel=RELATIVE)


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    """Ensembles all of them; a forest needs the step that stacks its columns."""
    repository = read_repository(EXAMPLES / name / "repository")
    made = plan_archive(repository, read_executor_graph(repository), Namespace("m"))
    assert made.form is FORMS[name]


@pytest.mark.parametrize("name", FORMS)
def test_numbers(name: str, container: Container) -> None:
    """The frameworks' own numbers, and for a single row the same first number, in its shape."""
    request, (expected,) = read(name, "request.json"), read(name, "expected.json")["outputs"]
    (found,) = container.invoke(name, request).json()["outputs"]
    check(found, expected)
    (alone,) = container.invoke(name, one_row(request)).json()["outputs"]
    check(alone, first_row(expected))


def test_without_the_library(tmp_path: Path) -> None:
    """In an environment without XGBoost the load says so, and what to set."""
    with running(tmp_path, SERVE_MODEL_ROOT=str(EXAMPLES)) as container:
        refused = container.load("forest", EXAMPLES / "forest_xgboost/repository")
        assert refused.status_code == 400
        assert "xgboost" in refused.json()["error"]
        assert "SERVE_BACKEND_PYTHON" in refused.json()["error"]
        assert container.models() == {}
