"""Bare models in the container: served by the file alone, with the numbers of the whole model."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.conftest import EXAMPLES
from tests.support.bare_models import onnx_model
from tests.support.container import ROOT, Container, running

PYTHON = ROOT / ".venv-frameworks/bin/python"
FOREST = EXAMPLES / "forest_lightgbm/repository/1_filtriton"
CLASSIFIER = EXAMPLES / "forest_xgboost/repository/1_filtriton"
SAVED_MODEL = EXAMPLES / "tensorflow_ragged/repository/1_predicttensorflowtriton"
#: In the place of an image's own backend: it finds its file, and doubles the first two numbers.
ONNX_RUNTIME = """
import json, os
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        name = config["default_model_filename"]
        path = os.path.join(args["model_repository"], args["model_version"], name)
        assert os.path.getsize(path) > 50

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(it, "x").as_numpy() for it in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("y", it[:, :2] * 2)]) for it in rows
        ]
"""


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """With the Python that has the stand-ins' libraries, and a backend for ONNX beside them."""
    root = tmp_path_factory.mktemp("models")
    settings = {"SERVE_MODEL_ROOT": str(root), "SERVE_BACKEND_PYTHON": str(PYTHON)}
    with running(tmp_path_factory.mktemp("bare"), **settings) as running_container:
        stand_in = next(running_container.work_dir.rglob("backends/fil"))
        (stand_in.parent / "onnxruntime").mkdir()
        (stand_in.parent / "onnxruntime/model.py").write_text(ONNX_RUNTIME)
        yield running_container


def tensor(name: str, datatype: str, *numbers: float, shape: list[int] | None = None) -> Any:
    shape = shape or [len(numbers)]
    return {"name": name, "datatype": datatype, "shape": shape, "data": [*numbers]}


def ask(container: Container, name: str, request: Any) -> Any:
    answer = container.invoke(name, request)
    assert answer.status_code == 200, answer.text
    return [(it["name"], it["shape"], it["data"]) for it in answer.json()["outputs"]]


def test_forest(container: Container) -> None:
    """LightGBM's file alone answers as the model that Merlin exported around it."""
    shutil.copytree(FOREST, container.model_root / "forest/whole")
    (container.model_root / "forest/bare").mkdir()
    shutil.copy(FOREST / "1/model.txt", container.model_root / "forest/bare/lgbm.txt")
    rows = tensor("input__0", "FP32", 3.5, 12, 40, 0.1, 7, 20, shape=[2, 3])
    answers = []
    for name in ("whole", "bare"):
        with container.loaded(name, container.model_root / "forest" / name):
            answers.append(ask(container, name, {"inputs": [rows]}))
    assert answers[0] == answers[1]


def test_saved_model(container: Container) -> None:
    """A SavedModel that is the archive itself answers as the model that Merlin exported."""
    shutil.copytree(SAVED_MODEL, container.model_root / "saved/whole")
    shutil.copytree(SAVED_MODEL / "1/model.savedmodel", container.model_root / "saved/bare")
    request = {
        "inputs": [
            tensor("genres__offsets", "INT32", 0, 2, 3),
            tensor("genres__values", "INT64", 1, 2, 3),
            tensor("price", "FP32", 0.5, 1.5),
            tensor("user_id", "INT64", 1, 2),
        ]
    }
    answers = []
    for name in ("whole", "bare"):
        with container.loaded(name, container.model_root / "saved" / name):
            answers.append(ask(container, name, request))
    assert answers[0] == answers[1]


def test_onnx(container: Container) -> None:
    """An ONNX file alone is given to the image's backend, with rows as many as a request has."""
    archive = container.model_root / "onnx"
    archive.mkdir()
    content = onnx_model([("x", 1, ("batch", 4))], [("y", 1, ("batch", 2))])
    (archive / "ranker.onnx").write_bytes(content)
    with container.loaded("onnx", archive):
        rows = tensor("x", "FP32", *range(40), shape=[10, 4])
        (answer,) = ask(container, "onnx", {"inputs": [rows]})
        assert answer[1] == [10, 2]
        assert answer[2][:4] == [0, 2, 8, 10]
        wrong = container.invoke("onnx", {"inputs": [tensor("x", "FP32", 1, 2, shape=[1, 2])]})
        assert wrong.status_code == 400


def test_pasted_config(container: Container) -> None:
    """The config of the refusal, put beside the file as it is, serves it."""
    archive = container.model_root / "pasted"
    archive.mkdir()
    shutil.copy(CLASSIFIER / "1/xgboost.json", archive)
    refused = container.load("pasted", archive)
    assert refused.status_code == 400
    (config,) = re.findall("`(.*)`", json.loads(refused.text)["error"])
    (archive / "config.pbtxt").write_text(config)
    with container.loaded("pasted", archive):
        rows = tensor("input__0", "FP32", 1, 2, 30, 4.5, shape=[1, 4])
        (answer,) = ask(container, "pasted", {"inputs": [rows]})
        assert answer[1] == [1, 1] or answer[1] == [1]
        assert 0 < answer[2][0] < 1
