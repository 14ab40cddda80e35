"""Keys and what stands beside them -> the files that runtime/lookups.py maps into memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..program import Plain
from ..runtime.columns import Column, take_rows
from ..runtime.lookups import hashes_of, words_of
from .arrays import UNREACHABLE
from .errors import TableUnusable

#: Of numbers that combinations of keys may have.
_LARGEST = 2**62


def save_array(path: Path, array: Any) -> None:
    """Save as numpy.save does, which tells of a full disk without its number, or not at all."""
    array = np.ascontiguousarray(array)
    header = np.lib.format.header_data_from_array_1_0(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(array.data)


class LookupFiles:
    """Writes the arrays of tables into a directory, as `<file>.<part>.npy`.

    save: what writes one. hash_words: the hash of texts, as hashes_of.
    """

    def __init__(
        self,
        directory: Path,
        save: Callable[[Path, Any], None] = save_array,
        hash_words: Callable[[Any], Any] = hashes_of,
    ) -> None:
        self._directory, self._save_array, self._hash_words = directory, save, hash_words

    def write(
        self, file: str, keys: list[Any], beside: dict[str, Column], source: str
    ) -> dict[str, Plain]:
        """Write a table; its row in program.json.

        keys: arrays, all of shape (rows,). source: the category file's name, for TableUnusable,
        which is raised where the rows' keys are not different.
        """
        reachable = np.ones(len(keys[0]), bool)
        for values in keys:
            if values.dtype.kind == "S":
                reachable &= values != UNREACHABLE
        # 1. Each key column's values get numbers, in their order or in that of their hashes.
        # 2. A row's number is made of its keys' numbers, as of digits.
        rows, rank, size = [], np.zeros(int(reachable.sum()), np.int64), 1
        for number, values in enumerate(keys):
            row, own, own_size = self._write_key(f"{file}.{number}", values[reachable], source)
            rows.append(row)
            size *= own_size
            if size >= _LARGEST:
                raise TableUnusable(f"the category file {source} combines too many values")
            rank = rank * own_size + own
        # 3. What stands beside lies in the order of the rows' numbers.
        order = np.argsort(rank, kind="stable")
        if len(rank) and not _is_new(rank[order]).all():
            raise TableUnusable(
                f"the category file {source} has a category twice, for which NVTabular would "
                "answer twice"
            )
        if len(keys) > 1:
            self._save(f"{file}.order", rank[order])
        for number, column in enumerate(beside.values()):
            self._write_beside(f"{file}.beside.{number}", take_rows(column, reachable), order)
        numbers = {
            name: column.values
            for name, column in beside.items()
            if column.offsets is None and column.values.dtype.kind != "S"
        }
        return {
            "file": file,
            "keys": rows,
            "beside": list(beside),
            "offsets": [name for name, column in beside.items() if column.offsets is not None],
            "missing": [name for name, column in beside.items() if column.missing is not None],
            "first": {name: values[0].item() for name, values in numbers.items() if len(values)},
        }

    def _write_beside(self, part: str, column: Column, order: Any) -> None:
        column = take_rows(column, order)
        self._save(part, column.values)
        for name, array in (("offsets", column.offsets), ("missing", column.missing)):
            if array is not None:
                self._save(f"{part}.{name}", array)

    def _write_key(self, part: str, values: Any, source: str) -> tuple[dict[str, Plain], Any, int]:
        """Write one key column; its row, each value's number, and how many numbers there are."""
        if values.dtype.kind == "S":
            return self._write_texts(part, values, source)
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
        unique, rank = _ranked(values[~missing])
        self._save(f"{part}.keys", unique)
        nan_number = len(unique) if missing.any() else -1
        ranks = np.full(len(values), nan_number, np.int64)
        ranks[~missing] = rank
        return {"kind": "number", "nan": nan_number}, ranks, len(unique) + (nan_number >= 0)

    def _write_texts(
        self, part: str, values: Any, source: str
    ) -> tuple[dict[str, Plain], Any, int]:
        unique, rank = _ranked(values)
        words = words_of(unique)
        hashes = self._hash_words(words)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) == 0).any():
            raise TableUnusable(f"two texts of {source} have one hash")
        lengths = _word_counts(words)[order]
        starts = np.cumsum(lengths) - lengths
        inside = np.arange(words.shape[1]) < lengths[:, None]
        self._save(f"{part}.hashes", hashes[order])
        self._save(f"{part}.starts", starts.astype(np.int64))
        self._save(f"{part}.lengths", lengths.astype(np.int32))
        self._save(f"{part}.words", words[order][inside])
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        return {"kind": "text"}, position[rank], len(unique)

    def _save(self, part: str, array: Any) -> None:
        self._save_array(self._directory / f"{part}.npy", array)


def _ranked(values: Any) -> tuple[Any, Any]:
    """The different values in order, and the number of each value among them.

    numpy.unique does the same by hashing, since its second version, in a hundred times the time.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    new = _is_new(ordered)
    rank = np.empty(len(values), np.int64)
    rank[order] = np.cumsum(new) - 1
    return ordered[new], rank


def _is_new(ordered: Any) -> Any:
    """Whether each of sorted values differs from the one before it."""
    return np.append(np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1])


def _word_counts(words: Any) -> Any:
    """How many words each text has: up to the last that is not zero, and one at least."""
    used = words != 0
    last = words.shape[1] - np.argmax(used[:, ::-1], axis=1)
    return np.where(used.any(axis=1), last, 1)
