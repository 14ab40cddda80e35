"""The generated model that runs an ensemble's steps itself, without tritonserver."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from container.warm.interpreters import CODE
from ensemble_tools.steps.sources import render_joined
from tests.graphs import fake_backend

DOUBLE = """
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        self.args = args
    def execute(self, requests):
        (request,) = requests
        self.wanted = request.requested_output_names()
        array = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        if (array < 0).any():
            error = pb_utils.TritonError("below 0", pb_utils.TritonError.INVALID_ARG)
            return [pb_utils.InferenceResponse(error=error)]
        if (array > 1000).any():
            return [pb_utils.InferenceResponse([])]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", array * 2)])]
    def finalize(self):
        self.ended = True
"""
#: As a compiled workflow: it imports what lies beside it.
ADD = """
import triton_python_backend_utils as pb_utils
from beside_the_step import ONE
class TritonPythonModel:
    def execute(self, requests):
        array = requests[0].inputs()[0].as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("sum", array + ONE)])]
"""
#: As a workflow with functions: it changes its process, and what it is given.
CHANGE = """
import warnings
import numpy as np
import triton_python_backend_utils as pb_utils
np.seterr(over="raise")
class TritonPythonModel:
    def initialize(self, args):
        warnings.simplefilter("error")
        self.seen = []
    def execute(self, requests):
        self.seen.append(warnings.filters[0][0])
        warnings.simplefilter("always" if len(self.seen) == 1 else "error")
        np.seterr(over="call")
        array = requests[0].inputs()[0].as_numpy()
        array += 1
        return [pb_utils.InferenceResponse([pb_utils.Tensor("sum", array)])]
"""
#: As the predictor behind it.
LOOK = """
import warnings
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    seen = []
    def execute(self, requests):
        self.seen.append((list(warnings.filters), np.geterr()))
        array = requests[0].inputs()[0].as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", array)])]
"""
BROKEN = """
class TritonPythonModel:
    def initialize(self, args):
        raise ValueError("no such file")
"""


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a model imports, and the search path as it was."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(CODE)])
    before = sys.modules.get(fake_backend.MODULE)
    fake_backend.install()
    yield
    for name in [name for name in sys.modules if name.startswith("step_")]:
        del sys.modules[name]
    sys.modules.pop("beside_the_step", None)
    if before is not None:
        sys.modules[fake_backend.MODULE] = before


def row(
    name: str,
    model_file: str,
    reads: dict[str, str],
    writes: dict[str, str],
    dims: tuple[int, ...],
    functions: bool,
) -> dict[str, Any]:
    declared = [{"name": each, "data_type": "TYPE_FP32", "dims": [*dims]} for each in reads]
    return {
        "name": name,
        "model_file": model_file,
        "folder": f"steps/m.{name}",
        "version": "3",
        "functions": functions,
        "config": {"name": f"m.{name}", "input": declared},
        "reads": reads,
        "writes": writes,
    }


def made(
    folder: Path,
    dims: tuple[int, ...] = (-1,),
    double: str = DOUBLE,
    answer: tuple[str, ...] = ("answer",),
    add: str = ADD,
    functions: bool = False,
) -> Any:
    """The model: add, then double; loaded and initialised. functions: whether `add` has some."""
    own = folder / "steps/m.add/3"
    own.mkdir(parents=True)
    (own / "model.py").write_text(add)
    (own / "beside_the_step.py").write_text("ONE = 1\n")
    other = folder / "elsewhere.py"
    other.write_text(double)
    steps = [
        row("add", "steps/m.add/3/model.py", {"a": "a"}, {"sum": "more"}, (-1,), functions),
        row("double", str(other), {"x": "more"}, {"y": "answer"}, dims, False),
    ]
    path = folder / "served_model.py"
    path.write_text(render_joined(steps, answer))
    spec = importlib.util.spec_from_file_location("served_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.TritonPythonModel()
    model.initialize({"model_name": "m", "model_instance_kind": "CPU", "model_version": "1"})
    return model


def ask(
    model: Any, numbers: list[float], dtype: str = "float32", wanted: tuple[str, ...] = ("answer",)
) -> Any:
    tensor = fake_backend.Tensor("a", np.array(numbers, dtype))
    request = fake_backend.InferenceRequest("7", 0, [tensor], [*wanted])
    (response,) = model.execute([request])
    return response


def test_one_after_another(tmp_path: Path) -> None:
    """Tensors have the ensemble's names between two steps, and each step's own inside of it."""
    model = made(tmp_path)
    response = ask(model, [1.0, 2.5])
    (tensor,) = response.output_tensors()
    assert (tensor.name(), tensor.as_numpy().tolist()) == ("answer", [4.0, 7.0])


def test_only_what_the_answer_needs_is_run(tmp_path: Path) -> None:
    """As tritonserver leaves out the others: what they would err at is nobody's matter."""
    model = made(tmp_path, answer=("more", "answer"))
    (tensor,) = ask(model, [-5.0], wanted=("more",)).output_tensors()
    assert (tensor.name(), tensor.as_numpy().tolist()) == ("more", [-4.0])
    assert ask(model, [-5.0], wanted=("more", "answer")).error().message().endswith("below 0")
    assert ask(model, [-5.0]).error().message().endswith("below 0")


def test_a_predictor_cannot_change_what_others_read(tmp_path: Path) -> None:
    """tritonserver gives each step a copy; here torch makes one of what it may not write into."""
    model = made(tmp_path)
    seen = {}

    def look(requests: Any) -> Any:
        seen["more"] = requests[0].inputs()[0].as_numpy()
        return [fake_backend.InferenceResponse([fake_backend.Tensor("y", seen["more"])])]

    model.steps[1].model.execute = look
    ask(model, [1.0])
    assert not seen["more"].flags.writeable


@pytest.mark.filterwarnings("default")
def test_what_functions_set_holds_for_them_alone(tmp_path: Path) -> None:
    """From one request to the next; a predictor sees none of it."""
    before = (list(warnings.filters), np.geterr())
    model = made(tmp_path, add=CHANGE, double=LOOK, functions=True)
    for _ in range(3):
        ask(model, [1.0])
    assert model.steps[0].model.seen == ["error", "always", "error"]
    assert model.steps[1].model.seen == [before] * 3
    assert (warnings.filters, np.geterr()) == before


def test_functions_cannot_change_what_others_read(tmp_path: Path) -> None:
    """They may write into what they are given, which is theirs."""
    model = made(tmp_path, add=CHANGE, double=LOOK, functions=True)
    given = np.array([1.0], "float32")
    request = fake_backend.InferenceRequest("7", 0, [fake_backend.Tensor("a", given)], ["answer"])
    (response,) = model.execute([request])
    assert response.output_tensors()[0].as_numpy().tolist() == [2.0]
    assert given.tolist() == [1.0]


def test_modules_beside_a_step_come_before_the_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process of its own; the stub has put the model's directory on the path."""
    monkeypatch.setattr(sys, "path", [*sys.path[:-1], str(tmp_path), str(CODE)])
    made(tmp_path)
    own, code = str(tmp_path / "steps/m.add/3"), str(CODE)
    assert sys.path.index(own) < sys.path.index(code)
    assert sys.path.index(own) > 0


def test_a_step_is_told_what_tritonserver_would_tell_it(tmp_path: Path) -> None:
    """Its own name, config, folder and version; of the instance what holds for the whole."""
    model = made(tmp_path)
    ask(model, [1.0])
    double = model.steps[1].model
    assert double.args["model_name"] == "m.double"
    assert double.args["model_repository"] == str(tmp_path / "steps/m.double")
    assert (double.args["model_version"], double.args["model_instance_kind"]) == ("3", "CPU")
    assert '"dims": [-1]' in double.args["model_config"]
    assert double.wanted == ["y"]
    assert double.args["joined"] == "true"
    model.finalize()
    assert double.ended


def test_an_error_is_the_ensembles(tmp_path: Path) -> None:
    """With tritonserver's words in front, and the step's code."""
    error = ask(made(tmp_path), [-5.0]).error()
    assert error.message() == "in ensemble 'm', below 0"
    assert error.code() == fake_backend.TritonError.INVALID_ARG


@pytest.mark.parametrize(
    ("dims", "numbers", "dtype", "expected"),
    [
        ((-1,), [1.0], "float64", "is float64, and its config says TYPE_FP32"),
        ((3,), [1.0], "float32", "of the step double. Expected [3], got [1]"),
        ((-1, 1), [1.0], "float32", "of the step double. Expected [-1, 1], got [1]"),
        ((-1,), [2000.0], "float32", "the step double put out no y"),
    ],
)
def test_what_tritonserver_would_not_pass_on(
    tmp_path: Path, dims: tuple[int, ...], numbers: list[float], dtype: str, expected: str
) -> None:
    """Between two steps it looks at types and shapes as at a request's."""
    error = ask(made(tmp_path, dims), numbers, dtype).error()
    assert error.message().startswith("in ensemble 'm', ")
    assert expected in error.message()


def test_a_step_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """By its name in the archive; the exception keeps its own."""
    with pytest.raises(Exception, match=r"^the step double: no such file$") as caught:
        made(tmp_path, double=BROKEN)
    assert type(caught.value).__name__ == "ValueError"


def test_answers_have_the_configs_order(tmp_path: Path) -> None:
    """What a request asks for comes as a set, whose order differs from process to process."""
    model = made(tmp_path, answer=("more", "answer"))
    response = ask(model, [1.0], wanted=("answer", "more"))
    assert [tensor.name() for tensor in response.output_tensors()] == ["more", "answer"]
