"""Tables of keys, of which many are looked up at once.

The arrays are read from files that are mapped into memory: instances of one model share them, and a
table costs nothing before it is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .columns import INTEGERS, Column, take_rows

#: Multipliers of the text hash, odd; those of the n-th word are derived from them.
_FIRST, _STEP, _LAST = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xBF58476D1CE4E5B9
_MASK = (1 << 64) - 1
#: In bytes.
_SMALL_FILE = 64 * 1024


class Numbers:
    """Integers or floats. NaN is found nowhere, but for a table that says where.

    keys: sorted, shape (n,). nan: the number that stands for NaN, -1 for none.
    """

    def __init__(self, keys: Any, nan: int = -1) -> None:
        self._keys, self._nan = keys, nan
        # One run without gaps, as ids often are, is looked up by subtraction.
        whole = keys.dtype.kind in "iu" and len(keys) > 0 and int(keys[-1]) < 2**63
        self._first = int(keys[0]) if whole and _is_run(keys) else None

    def __len__(self) -> int:
        return len(self._keys) + (self._nan >= 0)

    @property
    def are_whole(self) -> bool:
        """Whether they are integers."""
        return self._keys.dtype.kind in INTEGERS

    def find(self, values: Any) -> tuple[Any, Any]:
        """values: cast to the keys' type. (which are in the table, their numbers); both (n,)."""
        keys = self._keys
        values = values.astype(keys.dtype, copy=False)
        if not len(keys):
            is_known, rows = np.zeros(len(values), bool), np.zeros(len(values), np.intp)
        elif self._first is not None:
            is_known = (values >= keys[0]) & (values <= keys[-1])
            rows = np.where(is_known, values, keys[0]).astype(np.int64) - self._first
        else:
            rows = np.searchsorted(keys, values)
            np.minimum(rows, len(keys) - 1, out=rows)
            is_known = keys[rows] == values
        if self._nan >= 0:
            missing = np.isnan(values)
            is_known, rows = is_known | missing, np.where(missing, self._nan, rows)
        return is_known, rows


class Texts:
    """Strings, found by a hash of 64 bits and then compared whole.

    hashes: sorted, uint64, shape (n,), no two alike. starts: where the words of each begin, int64,
    shape (n,). lengths: how many words of 8 bytes each has, int32, shape (n,). words: uint64, the
    texts one after the other, each filled up with zeros. hash_words: as hashes_of.
    """

    def __init__(
        self,
        hashes: Any,
        starts: Any,
        lengths: Any,
        words: Any,
        hash_words: Callable[[Any], Any],
    ) -> None:
        self._hashes, self._starts, self._lengths, self._words = hashes, starts, lengths, words
        self._hash_words = hash_words
        self._longest = 8 * int(lengths.max(initial=1))

    def __len__(self) -> int:
        return len(self._hashes)

    def find(self, values: Any) -> tuple[Any, Any]:
        """values: texts, shape (n,). (which are in the table, their numbers); both (n,)."""
        if not len(self._hashes):
            return np.zeros(len(values), bool), np.zeros(len(values), np.intp)
        fitting = None
        if values.dtype.itemsize > self._longest:  # a longer text than all here is not looked at
            fitting = np.char.str_len(values) <= self._longest
            values = values.astype(f"S{self._longest}")
        words = words_of(values)
        hashes = self._hash_words(words)
        rows = np.searchsorted(self._hashes, hashes)
        np.minimum(rows, len(self._hashes) - 1, out=rows)
        is_known = self._hashes[rows] == hashes
        starts, lengths = self._starts[rows], self._lengths[rows]
        is_known &= lengths <= words.shape[1]  # a longer one is another text
        if fitting is not None:
            is_known &= fitting
        for column in range(words.shape[1]):
            inside = is_known & (column < lengths)
            own = self._words[np.where(inside, starts + column, 0)]
            is_known &= np.where(inside, own, 0) == words[:, column]
        return is_known, rows


def words_of(values: Any) -> Any:
    """Texts (`S`, shape (n,)) -> uint64, shape (n, words of the longest), filled up with zeros."""
    width = -(-values.dtype.itemsize // 8) * 8
    padded = values.astype(f"S{width}", copy=False)
    return np.ascontiguousarray(padded).view("<u8").reshape(len(values), width // 8)


def hashes_of(words: Any) -> Any:
    """A hash of each row, shape (n,); words that are zero at the end do not change it."""
    hashes = np.zeros(len(words), np.uint64)
    multiplier = _FIRST
    for column in range(words.shape[1]):
        mixed = words[:, column] * np.uint64(multiplier)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(_LAST)
        hashes += mixed ^ (mixed >> np.uint64(29))
        multiplier = (multiplier + 2 * _STEP) & _MASK | 1
    return hashes


class Lookup:
    """Rows of one or several columns -> what stands beside the row of the table that is equal.

    beside: columns of a row each table row, by their names; first: of the file's first row.
    vocabulary: of labels, their `count`, the `first` and the `least`, and as `buckets` the rows
    that each bucket of them was fitted to, none where nobody knows.
    """

    def __init__(
        self,
        keys: list[Numbers | Texts],
        order: Any,
        beside: dict[str, Column],
        first: dict[str, Any],
        vocabulary: dict[str, Any] | None = None,
    ) -> None:
        self._keys, self._order, self._beside, self._first = keys, order, beside, first
        self.vocabulary = vocabulary or {}

    @property
    def has_float_keys(self) -> bool:
        """Whether a key is a float, which may be NaN."""
        return any(isinstance(keys, Numbers) and not keys.are_whole for keys in self._keys)

    def first(self, name: str) -> Any:
        """The value beside the first row of the file."""
        return self._first[name]

    def find(self, columns: list[Any]) -> tuple[Any, Any]:
        """(which rows are in the table, their numbers in what stands beside); both (n,)."""
        is_known, rows = self._keys[0].find(columns[0])
        if len(self._keys) == 1:
            return is_known, rows
        for keys, values in zip(self._keys[1:], columns[1:], strict=True):
            hit, own = keys.find(values)
            is_known, rows = is_known & hit, rows * len(keys) + own
        hit, rows = Numbers(self._order).find(np.where(is_known, rows, -1))
        return is_known & hit, rows

    def beside(self, name: str, rows: Any) -> Any:
        """The values that stand beside those rows of the table, shape (n,)."""
        values = self._beside[name].values
        return values[rows] if len(values) else np.zeros(len(rows))

    def find_buckets(self, rows: Any, count: int) -> Any:
        """The buckets of the labels beside those rows of the table, as bucket_labels."""
        labels, vocabulary = self._beside["label"].values[rows], self.vocabulary
        return bucket_labels(labels, vocabulary["first"], vocabulary["count"], count)

    def column(self, name: str, rows: Any) -> Column:
        """The column beside those rows of the table."""
        column = self._beside[name]
        return take_rows(column, rows) if column.rows else Column(np.zeros(len(rows)))


def read_lookup(
    directory: Path, table: dict[str, Any], hash_words: Callable[[Any], Any] = hashes_of
) -> Lookup:
    """Open a table's files. Small ones are read; of the others nothing is, yet.

    hash_words: what texts are looked up by.
    """

    def array(name: str) -> Any:
        path = directory / f"{table['file']}.{name}.npy"
        # Each mapping holds a file open, and a workflow may have hundreds of columns.
        mode: Any = "r" if path.stat().st_size > _SMALL_FILE else None
        return np.load(path, mmap_mode=mode).view(np.ndarray)

    keys: list[Numbers | Texts] = []
    for number, key in enumerate(table["keys"]):
        if key["kind"] == "text":
            hashes, starts, lengths, words = (
                array(f"{number}.{name}") for name in ("hashes", "starts", "lengths", "words")
            )
            keys.append(Texts(hashes, starts, lengths, words, hash_words))
        else:
            keys.append(Numbers(array(f"{number}.keys"), key["nan"]))
    order = array("order") if len(keys) > 1 else None
    parts = {name: frozenset(table.get(name, ())) for name in ("offsets", "missing")}
    beside = {
        name: Column(
            array(f"beside.{index}"),
            *(
                array(f"beside.{index}.{part}") if name in names else None
                for part, names in parts.items()
            ),
        )
        for index, name in enumerate(table["beside"])
    }
    return Lookup(keys, order, beside, table["first"], table.get("vocabulary"))


def bucket_labels(labels: Any, first: int, size: int, count: int) -> Any:
    """The buckets of labels: those of a vocabulary, in their order, are in so many equal parts.

    first: the label of the vocabulary that comes first. size: how many it has. Both may be arrays.
    """
    return ((labels - first) * count // size).clip(0, count - 1)


def _is_run(keys: Any) -> bool:
    return int(keys[-1]) - int(keys[0]) == len(keys) - 1
