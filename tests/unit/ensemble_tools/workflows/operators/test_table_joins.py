"""JoinExternal's table, in the pickle of the workflow: which frames become tables, and whose."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.archive.executor_graph import SchemaColumn
from ensemble_tools.archive.inert_pickle import read_pickle
from ensemble_tools.serving.publish import put_compiled
from ensemble_tools.serving.serving_plan import Compiled, PublishedModel
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.operators.table_joins import as_in_file
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.pickled_frames import read_frame
from ensemble_tools.workflows.program import Program, program_text
from ensemble_tools.workflows.runtime.columns import RequestError
from ensemble_tools.workflows.runtime.program import LoadedProgram
from ensemble_tools.workflows.tables import write_tables
from tests.support.container import ROOT
from tests.support.fitted_operators import (
    CITY,
    EXAMPLES,
    GENRES,
    Example,
    of_table,
    operator,
)
from tests.support.pickled_frames import ALIKE, COLUMNS, ITEMS, OTHER, USERS

EXAMPLE = EXAMPLES["nvtabular.ops.join_external.JoinExternal"]
_NO_NUMBERS = "no numbers, such as booleans or lists"
_TYPES = "small or unsigned whole numbers"
REASONS = {
    "dates": "a type of pandas' own",
    "categories": "a type of pandas' own",
    "nullable": "a type of pandas' own",
    "mixed": "lists of float, int",
    "flag lists": "lists of bool",
    "empty lists": "lists of nothing",
    "empty arrays": "no lists but empty ones",
    "nested": "lists of list",
    "tuples": "a column of tuple, which are no texts or lists",
    "large in lists": "lists of numbers beyond 64 bits",
    "gaps in lists": "lists of NoneType, str",
    "lists and texts": "a column of list, str, which are no texts or lists",
    "several arrays": "lists of several types",
    "matrices": "not as pandas 1.5 pickles it",
    "narrow arrays": _TYPES,
    "only gaps": "a column without a value",
    "gaps among keys": "lists or missing texts there",
    "zeros": "a text with a zero in it",
    "long": "texts of up to 8000000 bytes",
    "words": "values of another kind there",
    "flags": _NO_NUMBERS,
    "halves": _NO_NUMBERS,
    "narrow": _TYPES,
    "unsigned": _TYPES,
    "swapped": _NO_NUMBERS,
    "numbered": "whose names are no texts, or alike",
    "twice": "whose names are no texts, or alike",
    "levels": "whose names are no plain texts",
    "named": "an index with a name",
    "duplicate": "a key twice",
    "negative": "not from 0 to 2**53",
    "large": "not from 0 to 2**53",
    "floats": "no whole numbers there",
    "none": "has no rows",
    "other_key": "'user': its table has no such column",
    "collision": "'age': its table has a column of that name, too",
    "own": "'__tmp__': NVTabular uses the name",
    "megabytes": "more than are read of a pickle",
}


@pytest.fixture(scope="module")
def frames() -> dict[str, bytes]:
    """Frames of pandas 1.5, pickled."""
    program: list[str | Path] = [
        ROOT / ".venv-merlin/bin/python",
        "-W",
        "ignore",
        "-m",
        "tests.support.pickled_frames",
    ]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, check=True, timeout=60)
    return {name: base64.b64decode(text) for name, text in json.loads(done.stdout).items()}


def changed(table: bytes = USERS, **state: Any) -> Example:
    """The example with another table, or other parameters."""
    state = {**EXAMPLE.operator.state, "_ext_cache": read_pickle(table), **state}
    return replace(EXAMPLE, operator=replace(EXAMPLE.operator, state=state))


def why_not(example: Example) -> str:
    """Why the operator is not compiled, whether it is kept or not."""
    try:
        (kept,) = example.compiled().kept
    except NotCompiled as error:
        return str(error)
    return kept.reason


def asked_for_all(table: bytes) -> Example:
    """The example with that table, all of whose columns are put out, if it can be read."""
    made = changed(table)
    with contextlib.suppress(Unknown):
        names = read_frame(made.operator.state["_ext_cache"])
        columns = (SchemaColumn(name, "float64", False, (None,)) for name in names)
        return replace(made, output=tuple(columns))
    return made


@pytest.mark.parametrize("name", [*ALIKE, "protocol 4"])
def test_frames_are_read(name: str, frames: dict[str, bytes]) -> None:
    """With the same values and types, however pandas has them in memory."""
    found = read_frame(read_pickle(frames[name]))
    assert list(found) == list(COLUMNS)
    for column, values in COLUMNS.items():
        read = found[column].column.values
        assert (read.dtype, read.tolist()) == (values.dtype, values.tolist())


@pytest.mark.parametrize("name", OTHER)
def test_other_frames_are_nvtabulars(name: str, frames: dict[str, bytes]) -> None:
    """The reason says what of the table is not compiled, where all of it is asked for."""
    assert REASONS[name] in why_not(asked_for_all(frames[name]))


@pytest.mark.parametrize("name", ["dates", "zeros", "flags", "mixed", "only gaps"])
def test_what_nobody_reads_is_left_out(name: str, frames: dict[str, bytes]) -> None:
    """A column of the table that the program cannot have stands in nobody's way."""
    program = changed(frames[name]).compiled()
    assert program.kept == ()
    assert [table.beside for table in program.tables] == [("weight", "score")]


def test_a_table_that_pandas_joins(frames: dict[str, bytes]) -> None:
    """Where a column is read that the program cannot have, the others come out of the merge."""
    flag = SchemaColumn("old", "bool", False, (None,))
    hashed = operator("hash_bucket.HashBucket", num_buckets={"old": 7})
    program = of_table(frames["flags"], (flag,), hashed)
    assert [kept.reason for kept in program.kept] == [
        f"JoinExternal of 'old': its table has columns that are {_NO_NUMBERS}"
    ]
    assert [step.operation.name for step in program.steps] == ["kept", "take_array", "hash_bucket"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"how": "inner"}, "it leaves rows out"),
        ({"on": ["user", "user"], "on_ext": ["user", "weight"]}, "one is there twice"),
        ({"on": []}, "its keys are none"),
        ({"on": "age"}, "applied to float values"),
        ({"on": "tags"}, "applied to lists"),
        ({"on": "drink"}, "values of another kind there"),
        ({"_ext_cache": None}, "not in the workflow as a frame"),
    ],
)
def test_other_joins_are_nvtabulars(state: dict[str, Any], reason: str) -> None:
    """The reason says which parameter it is."""
    assert reason in why_not(changed(**state))


def test_what_is_cut_off(frames: dict[str, bytes]) -> None:
    """Bytes, shapes and places that do not go together are no frame."""
    data = frames["plain"]
    broken = [
        data.replace(pickle.BININT1 + b"\2" + pickle.BININT1 + b"\3", b"K\2K\4", 1),
        data.replace(b"_unpickle_block", b"_unpickle_clock", 1),
        data.replace(b"BlockManager", b"CloneManager", 1),
        data.replace(b"K\0K\2K\1", b"K\1K\3K\1", 1),
    ]
    for one in broken:
        assert one != data
        assert "not as pandas 1.5 pickles it" in why_not(changed(one))


def test_numbers(tmp_path: Path) -> None:
    """Whole numbers become floats where a key is missing; the request's columns stay."""
    program = EXAMPLE.compiled()
    rows = write_tables(program.tables, tmp_path)
    (tmp_path / "program.json").write_text(program_text(program, rows))
    answer = LoadedProgram(tmp_path).run(
        {
            "user": np.array([8, 4, 3], np.int64),
            "age": np.zeros(3),
            "drink": np.array([b""] * 3, object),
            "tags__values": np.zeros(0, np.int64),
            "tags__offsets": np.zeros(4, np.int32),
        }
    )
    assert answer["user"].tolist() == [8, 4, 3]
    np.testing.assert_array_equal(answer["weight"], [9, np.nan, 4])
    np.testing.assert_array_equal(answer["score"], np.array([2.5, np.nan, 0.5], np.float32))
    assert answer["score"].dtype == np.float32


def run(program: Program, directory: Path, *users: int) -> dict[str, Any]:
    """The program's answer for those keys."""
    rows = write_tables(program.tables, directory)
    (directory / "program.json").write_text(program_text(program, rows))
    return LoadedProgram(directory).run({"user": np.array(users, np.int64)})


def test_missing_texts(tmp_path: Path) -> None:
    """They are answered as Python writes None and NaN."""
    answer = run(of_table(ITEMS, (CITY,)), tmp_path, 8, 5, 4, 3)
    assert answer["city"].tolist() == ["é".encode(), b"None", b"nan", b"a"]


def test_missing_texts_are_filled_up(tmp_path: Path) -> None:
    """Whichever of both stands there."""
    fill = operator("fill.FillMissing", fill_val="none at all", add_binary_cols=False)
    answer = run(of_table(ITEMS, (CITY,), fill), tmp_path, 3, 5, 4)
    assert answer["city"].tolist() == [b"a", b"none at all", b"none at all"]


def test_texts_are_not_filled_up_with_numbers() -> None:
    """NVTabular makes a column of both, and answers it."""
    fill = operator("fill.FillMissing", fill_val=0, add_binary_cols=False)
    program = of_table(ITEMS, (CITY,), fill)
    assert [kept.reason for kept in program.kept] == [
        "FillMissing of 'city': it fills up texts with '0'"
    ]


def test_lists(tmp_path: Path) -> None:
    """They are the table's; a row of the request that is not in the table has none."""
    program = of_table(ITEMS, (GENRES,))
    answer = run(program, tmp_path, 8, 5, 3, 8)
    assert answer["genres__values"].tolist() == ["é".encode(), b"x", b"y", "é".encode()]
    assert answer["genres__offsets"].tolist() == [0, 1, 1, 3, 4]
    with pytest.raises(RequestError, match="column 'genres': a row has no list"):
        LoadedProgram(tmp_path).run({"user": np.array([3, 4], np.int64)})


def test_rows_without_lists_are_dropped(tmp_path: Path) -> None:
    answer = run(of_table(ITEMS, (GENRES,), operator("dropna.Dropna")), tmp_path, 4, 3, 4)
    assert answer["genres__values"].tolist() == [b"x", b"y"]
    assert answer["genres__offsets"].tolist() == [0, 2]


def test_lists_of_one_length_may_be_answered_as_single_values() -> None:
    """By NVTabular, where no row of a request has one."""
    fixed = SchemaColumn("genres", "object", False, (None, 2))
    with pytest.raises(NotCompiled, match="its lists are of one length, or missing"):
        of_table(ITEMS, (fixed,))


def test_what_is_written_is_let_go(tmp_path: Path) -> None:
    """A loaded model keeps no second copy of its table in the server's memory."""
    model = PublishedModel("w", "w", None, compiled=Compiled(EXAMPLE.compiled(), "1/model.py"))
    (tmp_path / "1").mkdir()
    put_compiled(model, tmp_path)
    kept = model.without_values().compiled
    assert kept is not None
    assert [table.given for table in kept.program.tables] == [()]
    assert (tmp_path / "1/tables/program.json").is_file()


def test_statistics_come_in_the_order_of_their_file() -> None:
    """JoinGroupby puts out the file's columns: those of a key, then of each column, in one order.

    A function of the frame can see it, whichever order `stats` has.
    """
    names = ("c_x_y_std", "c_x_y_mean", "c_count", "c_b_std", "c_b_sum", "c_b_mean")
    assert as_in_file(names, "c", "_") == (
        "c_count",
        "c_x_y_mean",
        "c_x_y_std",
        "c_b_sum",
        "c_b_mean",
        "c_b_std",
    )
