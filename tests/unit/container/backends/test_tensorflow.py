"""The stand-in for TensorFlow's backend, inside a real tritonserver and with real TensorFlow."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from container.tritonserver.runtime import STAND_INS
from tests.graphs import fake_backend
from tests.unit.container.backends.stand_ins import (
    FRAMEWORKS_PYTHON,
    MERLIN_PYTHON,
    StandInServer,
    arguments,
    initialize_each,
    initialize_groups,
    make,
    stand_in_server,
)

pytestmark = pytest.mark.tritonserver

MAKER = Path(__file__).with_name("make_saved_models.py")
SAVED_MODEL = "model.savedmodel"
ONE_PROCESS = "instance_group { count: 1 }"

Row = tuple[str, str, list[int]]
TWO: list[Row] = [("left", "FP32", [-1]), ("right", "FP32", [-1])]
Y: list[Row] = [("y", "FP32", [-1])]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SavedModels of make_saved_models.py."""
    return make(MAKER, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandInServer]:
    """The newest tritonserver, running."""
    with stand_in_server(tmp_path_factory.mktemp("stage"), FRAMEWORKS_PYTHON) as running:
        yield running


def config(inputs: list[Row], outputs: list[Row], extra: str = "", **parameters: str) -> str:
    """As Merlin writes it, for one process: with Merlin's `instance_group { }` there are two."""
    rows = ['backend: "tensorflow" platform: "tensorflow_savedmodel"', ONE_PROCESS, extra]
    for direction, tensors in (("input", inputs), ("output", outputs)):
        rows += [
            f'{direction} {{ name: "{name}" data_type: TYPE_{kind} dims: {dims} }}'
            for name, kind, dims in tensors
        ]
    rows += [
        f'parameters {{ key: "{key}" value {{ string_value: "{word}" }} }}'
        for key, word in parameters.items()
    ]
    return "\n".join(rows)


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def test_the_signature_names_the_tensors(server: StandInServer, models: Path) -> None:
    """Whatever their order in the config; variables are restored; an output may be left out."""
    words = config(TWO[::-1], Y, TF_GRAPH_TAG="serve", TF_SIGNATURE_DEF="serving_default")
    of_merlin = words.replace(ONE_PROCESS, "instance_group { }")
    server.load("named", of_merlin, models / "several", SAVED_MODEL)
    for size in (3, 1):
        left, right = floats(5, 6, 7)[:size], floats(1, 2, 3)[:size]
        answer = server.infer("named", left=left, right=right)
        assert answer.as_numpy("y").tolist() == [40.0] * size
        assert answer.as_numpy("same") is None


def test_another_signature_with_a_batch(server: StandInServer, models: Path) -> None:
    """max_batch_size stands for the signature's first dimension; threads change no number."""
    wide: list[Row] = [(name, kind, [3]) for name, kind, _ in TWO]
    outputs: list[Row] = [("y", "FP32", [3]), ("same", "FP32", [3])]
    threads = {"TF_NUM_INTRA_THREADS": "1", "TF_NUM_INTER_THREADS": "1"}
    words = config(wide, outputs, "max_batch_size: 8", TF_SIGNATURE_DEF="wide", **threads)
    server.load("wide", words, models / "several", SAVED_MODEL)
    rows: Any = np.arange(12, dtype=np.float32).reshape(4, 3)
    answer = server.infer("wide", left=rows, right=np.ones_like(rows))
    assert answer.as_numpy("y").tolist() == ((rows - 1) * 10).tolist()
    assert answer.as_numpy("same").tolist() == rows.tolist()


@pytest.fixture(scope="module")
def words(server: StandInServer, models: Path) -> tuple[str, ...]:
    """The same model by three names: of bytes, with an output that the signature has a scalar."""
    outputs: list[Row] = [("longer", "STRING", [-1]), ("count", "INT32", [1])]
    declared = config([("words", "STRING", [-1])], outputs, TF_SIGNATURE_DEF="words")
    names = ("words_1", "words_2", "words_3")
    for name in names:
        server.load(name, declared, models / "several", SAVED_MODEL)
    return names


def test_outputs_come_in_the_order_of_the_config(
    server: StandInServer, words: tuple[str, ...]
) -> None:
    """Triton hands over a set of names, whose order differs from process to process."""
    for name in words:
        given = np.array([b"a"], dtype=np.object_)
        answer = server.infer(name, words=given).get_response()
        assert [output.name for output in answer.outputs] == ["longer", "count"]


def test_strings(server: StandInServer, words: tuple[str, ...]) -> None:
    """Bytes in and out, and a scalar beside them, which the config gives a shape."""
    answer = server.infer(words[0], words=np.array([b"a", "é".encode()], dtype=np.object_))
    assert answer.as_numpy("longer").tolist() == [b"a!", "é!".encode()]
    assert answer.as_numpy("count") == 2


def test_what_only_a_run_tells(server: StandInServer, models: Path) -> None:
    """A model that fails gives an error answer of one line, and goes on."""
    server.load("checked", config([("x", "FP32", [-1])], Y), models / "checked", SAVED_MODEL)
    for _ in range(2):
        with pytest.raises(InferenceServerException, match=r"^[^\n]*\[negative[^\n]*$"):
            server.infer("checked", x=floats(-1))
        assert server.infer("checked", x=floats(4)).as_numpy("y").tolist() == [2.0]


# --- refusals -------------------------------------------------------------------------------------

Z: list[Row] = [("z", "FP32", [-1])]
WORDS = "TF_SIGNATURE_DEF"

REFUSED: list[tuple[str, list[Row], list[Row], dict[str, Any], str]] = [
    ("several", TWO[:1], Y, {}, "expects 1 inputs, model provides 2; add right"),
    ("several", [*TWO, *Z], Y, {}, "unexpected inference input 'z'"),
    ("several", TWO, Z, {}, "unexpected inference output 'z'"),
    ("several", [], Y, {}, "has no input"),
    ("several", TWO, [], {}, "has no output"),
    ("several", [TWO[0], ("right", "FP64", [-1])], Y, {}, "TYPE_FP64 for input 'right', model pr"),
    ("several", TWO, [("y", "INT32", [-1])], {}, "TYPE_INT32 for output 'y', model provides TYPE"),
    ("several", [TWO[0], ("right", "FP32", [-1, 3])], Y, {}, "configuration specifies 2 dimension"),
    ("several", TWO, [("y", "FP32", [3])], {}, "(shape [-1]) but the model configuration"),
    ("several", TWO, Y, {"max_batch_size": 8}, "specifies 2 dimensions (shape [-1, -1], max_batch"),
    ("several", TWO, Y, {"parameters": {WORDS: "no"}}, "the SavedModel has brain, serving_default"),
    ("several", TWO, Y, {"parameters": {"TF_GRAPH_TAG": "train"}}, "with the tag 'train'"),
    ("several", TWO[:1], Y, {"parameters": {WORDS: "brain"}}, "unsupported datatype 'bfloat16'"),
    ("several", TWO, Y, {"parameters": {"TF_NUM_INTRA_THREADS": "-1"}}, "non-negative"),
    ("several", TWO, Y, {"parameters": {"TF_INIT_OPS_FILE": "init.json"}}, "use NVIDIA's image"),
    ("several", TWO, Y, {"platform": "tensorflow_graphdef"}, "save it as a SavedModel"),
    ("several", TWO, Y, {"platform": "tensorrt_plan"}, "platform 'tensorrt_plan' is not supported"),
    ("several", TWO, Y, {"sequence_batching": {"x": 1}}, "uses sequence_batching"),
    ("garbage", TWO, Y, {}, "expected a SavedModel with the tag 'serve'"),
    ("absent", TWO, Y, {}, "unable to find"),
]


def case(
    models: Path, source: str, inputs: list[Row], outputs: list[Row], extra: dict[str, Any]
) -> dict[str, Any]:
    """What tritonserver would call initialize with."""
    version = models / "cases" / source / "1"
    version.mkdir(parents=True, exist_ok=True)
    link = version / SAVED_MODEL
    if (models / source).exists() and not link.exists():
        link.symlink_to(models / source)
    parameters = {key: {"string_value": word} for key, word in extra.get("parameters", {}).items()}
    declared = {
        "platform": "tensorflow_savedmodel",
        "input": [{"name": n, "data_type": f"TYPE_{t}", "dims": d} for n, t, d in inputs],
        "output": [{"name": n, "data_type": f"TYPE_{t}", "dims": d} for n, t, d in outputs],
        **extra,
        "parameters": parameters,
    }
    return arguments(declared, version.parent)


@pytest.fixture(scope="module")
def initialized(models: Path) -> dict[str, list[str]]:
    """What the backend says to the cases of each test, asked at once in one process."""
    narrow: list[Row] = [(name, kind, [3]) for name, kind, _ in TWO]
    cases = {
        "refused": [case(models, *row[:-1]) for row in REFUSED],
        "served": [
            case(models, "renamed", TWO, Y, {}),
            case(models, "several", narrow, Y, {}),
            {**case(models, "several", TWO, Y, {}), "model_instance_kind": "MODEL"},
        ],
    }
    return initialize_groups(FRAMEWORKS_PYTHON, "tensorflow", cases)


def test_what_is_refused_at_load(initialized: dict[str, list[str]]) -> None:
    """Each with its reason, which goes into the answer to the load."""
    found = zip(initialized["refused"], [row[-1] for row in REFUSED], strict=True)
    assert [pair for pair in found if pair[1] not in pair[0]] == []


def test_what_nvidias_backend_serves_is_not_refused(initialized: dict[str, list[str]]) -> None:
    """The one signature of another name; narrower inputs; an instance of KIND_MODEL."""
    assert set(initialized["served"]) == {"it was served"}


@pytest.mark.parametrize(
    ("kind", "devices", "visible", "device"),
    [
        ("CPU", {"GPU": 0}, "", "/cpu:0"),
        ("GPU", {}, "1", "/gpu:0"),
        ("KIND_GPU", {}, "1", "/gpu:0"),
        ("MODEL", {}, "", None),
    ],
)
def test_memory_of_gpus(
    monkeypatch: pytest.MonkeyPatch, kind: str, devices: Any, visible: str, device: str | None
) -> None:
    """A session takes of a GPU what the model needs, as with NVIDIA's backend (allow_gpu_growth),
    and nothing of another one than the instance's. (TensorFlow itself takes the same arguments in
    every test with a server.)"""
    monkeypatch.setitem(sys.modules, fake_backend.MODULE, ModuleType(fake_backend.MODULE))
    backend = runpy.run_path(str(STAND_INS / "tensorflow/saved_model.py"))
    v1 = SimpleNamespace(ConfigProto=dict, GPUOptions=dict)
    tensorflow = SimpleNamespace(compat=SimpleNamespace(v1=v1))
    args = {"model_instance_kind": kind, "model_instance_device_id": "1"}
    made = backend["SavedModelParameters"]({}, "m").session_config(tensorflow, args)
    assert made["gpu_options"] == {"allow_growth": True, "visible_device_list": visible}
    assert made["device_count"] == devices
    assert backend["device_of"](args) == device


def test_a_missing_tensorflow_is_named(models: Path) -> None:
    """Where the models' Python does not have it, with the setting that names another."""
    (said,) = initialize_each(MERLIN_PYTHON, "tensorflow", [case(models, "several", TWO, Y, {})])
    assert "needs tensorflow, which the models' Python does not have" in said
    assert "this tritonserver has no backend tensorflow of its own" in said
    assert "SERVE_BACKEND_PYTHON" in said
