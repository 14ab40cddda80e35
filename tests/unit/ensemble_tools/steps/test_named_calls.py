"""The generated model.py of a python model that calls others, run without tritonserver."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.steps.sources import named_calls_source

NAMES = {"one": "m.one", "m": "m.m", "top": "m"}


class RealMeta(type):
    """pybind11's classes have a metaclass of their own."""


class RealRequest(metaclass=RealMeta):
    """Takes its arguments in the order of Triton's InferenceRequest."""

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int = 0,
        inputs: Any = (),
        requested_output_names: Any = (),
        model_name: Any = None,
        model_version: int = -1,
    ) -> None:
        self.name, self.version, self.inputs = model_name, model_version, inputs


class Raised(Exception):
    """TritonModelException."""


@pytest.fixture
def pb_utils(monkeypatch: pytest.MonkeyPatch) -> Any:
    """triton_python_backend_utils as it is when a model's file is loaded: without what it needs."""
    module: Any = types.ModuleType("triton_python_backend_utils")
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", module)
    return module


def started(pb_utils: Any, directory: Path, source: str) -> Any:
    """The module, and its TritonPythonModel made as the stub makes it."""
    (directory / "as_delivered.py").write_text(source)
    path = directory / "model.py"
    path.write_text(named_calls_source("as_delivered.py", NAMES))
    module: Any = types.ModuleType("1.model")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    loaded: list[tuple[Any, ...]] = []
    pb_utils.InferenceRequest, pb_utils.TritonModelException = RealRequest, Raised
    pb_utils.load_model = lambda model_name, config="": loaded.append((model_name, config))
    pb_utils.unload_model = lambda model_name: loaded.append((model_name,))
    pb_utils.is_model_ready = lambda model_name, model_version="": model_name == "m.one"
    module.loaded = loaded
    module.model = module.TritonPythonModel()
    return module


PLAIN = "class TritonPythonModel:\n    pass\n"


def test_text(tmp_path: Path) -> None:
    """It is valid Python that ends with what differs from model to model, as people can read it."""
    text = named_calls_source("model_as_delivered.py", NAMES)
    assert text.startswith(
        '"""Calls other models of its archive by the names that they have there.'
    )
    assert text.endswith(
        "# --- what this model does\n\n"
        "_NAMES = {'one': 'm.one', 'm': 'm.m', 'top': 'm'}\n"
        "_run_delivered('model_as_delivered.py', _NAMES)\n"
    )
    quoted = named_calls_source("a'b.py", {'it\'s "one"\n': "m.\\"})
    compile(quoted, "model.py", "exec")


def test_requests(pb_utils: Any, tmp_path: Path) -> None:
    """By keyword and by place; a name of the archive's, or its Triton name; nothing else."""
    started(pb_utils, tmp_path, PLAIN)
    request = pb_utils.InferenceRequest
    assert request(model_name="one", model_version=3).name == "m.one"
    assert request("id", 1, ["tensor"], ["OUT"], "one", 2).name == "m.one"
    assert request(model_name="m.one").name == "m.one"
    assert request(model_name="m").name == "m.m"  # a model of the archive before a Triton name
    assert request(model_name=7).name == 7
    assert request(inputs=["tensor"]).name is None
    for stranger in ("other", "m.other", "m2.one", "", "x" * 10_000):
        with pytest.raises(Raised, match="which is not served with it: it can call 'one'") as error:
            request(model_name=stranger)
        assert len(str(error.value)) < 400


def test_the_stubs_own_module(
    pb_utils: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model takes from c_python_backend_utils, where pb_utils has it from, maps as well."""
    origin: Any = types.ModuleType("c_python_backend_utils")
    origin.InferenceRequest, origin.unload_model = RealRequest, lambda model_name: model_name
    monkeypatch.setitem(sys.modules, "c_python_backend_utils", origin)
    module = started(pb_utils, tmp_path, PLAIN)
    assert origin.InferenceRequest(model_name="one").name == "m.one"
    origin.unload_model("one")
    assert module.loaded == [("m.one",)]
    for call in (origin.InferenceRequest, origin.unload_model):
        with pytest.raises(Raised, match="which is not served with it"):
            call(model_name="other")


def test_instances(pb_utils: Any, tmp_path: Path) -> None:
    """Requests that come in are instances of the class, and so are those that are made."""
    started(pb_utils, tmp_path, PLAIN)
    request: Any = pb_utils.InferenceRequest
    assert isinstance(RealRequest(), request)
    assert isinstance(request(model_name="one"), request)
    assert isinstance(request(model_name="one"), RealRequest)
    assert not isinstance("one", request)

    own = type(request)("Own", (request,), {})
    assert isinstance(own(model_name="one"), own)
    assert own(model_name="one").name == "m.one"
    assert not isinstance(RealRequest(), own)


def test_model_control(pb_utils: Any, tmp_path: Path) -> None:
    """Loading, unloading and asking go to the archive's models; strangers are never ready."""
    module = started(pb_utils, tmp_path, PLAIN)
    pb_utils.load_model("one", config="{}")
    pb_utils.load_model(model_name="m")
    pb_utils.unload_model("one")
    assert module.loaded == [("m.one", "{}"), ("m.m", ""), ("m.one",)]
    assert pb_utils.is_model_ready("one")
    assert pb_utils.is_model_ready(model_name="one", model_version="1")
    assert not pb_utils.is_model_ready("stranger")
    with pytest.raises(Raised):
        pb_utils.load_model("stranger")


def test_names_are_mapped_once(pb_utils: Any, tmp_path: Path) -> None:
    """A second instance of the model in the process does not map mapped names."""
    module = started(pb_utils, tmp_path, PLAIN)
    request = pb_utils.InferenceRequest
    module.TritonPythonModel()
    assert pb_utils.InferenceRequest is request


def test_the_delivered_file_is_this_module(pb_utils: Any, tmp_path: Path) -> None:
    """Names, `__file__`, `__future__`, own constructors and static methods are what they were."""
    source = '''"""Delivered."""
from __future__ import annotations
import triton_python_backend_utils as pb_utils

def _run_delivered(): return "mine"

class TritonPythonModel:
    late: NoSuchName = None
    def __init__(self):
        super(TritonPythonModel, self).__init__()
        self.early = pb_utils.InferenceRequest(model_name="one")
    @staticmethod
    def auto_complete_config(config): return config
'''
    module = started(pb_utils, tmp_path, source)
    assert module.__doc__ == "Delivered."
    assert module.TritonPythonModel.__module__ == "1.model"
    assert module.__file__ == str(tmp_path / "as_delivered.py")
    assert vars(module)["_run_delivered"]() == "mine"
    assert module.model.early.name == "m.one"
    assert module.TritonPythonModel.auto_complete_config(1) == 1


def test_other_encodings(pb_utils: Any, tmp_path: Path) -> None:
    """The file is read as Python reads it."""
    (tmp_path / "as_delivered.py").write_bytes(
        b"# coding: latin-1\nWORD = '\xe9'\nclass TritonPythonModel: pass\n"
    )
    module: Any = types.ModuleType("1.model")
    module.__file__ = str(tmp_path / "model.py")
    exec(named_calls_source("as_delivered.py", NAMES), vars(module))
    assert module.WORD == "é"
