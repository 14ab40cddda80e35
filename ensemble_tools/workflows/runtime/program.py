"""A compiled workflow: what is read, what is done in which order, what is answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .columns import (
    Column,
    LeftToNVTabular,
    NoRowsLeft,
    NoRowsMade,
    RefusedByDesign,
    RequestError,
)
from .kept import FindRunner, KeptNode, TakeArray
from .lookups import Lookup, read_lookup
from .operations import find_operation
from .tensors import InputColumn, OutputColumn

#: The files beside the tables.
PROGRAM_FILE = "program.json"
#: Beside their directory, where values are to be counted (feature_counts.py).
COUNTS = "feature_counts"

#: Of a program that does not say what becomes of a request without rows.
_NOT_SAID = "the workflow was compiled for requests that have some"

#: What a step does with the columns that it reads -> the columns that it makes.
_Work = Callable[..., "list[Column]"]


class LoadedProgram:
    """One workflow, ready to answer requests; it keeps nothing of them but counts."""

    def __init__(self, directory: Path, find_runner: FindRunner | None = None) -> None:
        """Raises OSError or ValueError when a file is missing or cut off.

        find_runner: of a node that is not compiled; needed where there are some. The values of
        columns are counted if a directory for that lies beside this one.
        """
        written = json.loads((directory / PROGRAM_FILE).read_text(encoding="utf-8"))
        self._inputs = [InputColumn.from_json(column) for column in written["inputs"]]
        self._outputs = [OutputColumn.from_json(column) for column in written["outputs"]]
        self._registers = written["registers"]
        #: Why a request without rows is refused; empty where it is answered.
        self._refuses_no_rows = written.get("refuses_no_rows", _NOT_SAID)
        tables = [read_lookup(directory, table) for table in written["tables"]]
        steps = written["steps"]
        works = [_prepare_step(step, tables, find_runner) for step in steps]
        self._counter = None
        counts = directory.parent / COUNTS
        if counts.is_dir():
            from .counting import count_features  # it is off elsewhere, and takes time

            self._counter = count_features(counts, self._inputs, steps, tables, works)
        self._steps = [
            (work, step["reads"], step["writes"]) for work, step in zip(works, steps, strict=True)
        ]
        #: Whether a request without rows is NVTabular's to answer.
        self._leaves_no_rows = any(step["operation"] == KeptNode.name for step in steps)
        self._is_last = [step.get("is_last", False) for step in steps]

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The request's columns and the tensors of each."""
        return {column.name: column.tensors for column in self._inputs}

    def run(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """Tensors of a request -> those of the answer; raises RequestError.

        Numbers come as arrays of the declared types, strings as arrays of bytes objects.
        """
        if self._counter is None:
            return self._answer(tensors)
        try:
            return self._answer(tensors)
        finally:
            self._counter.drop()

    def close(self) -> None:
        """The model ends; what has come is counted before."""
        if self._counter is not None:
            self._counter.close()

    def _answer(self, tensors: dict[str, Any]) -> dict[str, Any]:
        columns: list[Any] = [None] * self._registers
        with np.errstate(all="ignore"):
            for number, source in enumerate(self._inputs):
                columns[number] = source.read(tensors)
            self._check_rows(columns)
            if not columns[0].rows:
                return self._answer_no_rows()
            answer: dict[str, Any] = {}
            if self._do_steps(columns):
                for output in self._outputs:
                    answer.update(output.write(columns[output.reads]))
            else:
                answer = self._answer_no_rows()
            if self._counter is not None:
                self._counter.count(columns)
        return answer

    def _answer_no_rows(self) -> dict[str, Any]:
        return {output.name: output.write_no_rows() for output in self._outputs}

    def _do_steps(self, columns: list[Any]) -> bool:
        """Fill the registers; whether there are rows left to answer."""
        for index, (work, reads, writes) in enumerate(self._steps):
            try:
                written = work(*[columns[number] for number in reads])
            except (NoRowsLeft, NoRowsMade):
                if self._is_last[index]:
                    return False
                raise
            for number, column in zip(writes, written, strict=True):
                columns[number] = column
        return True

    def _check_rows(self, columns: list[Any]) -> None:
        rows = columns[0].rows
        for number, column in enumerate(self._inputs):
            if columns[number].rows != rows:
                raise RefusedByDesign(
                    f"column {column.name!r} has {columns[number].rows} rows, and column "
                    f"{self._inputs[0].name!r} has {rows}; a request's columns are of one length "
                    "(NVTabular fills the shorter ones up with NaN)"
                )
        if not rows and self._refuses_no_rows:
            raise RequestError(f"the request has no rows: {self._refuses_no_rows}")
        if not rows and self._leaves_no_rows:
            raise LeftToNVTabular("the request has no rows, and a part of it is not compiled")


def _prepare_step(
    step: dict[str, Any], tables: list[Lookup], find_runner: FindRunner | None
) -> _Work:
    name, parameters = step["operation"], step["given"]
    if name == KeptNode.name:
        if find_runner is None:
            raise ValueError("the program keeps operators of NVTabular, and was not given it")
        return find_runner(KeptNode.from_json(parameters))
    if name == TakeArray.name:
        return TakeArray.from_json(parameters).run
    return find_operation(name).from_json(parameters).prepare(tables)
