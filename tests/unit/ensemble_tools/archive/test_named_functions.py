"""Modules that functions import which are pickled by value."""

from __future__ import annotations

import io
import pickle
import re
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from ensemble_tools.archive.inert_pickle import read_pickle
from ensemble_tools.archive.named_functions import find_imports

_FIELDS = ("argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "code")


class ByValue(pickle.Pickler):
    """As cloudpickle pickles code."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, CodeType):
            return NotImplemented
        fields = (getattr(value, f"co_{name}") for name in _FIELDS)
        return SimpleNamespace, (*fields, value.co_consts, value.co_names, value.co_varnames)


def find(objects: object, pickler: type[pickle.Pickler] = ByValue) -> list[str]:
    """What is found in their pickle, which names CodeType; pickle itself does not."""
    file = io.BytesIO()
    pickler(file, 3).dump(objects)
    return [*find_imports(read_pickle(file.getvalue().replace(b"SimpleNamespace", b"CodeType")))]


def compiled(source: str) -> CodeType:
    return compile(source, "functions.py", "exec")


MANY_NAMES = "; ".join(f"name_{number}" for number in range(700))
SOURCES: dict[str, tuple[str, set[str]]] = {
    "none": ("x = 'torch'; x.cupy", set()),
    "plain": ("import torch, cupy as cp", {"torch", "cupy"}),
    "a part": ("from torch.nn import functional; import a.b.c", {"torch.nn", "a.b.c"}),
    "in one inside of another": ("def f():\n def g():\n  import torch\n return g", {"torch"}),
    "in a class": ("class A:\n def f(self):\n  import torch", {"torch"}),
    "behind many names": (
        f"{MANY_NAMES}\nimport torch\n{MANY_NAMES}\nimport cupy",
        {"torch", "cupy"},
    ),
    "relative": ("from . import torch", {""}),
    "one that is imported by name": ("def f():\n return __import__('torch')", {""}),
    "one in a text": ("def f():\n exec('import torch')", {""}),
    "one in an expression": ("def f():\n return eval('__import__(\"torch\")')", {""}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_imports(name: str) -> None:
    """Wherever they stand in a function's code, and however many names it has."""
    source, expected = SOURCES[name]
    assert {*find({"function": [compiled(source)]})} == expected


@pytest.mark.parametrize("importer", [__import__, exec, partial(__import__, "torch")])
def test_importers_that_are_no_code(importer: object) -> None:
    """Python's own functions that may import anything, where a pickle names them."""
    assert find({"function": importer}) == [""]
    assert find({"function": partial(isinstance, 1, int)}) == []


def test_a_module_that_no_import_statement_names() -> None:
    """It is a file of the user's, whose name has a hyphen."""
    pickled = pickle.dumps(isinstance, 0)
    assert [*find_imports(read_pickle(pickled))] == []
    renamed = re.sub(rb"c(__builtin__|builtins)\n", b"cmy-functions\n", pickled)
    assert [*find_imports(read_pickle(renamed))] == [""]


@pytest.mark.parametrize(
    "collection",
    [
        defaultdict(None, {"key": compiled("import torch")}),
        defaultdict(None, {("a", compiled("import torch")): 1}),
        deque([compiled("import torch")]),
    ],
)
def test_collections_that_are_not_python_s_plainest(collection: object) -> None:
    """Their items are looked at."""
    assert find({"function": [collection]}) == ["torch"]


class Skeletons(ByValue):
    """As cloudpickle pickles a class: what it is made of, and then what is in it."""

    def reducer_override(self, value: Any) -> Any:
        if value is not Own:
            return super().reducer_override(value)
        arguments = (type, "Own", (object,), {"__module__": "__main__"}, "1", None)
        state = {"transform": Own.transform.__code__}
        return _make_skeleton_class, arguments, (state, {}), None, None, _class_setstate


def _make_skeleton_class(*_: object) -> None:
    """Named in pickles alone."""


def _class_setstate(*_: object) -> None:
    """Named in pickles alone."""


class Own:
    """An operator of the user's, which the pickle has itself."""

    def transform(self) -> object:
        """As an operator does."""
        import torch

        return torch


@pytest.mark.parametrize("pickled", [Own(), Own, [Own(), Own()]])
def test_methods_of_a_class(pickled: object) -> None:
    """They are the instance's code, wherever the pickle has the class."""
    assert find({"op": pickled}, Skeletons) == ["torch"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda args: args[:6],
        lambda args: (*args[:6], "no bytes", *args[7:]),
        lambda args: (*args[:8], None, *args[9:]),
        lambda args: (*args[:8], (), *args[9:]),
        lambda args: (*args[:8], (1,), *args[9:]),
    ],
)
def test_code_that_cannot_be_read(spoil: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
    """It may import anything."""

    class Spoiling(ByValue):
        def reducer_override(self, value: Any) -> Any:
            reduced = super().reducer_override(value)
            return reduced if reduced is NotImplemented else (reduced[0], spoil(reduced[1]))

    assert find(compiled("import torch"), Spoiling) == [""]
