"""The generated model.py in the place of a delivered one, run without tritonserver."""

from __future__ import annotations

import asyncio
import sys
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.steps.sources import render_delivered

NAMES = {"one": "m.one", "m": "m.m", "top": "m"}
#: The copy of the archive's layout, seen from the generated file's directory, and the model in it.
LAYOUT, MODEL = "../../m/.archive", "model/top"


class Request:
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


class Stub:
    """What tritonserver's stub does with a model's file, and the modules that it has for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.published = directory / "serving/m.top/1"
        self.delivered = directory / "copy/model/top"
        self.loaded: list[tuple[Any, ...]] = []
        self.triton: Any = types.ModuleType("c_python_backend_utils")
        vars(self.triton).update(
            InferenceRequest=type("InferenceRequest", (Request,), {}),
            TritonModelException=Raised,
            load_model=lambda model_name, config="": self.loaded.append((model_name, config)),
            unload_model=lambda model_name: self.loaded.append((model_name,)),
            is_model_ready=lambda model_name, model_version="": model_name == "m.one",
        )
        self.pb_utils: Any = types.ModuleType("triton_python_backend_utils")

    def publish(self) -> None:
        """Make the directories, and the link to the copy."""
        link = self.directory / "serving/m/.archive"
        for place in (self.published, self.delivered / "1", link.parent):
            place.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(self.directory / "copy")

    def start(self, source: str | bytes) -> Any:
        """The module, and its TritonPythonModel made and initialized as the stub does it."""
        self.publish()
        data = source if isinstance(source, bytes) else source.encode()
        (self.delivered / "1/model.py").write_bytes(data)
        path = self.published / "model.py"
        path.write_text(render_delivered(LAYOUT, MODEL, str(self.directory / "delivered"), NAMES))
        module: Any = types.ModuleType("1.model")
        module.__file__ = str(path)
        sys.path[:] = [*sys.path, str(self.published), str(self.published.parent)]
        exec(compile(path.read_text(), str(path), "exec"), vars(module))
        for name in ("InferenceRequest", "load_model", "unload_model", "is_model_ready"):
            setattr(self.pb_utils, name, getattr(self.triton, name))
        self.pb_utils.get_model_dir = lambda: str(self.published)
        module.model = module.TritonPythonModel()
        if hasattr(module.model, "initialize"):
            arguments = {
                "model_repository": str(self.published.parent),
                "model_name": "m.top",
                "model_config": '{"name":"m.top","dims":["-1"]}',
                "model_version": "1",
            }
            module.model.initialize(arguments)
        return module


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stub:
    """A stub; what the generated file changes of this interpreter is put back."""
    made = Stub(tmp_path)
    monkeypatch.setitem(sys.modules, "c_python_backend_utils", made.triton)
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", made.pb_utils)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(SourceFileLoader, "set_data", SourceFileLoader.set_data)
    return made


PLAIN = "class TritonPythonModel:\n    pass\n"


def test_text() -> None:
    """It is valid Python that ends with what differs from model to model, as people can read it."""
    text = render_delivered("../../m/.archive", "model/top", "/opt/ml/models/1/model", NAMES)
    assert text.startswith('"""Runs a model of the archive as if it lay in its archive.')
    assert text.endswith(
        "# --- what this model does\n\n"
        "_NAMES = {'one': 'm.one', 'm': 'm.m', 'top': 'm'}\n"
        "_LAYOUT = '../../m/.archive'\n"
        "_MODEL = 'model/top'\n"
        "_ARCHIVE = '/opt/ml/models/1/model'\n"
        "_Delivered(_LAYOUT, _MODEL, _ARCHIVE, _NAMES).run()\n"
    )
    quoted = render_delivered("", "a'b\udcff", "", {'it\'s "one"\n': "m.\\"})
    compile(quoted.encode(), "model.py", "exec")


class Loud(str):
    """A name that is whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("one")

    def __str__(self) -> str:
        return "one"


class Odd(bytes):
    """Bytes that say that they are others."""

    def __bytes__(self) -> bytes:
        return b"one"

    def decode(self, *_: Any) -> str:
        return "one"


@pytest.mark.parametrize(
    "make",
    [
        str,
        str.encode,
        np.str_,
        lambda it: np.bytes_(it.encode()),
        lambda it: bytearray(it, "utf-8"),
    ],
)
def test_requests(make: Any, stub: Stub) -> None:
    """By keyword and by place, in every kind that Triton reads; a name of the archive's alone."""
    stub.start(PLAIN)
    request = stub.pb_utils.InferenceRequest
    assert request(model_name=make("one"), model_version=3).name == "m.one"
    assert request("id", 1, ["tensor"], ["OUT"], make("one"), 2).name == "m.one"
    assert request(model_name=make("m.one")).name == "m.one"
    assert request(model_name=make("m")).name == "m.m"  # the archive's before a Triton name
    for stranger in ("other", "m.other", "m2.one", "", "x" * 10_000, "\n"):
        for asked in (
            request(model_name=make(stranger)),
            request("id", 1, ["tensor"], ["OUT"], make(stranger)),
        ):
            assert type(asked.name) is str
            assert " (not served with this model, which can call 'one', 'm', 'top'; " in asked.name
            assert len(asked.name) < 400
    assert request(inputs=["tensor"]).name is None


@pytest.mark.parametrize("name", [None, 7, ["one"], np.array("one"), np.array([b"one"]), object()])
def test_no_names(name: object, stub: Stub) -> None:
    """What Triton does not read as a name is none here, in one sentence."""
    stub.start(PLAIN)
    for call in (stub.pb_utils.InferenceRequest, stub.pb_utils.load_model):
        with pytest.raises(TypeError, match=r"model_name: found \w+, expected str or bytes"):
            call(model_name=name)


def test_names_that_lie(stub: Stub) -> None:
    """A name is what Triton would read, whatever its class says that it is."""
    stub.start(PLAIN)
    for name in (Loud("other"), Odd(b"other")):
        assert "'other' (not served" in stub.pb_utils.InferenceRequest(model_name=name).name
        with pytest.raises(Raised, match="'other'"):
            stub.pb_utils.unload_model(name)
    assert stub.pb_utils.InferenceRequest(model_name=Loud("m")).name == "m.m"


def test_the_stubs_own_module(stub: Stub) -> None:
    """What a model takes from there, while its file is imported too, maps as well."""
    module = stub.start(f"from c_python_backend_utils import InferenceRequest as own\n{PLAIN}")
    assert module.own(model_name="one").name == "m.one"
    assert module.own is stub.pb_utils.InferenceRequest


def test_every_class_of_requests(stub: Stub) -> None:
    """The class of those that come in maps as well, and so does what is derived from it."""
    came_in = stub.triton.InferenceRequest.__new__(stub.triton.InferenceRequest)
    stub.start(PLAIN)
    assert isinstance(came_in, stub.pb_utils.InferenceRequest)
    own = type("Own", (stub.pb_utils.InferenceRequest,), {})
    for request in (type(came_in), own):
        assert request(model_name="one").name == "m.one"
        assert "'other' (not served" in request(model_name="other").name


def test_model_control(stub: Stub) -> None:
    """Loading, unloading and asking go to the archive's models; strangers are never ready."""
    stub.start(PLAIN)
    stub.pb_utils.load_model("one", config="{}")
    stub.pb_utils.load_model(model_name=b"m")
    stub.pb_utils.unload_model("one")
    assert stub.loaded == [("m.one", "{}"), ("m.m", ""), ("m.one",)]
    assert stub.pb_utils.is_model_ready(b"one")
    assert stub.pb_utils.is_model_ready(model_name="one", model_version="1")
    assert not stub.pb_utils.is_model_ready(b"stranger")
    for control in (stub.pb_utils.load_model, stub.pb_utils.unload_model):
        for stranger in ("stranger", b"stranger", "../stranger"):
            with pytest.raises(Raised, match=r"there is no model '.*stranger' "):
                control(stranger)
    assert len(stub.loaded) == 3


def test_names_are_mapped_once(stub: Stub) -> None:
    """A model that imports its own file once more does not map mapped names."""
    stub.start(PLAIN)
    stub.start(PLAIN)
    assert stub.pb_utils.InferenceRequest(model_name="top").name == "m"  # mapped twice it is m.m


def test_the_delivered_file_is_this_module(stub: Stub) -> None:
    """Names, `__file__`, `__future__`, own constructors and static methods are what they were."""
    source = '''"""Delivered."""
from __future__ import annotations
import triton_python_backend_utils as pb_utils

def _Delivered(): return "mine"
run = find = triton = json = os = None

class TritonPythonModel:
    late: NoSuchName = None
    def __init__(self):
        super(TritonPythonModel, self).__init__()
        self.early = pb_utils.InferenceRequest(model_name="one")
    @staticmethod
    def auto_complete_config(config): return config, pb_utils.get_model_dir()
'''
    module = stub.start(source)
    assert module.__doc__ == "Delivered."
    assert module.TritonPythonModel.__module__ == "1.model"
    assert module.__file__ == str(stub.delivered / "1/model.py")
    assert vars(module)["_Delivered"]() == "mine"
    assert module.model.early.name == "m.one"
    stub.pb_utils.get_model_dir = lambda: "/where/it/is/published"
    completed = module.TritonPythonModel.auto_complete_config(1)
    assert completed == (1, str(stub.delivered / "1"))
    assert not hasattr(module.model, "initialize")


_CALLABLE = "type('C', (), {'__call__': lambda self, args: seen.append(args)})()"
_INITIALIZE = {
    "method": "    def initialize(self, args): seen.append(args)\n",
    "static": "    @staticmethod\n    def initialize(args): seen.append(args)\n",
    "class": "    @classmethod\n    def initialize(cls, args): seen.append(args)\n",
    "callable": f"    initialize = {_CALLABLE}\n",
}


@pytest.mark.parametrize("inherited", [False, True])
@pytest.mark.parametrize("how", _INITIALIZE)
def test_paths(how: str, inherited: bool, stub: Stub) -> None:
    """However a model takes its arguments, it is told its place and name in its archive."""
    base = f"seen = []\nclass TritonPythonModel:\n{_INITIALIZE[how]}"
    own = "class TritonPythonModel(TritonPythonModel): pass\n" if inherited else ""
    module = stub.start(f"{base}{own}")
    assert module.seen == [
        {
            "model_repository": str(stub.delivered),
            "model_name": "top",
            "model_config": '{"name": "top", "dims": ["-1"]}',
            "model_version": "1",
        }
    ]
    assert stub.pb_utils.get_model_dir() == str(stub.delivered / "1")
    assert not {str(stub.published), str(stub.published.parent)} & {*sys.path}
    assert {str(stub.delivered / "1"), str(stub.delivered)} < {*sys.path}


def test_bytecode(stub: Stub) -> None:
    """What is imported from where the archive was delivered leaves nothing there."""
    delivered = stub.directory / "delivered"
    delivered.mkdir()
    places = [delivered, stub.delivered / "1"]
    names = ("left_alone_module", "written_module")
    for place, name in zip(places, names, strict=True):
        stub.delivered.joinpath("1").mkdir(parents=True, exist_ok=True)
        (place / f"{name}.py").write_text("")
    stub.start(
        f"import sys\nsys.path.insert(0, {str(delivered)!r})\nimport {', '.join(names)}\n{PLAIN}"
    )
    for name in names:
        del sys.modules[name]
    assert not (delivered / "__pycache__").exists()
    assert (stub.delivered / "1/__pycache__").exists() is not sys.dont_write_bytecode


_RESOURCE = """
from importlib.resources import files
TEXT = files(__package__).joinpath("words.txt").read_text()
"""


def test_a_package(stub: Stub) -> None:
    """A version directory that is a package is one: its file is run, what is in it can be had."""
    version = stub.delivered / "1"
    version.mkdir(parents=True)
    (version / "__init__.py").write_text("from c_python_backend_utils import InferenceRequest\n")
    (version / "beside.py").write_text("WORD = 'beside'\n")
    (version / "words.txt").write_text("words")
    package: Any = types.ModuleType("package_of_a_test")
    sys.modules[package.__name__] = package
    source = f"from .beside import WORD\nfrom . import InferenceRequest\n{_RESOURCE}{PLAIN}"
    try:
        stub.publish()
        text = render_delivered(LAYOUT, MODEL, "/nowhere", NAMES)
        (stub.published / "model.py").write_text(text)
        (version / "model.py").write_text(source)
        module: Any = types.ModuleType(f"{package.__name__}.model")
        module.__file__, module.__package__ = str(stub.published / "model.py"), package.__name__
        exec(text, vars(module))
    finally:
        for name in [it for it in sys.modules if it.startswith(package.__name__)]:
            del sys.modules[name]
    assert (module.WORD, module.TEXT) == ("beside", "words")
    assert module.InferenceRequest(model_name="one").name == "m.one"


def test_other_encodings(stub: Stub) -> None:
    """The file is read as Python reads it."""
    source = b"# coding: latin-1\nWORD = '\xe9'\nclass TritonPythonModel: pass\n"
    assert stub.start(source).WORD == "é"


@pytest.mark.parametrize(
    "how",
    [
        "    def is_ready(self):\n        return self.made\n",
        "    async def is_ready(self):\n        return self.made\n",
        "    is_ready = property(lambda self: lambda: self.made)\n",
        "    def __getattr__(self, name):\n"
        "        if name != 'is_ready':\n            raise AttributeError(name)\n"
        "        return lambda: self.made\n",
    ],
)
def test_readiness(how: str, stub: Stub) -> None:
    """From 26.03 on tritonserver asks a model that has `is_ready`: it finds the model's own."""
    made = "    made = False\n    def initialize(self, args):\n        self.made = True\n"
    model = stub.start(f"class Base:\n{made}{how}class TritonPythonModel(Base):\n    pass\n").model
    assert hasattr(model, "is_ready")
    answer = model.is_ready()
    assert (asyncio.run(answer) if asyncio.iscoroutine(answer) else answer) is True
    assert not hasattr(stub.start(PLAIN).model, "is_ready")


def test_no_class(stub: Stub) -> None:
    """A TritonPythonModel that is no class is left as it is."""
    assert stub.start("def TritonPythonModel(): return 'made'\n").model == "made"
