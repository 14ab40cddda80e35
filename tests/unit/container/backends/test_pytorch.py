"""The stand-in for libtorch, inside a real tritonserver and with real torch."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from container.tritonserver.runtime import ask_interpreter
from tests.unit.container.backends.stand_ins import (
    StandInServer,
    arguments,
    initialize_each,
    stand_in_server,
)
from tests.unit.container.conftest import ROOT

pytestmark = pytest.mark.tritonserver

MAKER = Path(__file__).with_name("make_torch_models.py")
MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"
LIVE_TIMEOUT_S = 120.0

X, TWO = [("x", "FP32", [-1])], [("left", "FP32", [3]), ("right", "FP32", [3])]


class Server:
    """One tritonserver for all tests of this file, with its repository."""

    def __init__(self, host: StandInServer, models: Path) -> None:
        self.repository, self.client, self.infer = host.repository, host.client, host.infer
        self._host, self.models = host, models

    def load(
        self,
        name: str,
        source: str,
        inputs: list[Any],
        outputs: list[Any],
        extra: str = "",
        file: str = "model.pt",
    ) -> None:
        """Publishes the model and loads it; raises what Triton answers."""
        rows = [tensor("input", row) for row in inputs] + [tensor("output", r) for r in outputs]
        config = "\n".join(['backend: "pytorch"', 'platform: "pytorch_libtorch"', *rows, extra])
        self._host.load(name, config, self.models / f"{source}.pt", file)


def tensor(direction: str, row: tuple[str, str, list[int]]) -> str:
    name, kind, dims = row
    return f'{direction} {{ name: "{name}" data_type: TYPE_{kind} dims: {dims} }}'


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TorchScript files of make_torch_models.py; a directory, and a file that is none."""
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([MODELS_PYTHON, MAKER, folder], check=True, timeout=600)
    (folder / "directory.pt").mkdir()
    (folder / "garbage.pt").write_bytes(b"not TorchScript")
    return folder


@pytest.fixture(scope="module")
def server(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The newest tritonserver, running."""
    with stand_in_server(tmp_path_factory.mktemp("stage"), MODELS_PYTHON) as host:
        assert "pytorch" in host.stand_ins
        yield Server(host, models)


def test_forward_arguments_give_the_places(server: Server) -> None:
    """Rule 2: names are forward's arguments, in whatever order the config has them."""
    server.load("by_argument", "Sub", TWO[::-1], [("y", "FP32", [3])])
    answer = server.infer("by_argument", left=floats(5, 6, 7), right=floats(1, 2, 3))
    assert answer.as_numpy("y").tolist() == [4, 4, 4]


@pytest.fixture(scope="module")
def indexed(server: Server) -> tuple[str, ...]:
    """The same model by three names, whose tensors stand against their indices in the config."""
    names = ("by_index_1", "by_index_2", "by_index_3")
    inputs = [("in__1", "FP32", [3]), ("in__0", "FP32", [3])]
    outputs = [("out__1", "INT64", [3]), ("out__0", "FP32", [3])]
    for name in names:
        server.load(name, "Pair", inputs, outputs)
    return names


def test_indices_give_the_places(server: Server, indexed: tuple[str, ...]) -> None:
    """Rule 3: NAME__INDEX, for inputs and outputs, against the order of the config."""
    for name in indexed:
        answer = server.infer(name, in__0=floats(5, 1, 7), in__1=floats(1, 2, 3))
        assert answer.as_numpy("out__0").tolist() == [4, -1, 4]
        assert answer.as_numpy("out__1").tolist() == [1, 0, 1]


def test_outputs_come_in_the_order_of_the_config(server: Server, indexed: tuple[str, ...]) -> None:
    """Triton hands over a set of names, whose order differs from process to process."""
    for name in indexed:
        answer = server.infer(name, in__0=floats(5, 1, 7), in__1=floats(1, 2, 3)).get_response()
        assert [output.name for output in answer.outputs] == ["out__1", "out__0"]


def test_other_names_take_the_order_of_the_config(server: Server) -> None:
    """Rule 4: libtorch falls back to strict ordering, and so does the stand-in."""
    inputs = [("left", "FP32", [3]), ("other", "FP32", [3])]
    server.load("by_order", "Sub", inputs, [("y", "FP32", [3])])
    answer = server.infer("by_order", left=floats(5, 6, 7), other=floats(1, 2, 3))
    assert answer.as_numpy("y").tolist() == [4, 4, 4]


def test_a_dict_is_filled_by_name(server: Server) -> None:
    """Rule 1: names are keys, with `__` in them or without."""
    inputs = [("a", "FP32", [2]), ("b__offsets", "INT32", [2])]
    server.load("by_key", "Keys", inputs, [("y", "FP32", [2])])
    offsets = np.array([1, 2], dtype=np.int32)
    answer = server.infer("by_key", a=floats(5, 5), b__offsets=offsets)
    assert answer.as_numpy("y").tolist() == [4, 3]


def test_a_batched_traced_model_on_any_instance_group(server: Server) -> None:
    """Merlin's exports have `instance_group {}` and a batch dimension."""
    extra = "max_batch_size: 8\ninstance_group { }\ndynamic_batching { }"
    server.load("batched", "Traced", TWO, [("y", "FP32", [3])], extra)
    rows: Any = np.arange(12, dtype=np.float32).reshape(4, 3)
    answer = server.infer("batched", left=rows, right=np.ones_like(rows))
    assert answer.as_numpy("y").tolist() == (rows - 1).tolist()


def test_strings_are_lists(server: Server) -> None:
    """List[str] in and out, as libtorch has it."""
    server.load("strings", "Strings", [("words", "STRING", [-1])], [("w", "STRING", [-1])])
    words = np.array([b"a", "é".encode()], dtype=np.object_)
    assert server.infer("strings", words=words).as_numpy("w").tolist() == [b"a!", "é!".encode()]


def test_parameters_and_another_file_name(server: Server) -> None:
    """The parameters that libtorch knows are taken; numbers stay the same."""
    parameters = {
        "INFERENCE_MODE": "false",
        "DISABLE_OPTIMIZED_EXECUTION": "true",
        "ENABLE_JIT_EXECUTOR": "false",
        "INTRA_OP_THREAD_COUNT": "1",
    }
    rows = [
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
        for key, value in parameters.items()
    ]
    rows.append('default_model_filename: "other.pt"')
    server.load("tuned", "Sub", TWO, [("y", "FP32", [3])], "\n".join(rows), "other.pt")
    answer = server.infer("tuned", left=floats(5, 6, 7), right=floats(1, 2, 3))
    assert answer.as_numpy("y").tolist() == [4, 4, 4]


REFUSED: list[tuple[str, list[Any], list[Any], dict[str, Any], str]] = [
    ("Sub", X, [("y", "FP32", [-1])], {}, "expects 1 inputs, model provides 2"),
    ("Double", [("x", "UINT32", [-1])], X, {}, "unsupported datatype TYPE_UINT32 for input"),
    ("Double", X, [("y", "UINT64", [-1])], {}, "unsupported datatype TYPE_UINT64 for output"),
    ("Double", [("x", "BF16", [-1])], X, {}, "unsupported datatype TYPE_BF16"),
    ("Double", [], X, {}, "has no input"),
    ("Double", X, [], {}, "has no output"),
    ("Sub", [("i__1", "FP32", [3]), ("j__1", "FP32", [3])], X, {}, "the places [1, 1]"),
    ("Sub", [("i__1", "FP32", [3]), ("j__2", "FP32", [3])], X, {}, "expected each of 0 to 1"),
    ("Sub", TWO, [("y__1", "FP32", [3])], {}, "refers to an output index which doesn't exist"),
    ("DictOut", X, [("y", "FP32", [-1])], {}, "must be of type Tensor"),
    ("Optional", X, X, {}, "is of type 'Optional[Tensor]'"),
    ("Strings", [("w", "STRING", [2, 2])], [("w", "STRING", [-1])], {}, "one dimension"),
    ("Strings", [("w", "STRING", [2])], X, {"max_batch_size": 2}, "2 dimensions"),
    ("Sub", TWO, X, {"sequence_batching": {"x": 1}}, "does not serve"),
    ("Sub", TWO, X, {"kind": "GPU"}, "sees no CUDA device"),
    ("Sub", TWO, X, {"default_model_filename": "no.pt"}, "unable to find"),
    ("Sub", TWO, X, {"platform": "torch_aoti"}, "of the platform torch_aoti, which the Python"),
    # An untraced Transformers4Rec export has such a directory; the message says what to do.
    ("directory", TWO, X, {}, "is a directory, expected a TorchScript file; trace or script"),
    ("garbage", TWO, X, {}, "is not TorchScript that torch"),
    ("Sub", TWO, X, {"parameters": {"INFERENCE_MODE": {"string_value": "maybe"}}}, "true or false"),
    ("Sub", TWO, X, {"parameters": {"INTRA_OP_THREAD_COUNT": {"string_value": "x"}}}, "whole"),
]


def initialize_args(
    case: tuple[str, list[Any], list[Any], dict[str, Any], str], models: Path
) -> Any:
    """What tritonserver would call initialize with."""
    source, inputs, outputs, extra, _ = case
    file = models / source / "1/model.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        copy = shutil.copytree if (models / f"{source}.pt").is_dir() else shutil.copy
        copy(models / f"{source}.pt", file)
    config = {
        "input": [{"name": n, "data_type": f"TYPE_{t}", "dims": d} for n, t, d in inputs],
        "output": [{"name": n, "data_type": f"TYPE_{t}", "dims": d} for n, t, d in outputs],
        **extra,
    }
    return arguments(config, models / source, extra.get("kind", "CPU"))


def test_what_is_refused_at_load(models: Path) -> None:
    """Each with its reason, which goes into the answer to the load."""
    cases = [initialize_args(case, models) for case in REFUSED]
    said = initialize_each(MODELS_PYTHON, "pytorch", cases)
    assert len(said) == len(REFUSED)
    assert [
        (words, case[-1])
        for words, case in zip(said, REFUSED, strict=True)
        if case[-1] not in words
    ] == []


def test_a_refusal_reaches_whoever_loads(server: Server) -> None:
    """Through tritonserver, and the server goes on."""
    with pytest.raises(InferenceServerException, match="expects 1 inputs, model provides 2"):
        server.load("refused", "Sub", X, [("y", "FP32", [-1])])


@pytest.fixture(scope="module")
def wrong(server: Server) -> str:
    """A model that is right for one value, and wrong in another way for each other number."""
    server.load("wrong", "Wrong", X, [("y", "FP32", [-1])])
    return "wrong"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (2, "expects datatype TYPE_FP32 for output 'y', model provides TYPE_FP64"),
        (3, "is a scalar which is not supported"),
        (4, "PyTorch execute failure: .*"),
    ],
)
def test_what_is_refused_at_a_request(
    server: Server, wrong: str, values: int, message: str
) -> None:
    """What only a run tells is an error answer, and the model goes on."""
    for _ in range(2):
        with pytest.raises(InferenceServerException, match=message):
            server.infer(wrong, x=np.ones(values, dtype=np.float32))
        assert server.infer(wrong, x=floats(7)).as_numpy("y").tolist() == [7]


def test_the_models_python_is_the_one_asked(server: Server) -> None:
    """The interpreter describes itself: version, prefix, and the libpython it brings."""
    python = ask_interpreter(MODELS_PYTHON)
    assert python.prefix == MODELS_PYTHON.parent.parent
    assert python.version.startswith("3.")
