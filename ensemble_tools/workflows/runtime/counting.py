"""Counts the values of a program's columns (feature_counts.py), behind the answers.

While a request is answered, its columns and steps are noted: references to what steps have made
anyway, and copies of numbers, since a request may lie in memory that the next one is written into.
A thread counts the notes of many requests at once, when there are enough of them or after a second.
It needs Python's lock, which the process gives up while it waits for a request. An error here ends
the counting and is logged once; it changes no answer.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import chain, count, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from .columns import Column, all_missing
from .counted_columns import CountedColumn, Keys, Numbers
from .counter_file import CounterFile, Sums
from .feature_counts import MOST_COLUMNS
from .lookups import Lookup
from .operations import find_operation
from .records import number_of
from .tensors import InputColumn

#: Of requests with more than twice as many values a column, so many are counted that it is about as
#: many values for each; smaller ones are all counted.
SAMPLE = 64
#: When the thread is woken: values; and notes, each of which takes some 400 bytes.
_ENOUGH_VALUES, _ENOUGH_NOTES = 2**17, 4_096
#: Values that are held at most, of up to 17 bytes each; a request beyond them is not counted.
_MOST_VALUES = 2**20
#: How many seconds notes wait for others, and a model that ends for the thread.
_LONGEST_WAIT_S = 1.0
#: How long the thread keeps Python's lock, which a request would wait 5 ms for, and its pauses.
_COUNTING_S, _PAUSE_S = 5e-4, 5e-5

_Work = Callable[..., "list[Column]"]


def count_features(
    directory: Path,
    inputs: Sequence[InputColumn],
    steps: Sequence[dict[str, Any]],
    tables: Sequence[Lookup],
    works: list[_Work],
) -> tuple[FeatureCounter | None, list[_Work]]:
    """The counter of a program's columns, and what its steps do in a request that is counted.

    works: what the steps do. That they stay, without a counter, where nothing can be counted.
    """
    try:
        counter = FeatureCounter(inputs)
        noting = [
            counter.watch(step, work, tables) for step, work in zip(steps, works, strict=True)
        ]
        counter.open(directory)
    except Exception as error:
        _log(error)
        return None, works
    return counter, noting


class FeatureCounter:
    """Counts for one instance of a model: one thread answers requests, another one counts.

    draw: numbers from 0 to 1. Functions of the user's may seed Python's own generator.
    """

    def __init__(
        self, inputs: Sequence[InputColumn], draw: Callable[[], float] | None = None
    ) -> None:
        self._draw = draw or random.Random().random
        self._columns: dict[str, CountedColumn] = {}
        self._inputs = [Numbers(self._column(it.name, "", "input")) for it in inputs[:MOST_COLUMNS]]
        #: In the order of a request's notes.
        self._watchers: list[Numbers | Keys] = [*self._inputs]
        self._lists = [number for number, it in enumerate(inputs) if len(it.tensors) > 1]
        #: Of the request that is answered: its rows, its weight and its values.
        self._request: tuple[int, int, int] | None = None
        #: Of the request that is answered, if it is counted.
        self._notes: list[Any] | None = None
        #: Weight, values and notes of requests that were answered.
        self._pending: list[tuple[int, int, list[Any]]] = []
        # Each of these is written by one of the two threads alone.
        self._rows_seen = self._values_noted = 0
        self._rows_written = self._values_counted = 0
        self._file: CounterFile | None = None
        self._thread: threading.Thread | None = None
        self._some, self._enough = threading.Event(), threading.Event()
        self._stopping = False

    # -- when the model is loaded

    def watch(self, step: dict[str, Any], work: _Work, tables: Sequence[Lookup]) -> _Work:
        """What the step does; where it looks up or scales values, they are noted."""
        if len(self._columns) >= MOST_COLUMNS:
            return work
        if step["operation"] in ("categorify", "join", "target_encode"):
            return self._watch_keys(step, tables)
        if step["operation"] in ("normalize", "scale"):
            return self._watch_numbers(step, work)
        return work

    def open(self, directory: Path) -> None:
        """Hold a file in it. Raises OSError, and ValueError where it would be too large."""
        self._file = CounterFile(directory, [it.to_json() for it in self._columns.values()])

    def _watch_keys(self, step: dict[str, Any], tables: Sequence[Lookup]) -> _Work:
        operation: Any = find_operation(step["operation"]).from_json(step["given"])
        operator, _, name = step["of"].partition(": ")
        column = self._column(name, operator, "keys")
        table, folds = tables[operation.table], getattr(operation, "folds", 1)
        if operation.name == "categorify":
            column.has_places, column.places = True, table.places
        self._watchers.append(Keys(column, table, folds))
        lookup = _KeepingLookup(table, keeps_keys=folds > 1)
        replaced = [*tables]
        replaced[operation.table] = lookup
        work = operation.prepare(replaced)

        def noted(*columns: Column) -> list[Column]:
            written: list[Column] = work(*columns)
            found, lookup.found = lookup.found, None
            if self._notes is not None:
                try:
                    self._notes.append((*found, all_missing(columns)))
                except Exception as error:
                    self._end(error)
            return written

        return noted

    def _watch_numbers(self, step: dict[str, Any], work: _Work) -> _Work:
        operation: Any = find_operation(step["operation"]).from_json(step["given"])
        column = self._column(operation.column, step["of"].partition(": ")[0], operation.name)
        (register,) = step["reads"]
        is_input = register < len(self._inputs) and self._inputs[register].column is column
        watcher = self._inputs[register] if is_input else Numbers(column)
        if operation.name == "normalize":
            watcher.count_sums(*(float(number_of(it)) for it in (operation.mean, operation.std)))
        else:
            watcher.count_outside(*(float(number_of(it)) for it in (operation.min, operation.max)))
        if is_input:
            return work
        self._watchers.append(watcher)

        def noted(values: Column) -> list[Column]:
            if self._notes is not None:
                try:
                    self._notes.append(values.values.copy())
                except Exception as error:
                    self._end(error)
            return work(values)

        return noted

    def _column(self, name: str, operator: str, kind: str) -> CountedColumn:
        """The first column of that name of which nobody counts that kind yet."""
        more = (f"{name} ({operator} {number})" for number in count(2))
        for label in chain((name, f"{name} ({operator})"), more):
            new = CountedColumn(label, len(self._columns))
            column = self._columns.setdefault(label, new)
            if column.begin(kind):
                break
        return column

    # -- while a request is answered

    def begin(self, columns: Sequence[Any]) -> bool:
        """Whether the request with these columns is counted; then they are noted."""
        if self._file is None:
            return False
        try:
            rows = columns[0].rows
            size = max([rows, *[len(columns[number].values) for number in self._lists]])
            weight, values = max(1, size // SAMPLE), size * len(self._watchers)
            self._request = rows, weight, values
            if weight > 1 and self._draw() * weight >= 1:
                return False
            if self._values_noted - self._values_counted + values > _MOST_VALUES:
                return False
            came = [column.values for column in columns[: len(self._inputs)]]
            self._notes = [
                it.copy() if watcher.needs_values or it.dtype.kind == "f" else len(it)
                for it, watcher in zip(came, self._inputs, strict=True)
            ]
        except Exception as error:
            self._end(error)
        return self._notes is not None

    def finish(self) -> None:
        """The request was answered."""
        if self._file is None or self._request is None:
            return
        try:
            rows, weight, values = self._request
            self._rows_seen += rows
            if self._notes is not None and len(self._notes) == len(self._watchers):
                self._values_noted += values
                self._pending.append((weight, values, self._notes))
            self._wake()
        except Exception as error:
            self._end(error)

    def drop(self) -> None:
        """Forget the request, which was answered or refused."""
        self._request = self._notes = None

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="feature counts", daemon=True)
            self._thread.start()
        if not self._some.is_set():
            self._some.set()
        notes = len(self._pending) * len(self._watchers)
        values = self._values_noted - self._values_counted
        if notes >= _ENOUGH_NOTES or values >= _ENOUGH_VALUES:
            self._enough.set()

    # -- behind the answers

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._some.wait()
                self._some.clear()
                self._enough.wait(_LONGEST_WAIT_S)
                self._enough.clear()
                self._count()
        except Exception as error:
            self._end(error)

    def _count(self) -> None:
        """Count what is pending. Rows are read last: there are never fewer than are counted."""
        file, taken = self._file, self._pending[:]
        rows_seen = self._rows_seen
        if file is None:
            return
        sums, until = Sums(len(self._columns)), time.monotonic() + _COUNTING_S
        with np.errstate(all="ignore"):
            for weight, requests in groupby(taken, itemgetter(0)):
                by_watcher = zip(*(notes for _, _, notes in requests), strict=True)
                for watcher, notes in zip(self._watchers, by_watcher, strict=True):
                    watcher.add(sums, weight, notes)
                    if time.monotonic() > until:
                        time.sleep(_PAUSE_S)
                        until = time.monotonic() + _COUNTING_S
        file.add(rows_seen - self._rows_written, sums)
        self._rows_written = rows_seen
        del self._pending[: len(taken)]
        self._values_counted += sum(values for _, values, _ in taken)

    def close(self) -> None:
        """Count what is pending, and give the file back."""
        self._stopping = True
        self._some.set()
        self._enough.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_WAIT_S)
        self._file = None

    def _end(self, error: Exception) -> None:
        """Count no more."""
        self._file = self._notes = None
        self._pending.clear()
        _log(error)


class _KeepingLookup(Lookup):
    """A table that keeps what it has found last, or which rows, and the keys behind the first."""

    def __init__(self, table: Lookup, keeps_keys: bool) -> None:
        self.__dict__.update(table.__dict__)
        self._find, self._keeps_keys = table.find, keeps_keys
        self.found: Any = None

    def find(self, columns: list[Any]) -> tuple[Any, Any]:
        found = self.found = self._find(columns)
        if self._keeps_keys:
            self.found = found[0], [values.copy() for values in columns[1:]]
        return found


def _log(error: Exception) -> None:
    text = f"{type(error).__name__}: {error}"
    print(f"values of columns are not counted: {text}", file=sys.stderr, flush=True)
