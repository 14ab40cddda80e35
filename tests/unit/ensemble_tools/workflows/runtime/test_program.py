"""A program's ends: requests that it takes, those that it refuses, and what it answers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.program import Program, Step, program_text
from ensemble_tools.workflows.runtime.columns import RefusedByDesign, RequestError
from ensemble_tools.workflows.runtime.operations.filling import DropMissing
from ensemble_tools.workflows.runtime.program import LoadedProgram
from ensemble_tools.workflows.runtime.tensors import InputColumn, OutputColumn

INPUTS = (
    InputColumn("age", ("age",), text=False),
    InputColumn("drink", ("drink",), text=True),
    InputColumn("genres", ("genres__values", "genres__offsets"), text=False),
)


def output(
    name: str, register: int, dtype: str, ragged: bool = False, shape: tuple[int | None, ...] = ()
) -> OutputColumn:
    return OutputColumn(name, (name,), register, ragged, dtype, shape)


@pytest.fixture
def program(tmp_path: Path) -> LoadedProgram:
    """Its inputs are its outputs; the lists come out as they are and as three a row."""
    outputs = (
        output("age", 0, "float32"),
        output("drink", 1, ""),
        output("genres", 2, "int32", ragged=True, shape=(None,)),
    )
    return written(tmp_path, outputs)


def written(
    directory: Path, outputs: tuple[OutputColumn, ...], refuses_no_rows: str = ""
) -> LoadedProgram:
    program = Program(INPUTS, (), outputs, 3, refuses_no_rows=refuses_no_rows)
    text = program_text(program, [])
    (directory / "program.json").write_text(text)
    return LoadedProgram(directory)


def request(**changed: Any) -> dict[str, Any]:
    tensors = {
        "age": np.array([1.0, 2.0]),
        "drink": np.array([b"ale", b"beer"], dtype=object),
        "genres__values": np.array([1, 2, 3, 4]),
        "genres__offsets": np.array([0, 1, 4], np.int32),
    }
    tensors.update(changed)
    return {name: array for name, array in tensors.items() if array is not None}


def test_answer(program: LoadedProgram) -> None:
    """Types are those of the schema, offsets int32, texts objects of bytes."""
    answer = program.run(request())
    assert answer["age"].dtype == np.float32
    assert answer["drink"].tolist() == [b"ale", b"beer"]
    assert answer["drink"].dtype == object
    assert answer["genres__values"].dtype == np.int32
    assert answer["genres__offsets"].tolist() == [0, 1, 4]
    assert answer["genres__offsets"].dtype == np.int32


def test_the_request_is_not_changed(program: LoadedProgram) -> None:
    """It lies in Triton's memory."""
    given = request()
    for array in given.values():
        array.flags.writeable = False
    program.run(given)


def test_a_matrix_is_read_for_its_first_column(program: LoadedProgram) -> None:
    """As merlin-systems does it."""
    answer = program.run(request(age=np.array([[1.0, 9.0], [2.0, 9.0]])))
    assert answer["age"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("offsets", "lists"),
    [
        ([-1, 1, 4], [[1, 2], [3, 4]]),
        ([-2, 0, 4], [[1, 2], [3, 4]]),
        ([-9, -8, 4], [[1], [2, 3, 4]]),
        ([-9, 3, 4], [[1, 2, 3, 4], []]),
    ],
)
def test_offsets_may_begin_below_zero(
    program: LoadedProgram, offsets: list[int], lists: list[list[int]]
) -> None:
    """Only lengths count, and the lists end with the last value (merlin-core's slices)."""
    answer = program.run(request(genres__offsets=np.array(offsets, np.int32)))
    ends = answer["genres__offsets"].tolist()
    values = answer["genres__values"].tolist()
    assert [values[start:end] for start, end in itertools.pairwise(ends)] == lists


def test_offsets_whose_difference_overflows(program: LoadedProgram) -> None:
    """NVTabular's difference is one of int32, and then it is negative."""
    least = np.array([-(2**31), 2, 4], np.int32)
    with pytest.raises(RequestError, match="offsets may not become smaller"):
        program.run(request(genres__offsets=least))


def test_offsets_may_begin_later(program: LoadedProgram) -> None:
    """The lists begin with the first value all the same: only lengths count (merlin-core)."""
    answer = program.run(request(genres__offsets=np.array([1, 2, 4])))
    assert answer["genres__values"].tolist() == [1, 2, 3]
    assert answer["genres__offsets"].tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"age": None}, "column 'age': the request has no tensor 'age'"),
        ({"genres__offsets": None}, "column 'genres': the request has no tensor 'genres__offsets'"),
        (
            {"age": np.zeros(3)},
            "refused by design: column 'drink' has 2 rows, and column 'age' has 3",
        ),
        ({"genres__offsets": np.array([0, 4])}, "column 'genres' has 1 rows"),
        ({"genres__offsets": np.array([0, 1, 3])}, "column 'genres': the last offset is 3"),
        ({"genres__offsets": np.array([0, 1, 5])}, "column 'genres': the last offset is 5"),
        ({"genres__offsets": np.zeros(0, np.int64)}, "column 'genres': the last offset is missing"),
        ({"genres__offsets": np.array([0, 5, 4])}, "column 'genres': the offset 4 comes after 5"),
        ({"drink": np.array([b"ale", "käse".encode()], object)}, "column 'drink': a string is not"),
    ],
)
def test_malformed_requests_name_the_column(
    program: LoadedProgram, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError) as refused:
        program.run(request(**changed))
    assert message in str(refused.value)


NO_ROWS = request(
    age=np.zeros(0),
    drink=np.zeros(0, object),
    genres__values=np.zeros(0, np.int64),
    genres__offsets=np.zeros(1, np.int64),
)


def test_no_rows(tmp_path: Path) -> None:
    """The answer has none either, and the types of any other; lists of one length lose theirs."""
    outputs = (
        output("age", 0, "float32"),
        output("drink", 1, ""),
        output("genres", 2, "int32", shape=(3,)),
    )
    answer = written(tmp_path, outputs).run(NO_ROWS)
    assert {name: (array.dtype, array.shape) for name, array in answer.items()} == {
        "age": (np.float32, (0,)),
        "drink": (object, (0,)),
        "genres": (np.int32, (0,)),
    }


def test_no_rows_where_nvtabular_fails(tmp_path: Path) -> None:
    """The reason is the compiler's; lists of any length are always refused."""
    refusing = written(tmp_path, (output("age", 0, "float32"),), "Categorify needs one")
    with pytest.raises(RequestError, match="the request has no rows: Categorify needs one"):
        refusing.run(NO_ROWS)
    lists = written(tmp_path, (output("genres", 2, "int32", ragged=True),))
    with pytest.raises(RequestError, match="column 'genres': it has lists, and no rows are left"):
        lists.run(NO_ROWS)


def test_no_rows_and_a_program_that_was_published_before(tmp_path: Path) -> None:
    """It does not say what becomes of them, and refuses them as it did."""
    (tmp_path / "program.json").write_text(PUBLISHED)
    with pytest.raises(RequestError, match="has no rows"):
        LoadedProgram(tmp_path).run({"age": np.zeros(0)})


@pytest.mark.parametrize(("is_last", "answer"), [(True, []), (False, None)])
def test_no_rows_left(tmp_path: Path, is_last: bool, answer: list[float] | None) -> None:
    """An operator that leaves none ends the answer, if it is the last; else it is refused."""
    step = Step(DropMissing(1), (0,), (3,), "Dropna", ("age",), is_last)
    program = Program(INPUTS[:1], (step,), (output("age", 3, "float32"),), 4)
    (tmp_path / "program.json").write_text(program_text(program, []))
    loaded, missing = LoadedProgram(tmp_path), {"age": np.full(2, np.nan)}
    if answer is not None:
        assert loaded.run(missing)["age"].tolist() == answer
        return
    with pytest.raises(RefusedByDesign, match=r"^refused by design: every row .* Dropna leaves"):
        loaded.run(missing)


def test_lists_of_one_length(tmp_path: Path) -> None:
    """A schema with a fixed length: what has another cannot be answered."""
    program = written(tmp_path, (output("genres", 2, "int64", shape=(2,)),))
    answer = program.run(request(genres__offsets=np.array([0, 2, 4])))
    assert answer["genres"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RequestError, match="column 'genres': its lists have 1 to 3 items"):
        program.run(request())


@pytest.mark.parametrize("fault", ["missing", "cut off", "no table"])
def test_unreadable_programs_do_not_load(tmp_path: Path, fault: str) -> None:
    """An error when the model is loaded, never a wrong answer later."""
    row = {"file": "0", "keys": [{"kind": "number", "nan": -1}], "beside": [], "first": {}}
    text = program_text(Program(INPUTS, (), (), 3), [row] if fault == "no table" else [])
    if fault != "missing":
        (tmp_path / "program.json").write_text(text[: -9 if fault == "cut off" else None])
    with pytest.raises((OSError, ValueError)):
        LoadedProgram(tmp_path)


def test_programs_are_plain_json() -> None:
    """Nothing in them is run."""
    assert json.loads(program_text(Program(INPUTS, (), (), 3), []))["registers"] == 3


#: As the first programs were written.
PUBLISHED = """
{
 "inputs": [{"name": "age", "tensors": ["age"], "text": false}],
 "steps": [
  {"operation": "fill", "reads": [0], "writes": [1],
   "given": {"value": 0.5}, "of": "FillMissing: age"},
  {"operation": "clip", "reads": [1], "writes": [2],
   "given": {"min": null, "max": 3}, "of": "Clip: age"},
  {"operation": "scale", "reads": [2], "writes": [3],
   "given": {"min": {"dtype": "f8", "value": 0.0}, "max": {"dtype": "f8", "value": 2.0},
             "dtype": "float64", "column": "age"}, "of": "NormalizeMinMax: age"},
  {"operation": "bucketize", "reads": [3], "writes": [4],
   "given": {"boundaries": [0.5, 1]}, "of": "Bucketize: age"}
 ],
 "outputs": [{"name": "age", "tensors": ["age"], "reads": 4, "ragged": false, "dtype": "int64",
              "shape": []}],
 "registers": 5,
 "tables": []
}
"""


def test_programs_that_were_published_before(tmp_path: Path) -> None:
    """Their format is what it was."""
    (tmp_path / "program.json").write_text(PUBLISHED)
    answer = LoadedProgram(tmp_path).run({"age": np.array([np.nan, 1.5, 9.0])})
    assert answer["age"].tolist() == [0, 1, 2]


def test_steps_without_their_parameters_do_not_load(tmp_path: Path) -> None:
    (tmp_path / "program.json").write_text(PUBLISHED.replace('"max": 3', '"most": 3'))
    with pytest.raises(ValueError, match="Clip has"):
        LoadedProgram(tmp_path)
