"""Triton's functions for strings, and the faster ones in their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from container.tritonserver.python_utils import MARK, UTILS, write_faster_utils
from container.tritonserver.runtime import find_tritonserver
from tests.support.examples import examples
from tests.unit.container.conftest import WHEEL_2_36

ROOTS = (find_tritonserver(None, {"PATH": ""}).parents[1], WHEEL_2_36.parents[1])
TRITONS = [root / "backends/python" / UTILS for root in ROOTS]


def functions(text: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Those of the file that read and write strings."""
    module: dict[str, Any] = {}
    exec(text, module)
    return module["serialize_byte_tensor"], module["deserialize_bytes_tensor"]


WRITE, READ = functions(TRITONS[0].read_text())
WRITE_FASTER, READ_FASTER = functions(write_faster_utils(TRITONS[0]) or "")


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
    """Of the oldest and the newest tritonserver here: Triton's own text, and ours behind it."""
    text = write_faster_utils(utils)
    assert text is not None
    assert text.startswith(utils.read_text() + MARK)


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
