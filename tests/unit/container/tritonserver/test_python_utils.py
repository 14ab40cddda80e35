"""Triton's functions for strings, and the faster ones in their place."""

from __future__ import annotations

import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ensemble_tools
from container.tritonserver.python_utils import BEGIN, END, UTILS, write_faster_utils
from container.tritonserver.runtime import MERLIN_PYTHON, find_tritonserver
from tests.support.examples import examples
from tests.unit.container.conftest import WHEEL_2_36

ROOTS = (find_tritonserver(None, {"PATH": ""}).parents[1], WHEEL_2_36.parents[1])
STEPS, WORKFLOWS = (Path(ensemble_tools.__file__).parent / it for it in ("steps", "workflows"))
MARKED = ("convert", "front", "warm")
TRITONS = [root / "backends/python" / UTILS for root in ROOTS]


def functions(text: str) -> list[Callable[..., Any]]:
    """Those of the file that read and write strings, and find an input."""
    module: dict[str, Any] = {}
    exec(text, module)
    names = ("serialize_byte_tensor", "deserialize_bytes_tensor", "get_input_tensor_by_name")
    return [module[name] for name in names]


WRITE, READ, FIND = functions(TRITONS[0].read_text())
WRITE_FASTER, READ_FASTER, FIND_FASTER = functions(write_faster_utils(TRITONS[0]) or "")


def outcome(function: Callable[[Any], Any], argument: Any) -> Any:
    """What it returns or raises, comparable."""
    try:
        returned = function(argument)
    except Exception as error:
        return type(error), str(error)
    if isinstance(returned, np.ndarray):
        return returned.dtype, returned.shape, [*map(type, returned.tolist())], returned.tolist()
    return type(returned), returned


def objects(values: list[Any]) -> Any:
    """An array of just these."""
    array: Any = np.empty(len(values), np.object_)
    for place, value in enumerate(values):
        array[place] = value
    return array


BYTES = st.binary(max_size=300)
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
OTHERS = st.sampled_from(
    [None, 3, 2.5, True, np.str_("a"), np.bytes_(b"b"), bytearray(b"c"), [b"d"]]
)


@pytest.mark.parametrize("utils", TRITONS)
def test_known_files(utils: Path) -> None:
    """Of the oldest and the newest tritonserver here: Triton's own text, and ours around it."""
    text = write_faster_utils(utils)
    assert text is not None
    assert BEGIN + utils.read_text() + END in text


@pytest.mark.parametrize("marked", [True, False])
def test_numpy_of_a_step(marked: bool, tmp_path: Path) -> None:
    """Whose file says so has arrays alone, and all else as soon as it asks; others have numpy."""
    (tmp_path / UTILS).write_text(write_faster_utils(TRITONS[0]) or "")
    model_file = tmp_path / "model.py"
    model_file.write_text(f"""{"# numpy: arrays alone" if marked else ""}
import sys
import triton_python_backend_utils
import numpy
was_there = ["numpy.random.mtrand" in sys.modules, "numpy.ma.core" in sys.modules]
print([*was_there, numpy.random.RandomState(0).randint(9), numpy.ma.array([3]).sum()])
""")
    ran = subprocess.run([MERLIN_PYTHON, model_file], capture_output=True, text=True, check=True)
    there = not marked
    assert ran.stdout == f"{[there, there, 5, 3]}\n"


@pytest.mark.parametrize(
    "source", [WORKFLOWS / "compiled_model.py", *(STEPS / f"{name}_model.py" for name in MARKED)]
)
def test_steps_that_need_arrays_alone(source: Path) -> None:
    """Each says so in its first line, as it is looked for there."""
    assert source.read_text().startswith("# numpy: arrays alone\n")


@given(st.lists(BYTES) | st.lists(TEXTS) | st.lists(BYTES | TEXTS | OTHERS))
@example([b"", b"\0", b"a\0"])
@example(["\ud800"])
@settings(max_examples=examples(200))
def test_strings_are_written_as_triton_writes_them(values: list[Any]) -> None:
    """To the byte, whatever stands in the array and however it lies in memory; or refused alike."""
    array = objects(values)
    even = array[: len(array) // 2 * 2]
    arrays = [array, array[::-1]]
    if values:
        arrays += [even.reshape(2, -1), even.reshape(2, -1).T, array[:1].reshape(())]
    if all(isinstance(value, bytes) for value in values):
        arrays += [np.array(values, "S9"), np.array(values, "S9")[::2]]
    for strings in arrays:
        assert outcome(WRITE_FASTER, strings) == outcome(WRITE, strings)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1.5]), np.zeros((0, 3), "O")])
def test_arrays_of_no_strings(array: Any) -> None:
    """Triton's own function says what they are."""
    assert outcome(WRITE_FASTER, array) == outcome(WRITE, array)


@given(st.lists(BYTES), st.binary(max_size=8), st.integers(0, 9))
@example([], b"\xff\xff\xff\xff", 0)
@settings(max_examples=examples(200))
def test_strings_are_read_as_triton_reads_them(values: list[bytes], more: bytes, cut: int) -> None:
    """The same bytes objects; what ends inside a string or a length is refused alike."""
    whole = WRITE(objects(values)) or b""
    for data in (whole, whole + more, whole[: max(0, len(whole) - cut)]):
        encoded = np.frombuffer(data, np.uint8)
        assert outcome(READ_FASTER, encoded) == outcome(READ, encoded)


@pytest.mark.parametrize(
    "encoded",
    [(), [], "", None, 3, np.zeros(4, np.uint32), np.zeros(2), np.zeros((3, 4), np.uint8), b"\1"],
)
def test_what_is_no_bytes_is_read_as_triton_reads_it(encoded: Any) -> None:
    """Models call the function themselves, too: with the () that an empty array is written as."""
    assert outcome(READ_FASTER, encoded) == outcome(READ, encoded)


class Tensor:
    """As Triton's, for what is asked of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


class TritonRequest:
    """As Triton's: each call makes a list of all inputs."""

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors, self.asked = tensors, 0

    def inputs(self) -> list[Tensor]:
        self.asked += 1
        return [*self._tensors]


class Slotted(TritonRequest):
    """One that has no place for weak references."""

    __slots__ = ("_tensors", "asked")
    __eq__ = object.__eq__  # nor a hash


@pytest.mark.parametrize("kind", [TritonRequest, Slotted])
def test_inputs_are_found_as_triton_finds_them(kind: type[TritonRequest]) -> None:
    """The same objects, the first of two of one name, None for others and for what is no name."""
    request, other = kind(*map(Tensor, "abca")), kind(Tensor("a"), Tensor("é"))
    for name in ("a", "b", "c", "d", np.str_("b"), b"a", None, ["a"], "é", "a"):
        assert FIND_FASTER(request, name) is FIND(request, name)
        assert FIND_FASTER(other, name) is FIND(other, name)


def test_inputs_are_asked_for_once_and_not_kept() -> None:
    """However many are found; they go with their request."""
    tensors = [Tensor(str(number)) for number in range(140)]
    request, gone = TritonRequest(*tensors), weakref.ref(tensors[0])
    assert [FIND_FASTER(request, tensor.name()) for tensor in tensors] == tensors
    assert request.asked == 1
    del request
    tensors.clear()
    assert gone() is None


def test_an_unknown_file_is_left_alone(tmp_path: Path) -> None:
    """Its functions may do something else; none, or no Python, is unknown, too."""
    utils = tmp_path / UTILS
    assert write_faster_utils(utils) is None
    text = TRITONS[0].read_text()
    for change in (("<I", ">I"), ("def serialize_byte_tensor", "def other"), ("import json", "(")):
        utils.write_text(text.replace(*change))
        assert write_faster_utils(utils) is None
    utils.write_text(text.replace("import json", "import json  # of another version"))
    assert write_faster_utils(utils) is not None
