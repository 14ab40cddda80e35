"""Counts the values of a program's columns (feature_counts.py), behind the answers.

When a request was answered, its columns are noted: references to what steps have found, and copies
of numbers, since a request may lie in memory that the next one is written into. A thread counts the
notes of many requests at once, when there are enough of them or after a while.
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

from .columns import Column
from .counted_columns import (
    CountedColumn,
    Keys,
    Labels,
    Lengths,
    Normalized,
    Nulls,
    Register,
    Scaled,
)
from .counter_file import CounterFile, Sums
from .feature_counts import MOST_COLUMNS
from .lookups import Lookup
from .operations import find_operation
from .records import Number, number_of
from .tensors import InputColumn

#: Of requests with twice as many values a column, or more, so many are counted that it is about as
#: many values for each; smaller ones are all counted.
SAMPLE = 64
#: When the thread is woken: values; and notes, each of which takes some 400 bytes.
_ENOUGH_VALUES, _ENOUGH_NOTES = 2**17, 4_096
#: Values, of 8 bytes for most: beside more that are held no request is noted, and none that has
#: more by itself.
_MOST_HELD, _MOST_OF_ONE = 2**19, 2**22
#: How many seconds notes wait for others: less than an unload waits until it kills a process that
#: has answered (serve/models/departures.py). And a model that ends for the thread, at most: it
#: takes some ms, on a machine that is busy longer.
LONGEST_WAIT_S, _END_S = 0.15, 10.0
#: How long the thread keeps Python's lock, which a request would wait 5 ms for, and its pauses.
_COUNTING_S, _PAUSE_S = 5e-4, 5e-5
#: Operations whose values are counted.
_COUNTED = ("categorify", "join", "target_encode", "normalize", "scale")

_Work = Callable[..., "list[Column]"]


def count_features(
    directory: Path,
    inputs: Sequence[InputColumn],
    steps: Sequence[dict[str, Any]],
    tables: Sequence[Lookup],
    works: list[_Work],
) -> FeatureCounter | None:
    """The counter of a program's columns, None if they cannot be counted.

    works: what the steps do; those that look up are replaced, so that they keep what they find.
    """
    try:
        counter = FeatureCounter(inputs)
        counter.find_other_lengths(steps)
        # A column that several tables look up is first of all that of its vocabulary.
        order = sorted(range(len(steps)), key=lambda it: steps[it]["operation"] != "categorify")
        watched = {number: counter.watch(steps[number], tables) for number in order}
        counter.open(directory)
    except Exception as error:
        _log(error)
        return None
    works[:] = [watched[number] or work for number, work in enumerate(works)]
    return counter


class FeatureCounter:
    """Counts for one instance of a model: one thread answers requests, another one counts.

    draw: numbers from 0 to 1. Functions of the user's may seed Python's own generator.
    """

    def __init__(
        self, inputs: Sequence[InputColumn], draw: Callable[[], float] | None = None
    ) -> None:
        self._draw = draw or random.Random().random
        self._columns: dict[str, CountedColumn] = {}
        for name in [column.name for column in inputs][:MOST_COLUMNS]:
            self._column(name, "", "values")
        self._inputs = [
            Register(number, column) for number, column in enumerate(self._columns.values())
        ]
        self._lists = [number for number, it in enumerate(inputs) if len(it.tensors) > 1]
        self._labels: list[Register] = []
        self._normalized: list[Register] = []
        self._scaled: list[Register] = []
        self._keys: list[Keys] = []
        self._looked_up: set[tuple[Any, ...]] = set()
        #: Registers that may have more or fewer values than the request's column of their name.
        self._other_lengths: set[int] = set()
        #: Whether the program's steps leave a request its rows.
        self._keeps_rows = True
        #: Made of these when the first request has come, whose columns say what is of one kind.
        self._watchers: list[Any] = []
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

    def find_other_lengths(self, steps: Sequence[dict[str, Any]]) -> None:
        """Whose values have to be counted behind these steps."""
        for step in steps:
            if _changes_lengths(step) or self._has_other_lengths(step):
                self._other_lengths.update(step["writes"])

    def watch(self, step: dict[str, Any], tables: Sequence[Lookup]) -> _Work | None:
        """Count what the step looks up or scales; what it does if that is another work now."""
        kind, given = step["operation"], step["given"]
        if kind in ("drop_missing", "group") or not given.get("keeps_rows", True):
            self._keeps_rows = False
        if len(self._columns) >= MOST_COLUMNS or kind not in _COUNTED:
            return None
        operation: Any = find_operation(kind).from_json(given)
        operator, _, name = step["of"].partition(": ")
        if kind in ("normalize", "scale"):
            column = self._column(name, operator, kind, anew=self._has_other_lengths(step))
            self._watch_numbers(operation, column, step["reads"][0])
            return None
        looked_up = (kind, operation.table, *step["reads"])
        if looked_up in self._looked_up:  # as a column that is tagged in two ways
            return None
        self._looked_up.add(looked_up)
        column = self._column(name, operator, "keys", anew=self._has_other_lengths(step))
        table = tables[operation.table]
        if kind == "categorify":
            column.has_buckets, column.buckets = True, tuple(table.vocabulary["buckets"])
            if _labels_tell(operation, table):
                self._watch_labels(operation, column, table, step["writes"][0])
                return None
        keys = Keys(column, table, step["reads"], getattr(operation, "folds", 1))
        self._keys.append(keys)
        replaced = [*tables]
        replaced[operation.table] = keys.lookup
        return operation.prepare(replaced)

    def open(self, directory: Path) -> None:
        """Hold a file in it. Raises OSError, and ValueError where it would be too large."""
        self._file = CounterFile(directory, [it.to_json() for it in self._columns.values()])

    def _watch_numbers(self, operation: Any, column: CountedColumn, register: int) -> None:
        counted = Register(register, column, has_values=column.begin("values"))
        if operation.name == "normalize":
            column.mean, column.std = _float(operation.mean), _float(operation.std)
            self._normalized.append(counted)
        else:
            column.low, column.high = _float(operation.min), _float(operation.max)
            self._scaled.append(counted)

    def _watch_labels(
        self, operation: Any, column: CountedColumn, table: Lookup, register: int
    ) -> None:
        count, first, least = (table.vocabulary[name] for name in ("count", "first", "least"))
        null, has_values = operation.null, column.begin("values")
        # Without a vocabulary no label is known.
        least = least if count else np.iinfo(np.int64).max
        self._labels.append(
            Register(register, column, null, least, first, max(1, count), has_values)
        )

    def _has_other_lengths(self, step: dict[str, Any]) -> bool:
        return not self._other_lengths.isdisjoint(step["reads"])

    def _column(self, name: str, operator: str, kind: str, *, anew: bool = False) -> CountedColumn:
        """The first column of that name of which nobody counts that kind yet.

        anew: nor its values, which are others than those that are counted already.
        """
        more = (f"{name} ({operator} {number})" for number in count(2))
        for label in chain((name, f"{name} ({operator})"), more):
            new = CountedColumn(label, len(self._columns))
            column = self._columns.setdefault(label, new)
            if not (anew and "values" in column.kinds) and column.begin(kind):
                break
        return column

    # -- when a request was answered

    def count(self, columns: Sequence[Any]) -> None:
        """Note the columns of a request that was answered; of a large one, by chance.

        columns: all registers, which the steps have filled.
        """
        if self._file is None:
            return
        try:
            rows = columns[0].rows
            size = max([rows, *[len(columns[number].values) for number in self._lists]])
            weight, values = max(1, size // SAMPLE), size * len(self._columns)
            self._rows_seen += rows
            is_drawn = weight == 1 or self._draw() * weight < 1
            held = self._values_noted - self._values_counted
            if is_drawn and held <= _MOST_HELD and values <= _MOST_OF_ONE:
                if not self._watchers:
                    self._watchers = self._group(columns)
                notes = [watcher.note(columns) for watcher in self._watchers]
                self._values_noted += values
                self._pending.append((weight, values, notes))
            self._wake()
        except Exception as error:
            self._end(error)

    def drop(self) -> None:
        """Forget what the last request has looked up."""
        for keys in self._keys:
            keys.lookup.found = None

    def _group(self, columns: Sequence[Any]) -> list[Any]:
        """What is noted of each request. columns: of the first one, whose types are those of all.

        Lists are noted by themselves, and so are columns whose rows may not be the request's.
        """
        floats = [it for it in self._inputs if columns[it.register].values.dtype.kind == "f"]
        watchers: list[Any] = [Lengths([it.column for it in self._inputs]), *self._keys]
        for kind, registers, keeps_rows in (
            (Nulls, floats, True),
            (Normalized, self._normalized, self._keeps_rows),
            (Scaled, self._scaled, self._keeps_rows),
            (Labels, self._labels, self._keeps_rows),
        ):
            together = [
                it for it in registers if keeps_rows and columns[it.register].offsets is None
            ]
            watchers += [kind(together)] if together else []
            watchers += [kind([it]) for it in registers if it not in together]
        return watchers

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
        is_last = False
        try:
            while not is_last:
                self._some.wait()
                self._some.clear()
                self._enough.wait(LONGEST_WAIT_S)
                self._enough.clear()
                is_last = self._stopping  # before it counts what is pending by then
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
            self._thread.join(_END_S)
        self._file = None

    def _end(self, error: Exception) -> None:
        """Count no more."""
        self._file = None
        self._pending.clear()
        _log(error)


def _changes_lengths(step: dict[str, Any]) -> bool:
    """Whether it makes columns with other rows, or lists with other items, than it reads."""
    given = step["given"]
    return (
        step["operation"] in ("drop_missing", "group", "list_slice")
        or not given.get("keeps_rows", True)  # of operators in pandas
        or given.get("rows", "values") != "values"  # what a function made of lists
    )


def _labels_tell(operation: Any, table: Lookup) -> bool:
    """Whether the labels that a Categorify makes say what is null and what is unseen.

    Those of nulls and unseen values are then less than all others, and no NaN is in a list.
    """
    dtype, vocabulary = np.dtype(operation.dtype), table.vocabulary
    if operation.null is None or table.has_float_keys or dtype.kind != "i" or dtype.itemsize < 4:
        return False
    unseen = operation.null + (operation.buckets or 1)
    return not vocabulary["count"] or vocabulary["least"] > unseen


def _float(number: Number) -> float:
    return float(number_of(number))


def _log(error: Exception) -> None:
    text = f"{type(error).__name__}: {error}"
    print(f"values of columns are not counted: {text}", file=sys.stderr, flush=True)
