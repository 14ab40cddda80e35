"""Counting of columns' values: exact, of several processes, and of no consequence to answers."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.workflows.program import Program, Step, program_text
from ensemble_tools.workflows.runtime.columns import Column, RequestError
from ensemble_tools.workflows.runtime.counting import LONGEST_WAIT_S, FeatureCounter
from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts, read_counts
from ensemble_tools.workflows.runtime.operations.filling import DropMissing
from ensemble_tools.workflows.runtime.operations.scaling import Normalize, Scale
from ensemble_tools.workflows.runtime.program import COUNTS
from ensemble_tools.workflows.runtime.tensors import InputColumn, OutputColumn
from serve.models.departures import SETTLED_S
from tests.support import counted_program as made
from tests.support.counted_program import (
    count_in_numpy,
    fitted_buckets,
    load_program,
    make_requests,
    write_program,
)

#: A model's process: it answers requests and stays.
_PROCESS = """
import sys
from pathlib import Path
from tests.support.counted_program import load_program, make_requests
program = load_program(Path(sys.argv[1]))
for request in make_requests(int(sys.argv[2]), 20):
    program.run(request)
sys.stdin.read()
"""


def run(directory: Path, requests: list[dict[str, Any]]) -> None:
    """Answer them in a process that then ends."""
    program = load_program(directory)
    for request in requests:
        program.run(request)
    program.close()


def check_counts(columns: list[ColumnCounts], requests: list[dict[str, Any]]) -> None:
    """They are those of numpy, and whole."""
    by_name = {column.column: column for column in columns}
    expected = count_in_numpy(requests)
    assert [*by_name] == ["user", "tag", "price", "genres", "age", "code", *[*by_name][6:]]
    assert by_name.keys() == expected.keys()
    for name, numbers in expected.items():
        counted = asdict(by_name[name])
        assert counted["counted"] == counted["values"]
        assert counted["rows_seen"] == sum(len(it["user"]) for it in requests)
        for field in ("nulls", "unseen", "outside", "finite", "sum", "sum_of_squares"):
            assert counted[field] == pytest.approx(numbers.get(field, 0), rel=1e-12), (name, field)
        assert (counted["values"], counted["buckets"]) == (
            numbers["values"],
            numbers.get("buckets", ()),
        )


def test_counts_are_those_of_numpy(tmp_path: Path) -> None:
    """Of every operator that counts; what a request lay in may be written over at once."""
    counts = write_program(tmp_path, counts=True)
    requests = make_requests(1, 120)
    program = load_program(tmp_path)
    for request in copy.deepcopy(requests):
        program.run(request)
        for array in request.values():
            array[:] = b"" if array.dtype == object else 0
    program.close()
    check_counts(read_counts(counts), requests)


def test_what_was_fitted_stands_beside_them(tmp_path: Path) -> None:
    counts = write_program(tmp_path, counts=True)
    load_program(tmp_path).close()
    fitted = {column.column: column.fitted for column in read_counts(counts)}
    assert (fitted["price"].mean, fitted["price"].std) == (made.MEAN, made.STD)
    assert (fitted["age"].low, fitted["age"].high) == (made.LOW, made.HIGH)
    for name, vocabulary in (
        ("user", made.USERS),
        ("tag", made.TAGS),
        ("user_tag", made.PAIRS),
        ("genres", made.GENRES),
        ("code", made.CODES),
        ("price", []),
        ("user (JoinGroupby)", []),
    ):
        assert fitted[name].buckets == (fitted_buckets(vocabulary) if len(vocabulary) else ())


def test_answers_are_the_same(tmp_path: Path) -> None:
    """Bit by bit, where values are counted and where they are not."""
    write_program(tmp_path / "on", counts=True)
    assert not write_program(tmp_path / "off", counts=False).exists()
    counting, plain = load_program(tmp_path / "on"), load_program(tmp_path / "off")
    for request in (*make_requests(2, 40), *make_requests(3, 5, most_rows=3000)):
        answer, other = counting.run(request), plain.run(request)
        assert answer.keys() == other.keys()
        for name in answer:
            assert answer[name].dtype == other[name].dtype
            assert answer[name].tobytes() == other[name].tobytes()
    counting.close()


def test_processes_have_a_file_each(tmp_path: Path) -> None:
    """That of one that was killed is taken over: its numbers stay, and no more files are made."""
    counts = write_program(tmp_path, counts=True)
    requests = make_requests(4, 20)
    rows = sum(len(request["user"]) for request in requests)
    command = [sys.executable, "-c", _PROCESS, str(tmp_path), "4"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        while not (columns := read_counts(counts)) or columns[0].rows_seen < rows:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        run(tmp_path, beside := make_requests(5, 10))
        process.kill()
    assert sorted(path.name for path in counts.iterdir()) == ["0.counts", "1.counts"]
    run(tmp_path, afterwards := make_requests(6, 10))
    assert sorted(path.name for path in counts.iterdir()) == ["0.counts", "1.counts"]
    check_counts(read_counts(counts), [*requests, *beside, *afterwards])


def test_requests_that_are_refused_do_not_count(tmp_path: Path) -> None:
    """Nor those whose first steps have been done."""
    counts = write_program(tmp_path, counts=True)
    (request,) = make_requests(7, 1)
    program = load_program(tmp_path)
    with pytest.raises(RequestError, match="every value is missing"):
        program.run({**request, "code": np.full(len(request["code"]), np.nan)})
    program.run(request)
    program.close()
    check_counts(read_counts(counts), [request])


def test_a_program_without_a_file_answers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line says why nothing is counted."""
    counts = write_program(tmp_path, counts=True)
    (counts / "0.counts").mkdir()
    run(tmp_path, make_requests(8, 3))
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("values of columns are not counted: IsADirectoryError")
    assert read_counts(counts) == []


def columns_of(rows: int) -> list[Column]:
    """A column with a null in every second row."""
    return [Column(np.resize([1.0, np.nan], rows))]


def test_an_unload_waits_for_longer_than_notes() -> None:
    """It kills a process some time after its last answer, and what was noted is lost with it."""
    assert LONGEST_WAIT_S < SETTLED_S


def test_large_requests_are_sampled(tmp_path: Path) -> None:
    """One in sixteen with 1024 rows, each of whose values counts sixteen times."""
    draws = iter([0.5, 0.062, 0.9, 0.063])
    counter = FeatureCounter([InputColumn("a", ("a",), False)], draw=lambda: next(draws))
    counter.open(tmp_path)
    for rows in (1024, 127, 1024, 1024, 1024):
        counter.count(columns_of(rows))
    counter.close()
    (column,) = read_counts(tmp_path)
    assert (column.rows_seen, column.counted) == (4 * 1024 + 127, 1024 + 127)
    assert (column.values, column.nulls) == (16 * 1024 + 127, 16 * 512 + 63)


@pytest.mark.parametrize(("rows", "counted"), [(2**20 + 64, 2**20 + 64), (2**22 + 64, 0)])
def test_requests_of_a_great_many_rows(rows: int, counted: int, tmp_path: Path) -> None:
    """They are counted, but for those whose values would take much memory."""
    counter = FeatureCounter([InputColumn("a", ("a",), False)], draw=lambda: 0.0)
    counter.open(tmp_path)
    counter.count(columns_of(rows))
    counter.close()
    (column,) = read_counts(tmp_path)
    assert (column.rows_seen, column.counted) == (rows, counted)
    assert column.values == counted * (rows // 64)


def test_a_large_request_beside_small_ones(tmp_path: Path) -> None:
    """It is counted, though what came just before is not yet."""
    counter = FeatureCounter([InputColumn("a", ("a",), False)], draw=lambda: 0.0)
    counter.open(tmp_path)
    counter.count(columns_of(1))
    counter.count(columns_of(2**20))
    counter.close()
    (column,) = read_counts(tmp_path)
    assert (column.rows_seen, column.counted) == (2**20 + 1, 2**20 + 1)


def test_what_comes_while_others_are_counted_is_counted_at_the_end(tmp_path: Path) -> None:
    """The thread may be at any point of its work when the model ends."""
    for delay in range(30):
        counter = FeatureCounter([InputColumn("a", ("a",), False)], draw=lambda: 0.0)
        counter.open(tmp_path)
        counter.count(columns_of(2**19))
        time.sleep(delay * 3e-4)
        counter.count(columns_of(5))
        counter.close()
        (column,) = read_counts(tmp_path)
        assert column.counted == column.rows_seen == (delay + 1) * (2**19 + 5)


def test_an_error_ends_the_counting(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once."""
    draws = iter([0.0])
    counter = FeatureCounter([InputColumn("a", ("a",), False)], draw=lambda: next(draws))
    counter.open(tmp_path)
    for _ in range(3):  # there is no second draw
        counter.count(columns_of(1024))
    counter.close()
    assert capfd.readouterr().err == "values of columns are not counted: StopIteration: \n"


def write_steps(directory: Path, steps: tuple[Step, ...], answers: tuple[int, ...]) -> None:
    """A program of the columns a and b; answers: their registers in the end."""
    inputs = tuple(InputColumn(name, (name,), text=False) for name in "ab")
    outputs = tuple(
        OutputColumn(name, (name,), register, False, "f4", ())
        for name, register in zip("ab", answers, strict=True)
    )
    for folder in ("tables", COUNTS):
        (directory / folder).mkdir()
    text = program_text(Program(inputs, steps, outputs, 6), [])
    (directory / "tables/program.json").write_text(text)


def test_rows_that_an_operator_drops(tmp_path: Path) -> None:
    """What comes is counted before, what is normalized behind it."""
    steps = (
        Step(DropMissing(1), (0, 1), (2, 3), "Dropna", ("a", "b")),
        Step(Normalize(0, 1, "float32", "a"), (2,), (4,), "Normalize", ("a",)),
        Step(Normalize(0, 1, "float32", "b"), (1,), (5,), "Normalize", ("b",)),
    )
    write_steps(tmp_path, steps, (4, 5))
    program = load_program(tmp_path)
    for gaps in (1, 3, 2):
        values = np.arange(5.0)
        values[:gaps] = np.nan
        program.run({"a": values, "b": np.ones(5)})
    program.close()
    a, b, rest = read_counts(tmp_path / COUNTS)
    assert (a.values, a.nulls, a.finite) == (15, 6, 0)
    assert (b.values, b.nulls, b.finite, b.sum) == (15, 0, 15, 15)
    assert rest.column == "a (Normalize)"
    assert (rest.values, rest.nulls, rest.finite, rest.sum) == (9, 0, 9, 10 + 7 + 9)


def test_shares_behind_an_operator_that_drops_rows(tmp_path: Path) -> None:
    """They are of the values that were scaled: of 2 that are left of 5, one is outside."""
    steps = (
        Step(DropMissing(1), (0, 1), (2, 3), "Dropna", ("a", "b")),
        Step(Scale(0, 1, "float32", "b"), (3,), (4,), "NormalizeMinMax", ("b",)),
    )
    write_steps(tmp_path, steps, (2, 4))
    program = load_program(tmp_path)
    program.run({"a": np.array([np.nan, 1, np.nan, 2, np.nan]), "b": np.arange(5.0)})
    program.close()
    counted = {it.column: it for it in read_counts(tmp_path / COUNTS)}
    b, scaled = counted["b"], counted["b (NormalizeMinMax)"]
    assert (b.values, b.outside, b.fitted.low) == (5, 0, None)
    assert (scaled.values, scaled.outside, scaled.fitted.low) == (2, 1, 0)


def test_a_request_all_of_whose_rows_are_dropped(tmp_path: Path) -> None:
    """It is answered, and so what came is counted: its nulls above all, also as the first."""
    steps = (
        Step(Normalize(0, 1, "float32", "b"), (1,), (2,), "Normalize", ("b",)),
        Step(DropMissing(1), (0, 2), (3, 4), "Dropna", ("a", "b"), is_last=True),
    )
    write_steps(tmp_path, steps, (3, 4))
    program = load_program(tmp_path)
    for value in (np.nan, 7.0, np.nan):
        answer = program.run({"a": np.array([value, np.nan]), "b": np.array([1.0, 2.0])})
        assert len(answer["a"]) == np.isfinite(value)
    program.close()
    a, b = read_counts(tmp_path / COUNTS)
    assert (a.rows_seen, a.values, a.nulls) == (6, 6, 5)
    assert (b.values, b.finite, b.sum) == (6, 6, 9)


def test_numbers_under_a_name_that_no_request_has(tmp_path: Path) -> None:
    """Their values and nulls are counted where they are scaled, and once."""
    steps = (
        Step(Normalize(0, 1, "float32", "new"), (0,), (2,), "Normalize", ("new",)),
        Step(Scale(0, 1, "float32", "new"), (0,), (3,), "NormalizeMinMax", ("new",)),
        Step(Scale(0, 1, "float32", "other"), (1,), (4,), "NormalizeMinMax", ("other",)),
    )
    write_steps(tmp_path, steps, (3, 4))
    program = load_program(tmp_path)
    program.run({"a": np.array([1, 2, np.nan]), "b": np.array([np.nan, 0, np.nan])})
    program.close()
    counted = {
        it.column: (it.counted, it.values, it.nulls, it.outside)
        for it in read_counts(tmp_path / COUNTS)
    }
    assert (counted["new"], counted["other"]) == ((3, 3, 1, 1), (3, 3, 2, 0))
