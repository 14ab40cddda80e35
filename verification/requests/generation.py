"""Requests from an executor's columns: ordinary ones, and ones at the edges of its types. No I/O.

Everything follows from the seed: the same columns and seed give the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ensemble_tools.answers.exchange import TensorRequest
from ensemble_tools.answers.tensors import NUMPY_TYPES, Array, Tensor, encode_strings
from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.archive.tensor_names import list_ragged_tensors
from verification.requests.columns import (
    Categories,
    RequestColumn,
    find_known_values,
    list_lengths,
)

#: Rows of a request that is about values and not about its size.
_ROWS = 5
#: Lists of an ordinary request have 1 to this many values; of the longest, the second number.
_LIST_LENGTH, _LONG_LIST = 6, 500
#: Small integers stand for codes where nothing says which ones the archive knows.
_SMALL = 50
_WORDS = [b"a", b"b", b"c", b"shoes", b"hats", b"books", b"1", b"2", b"3", b"4"]

Values = Callable[[RequestColumn, int], Array]


@dataclass(frozen=True)
class Generator:
    """Makes requests for these columns."""

    columns: tuple[RequestColumn, ...]
    #: Lengths of lists in requests whose lists are all of one length, since some models take no
    #: others.
    lengths: tuple[int, ...]
    seed: int

    def make_requests(self, batches: Sequence[int]) -> tuple[TensorRequest, ...]:
        """Ordinary requests of these sizes, then edge ones."""
        return (*self._make_ordinary(batches), *self._list_edges())

    def make_likely(self, rows: int) -> TensorRequest:
        """An ordinary request that any model takes: its lists are of one length that fits."""
        return tuple(self._make_ordinary([rows]))[-1]

    @property
    def _ragged(self) -> tuple[RequestColumn, ...]:
        return tuple(column for column in self.columns if column.ragged)

    def _draw(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _make_ordinary(self, batches: Sequence[int]) -> Iterator[TensorRequest]:
        for rows in batches:
            title = f"{rows} rows" if rows != 1 else "1 row"
            values = self._choose_usual(self._draw(rows))
            if not self._ragged:
                yield self._make_request(title, values, rows)
                continue
            lengths = self._draw(rows, 1).integers(1, _LIST_LENGTH + 1, rows)
            yield self._make_request(
                f"{title}, lists of 1 to {_LIST_LENGTH}", values, rows, lengths
            )
            for length in self.lengths:
                equal = np.full(rows, length)
                yield self._make_request(f"{title}, lists of {length}", values, rows, equal)

    def _list_edges(self) -> Iterator[TensorRequest]:
        usual = self._choose_usual(self._draw(0))
        yield self._make_edge("0, 1, -1, smallest and largest numbers", _find_extremes)
        ids = [
            label
            for label, there in (
                ("huge ids", any(column.is_integer for column in self.columns)),
                ("new strings", any(column.is_string for column in self.columns)),
            )
            if there
        ]
        if ids:
            yield self._make_edge(f"unseen categories: {', '.join(ids)}", self._make_unseen)
        if any(column.is_float for column in self.columns):
            yield self._make_edge("NaN and infinities", self._make_floats(np.nan, np.inf, -np.inf))
            yield self._make_edge("denormal numbers and -0", self._make_denormal)
        if any(column.is_string for column in self.columns):
            texts = [b"", b"x" * 10_000, b" ", b"a b\tc\n", b"0"]
            yield self._make_edge("empty and long strings", self._make_texts(texts))
            texts = [text.encode() for text in ("Zürich", "日本語", "🙂", "ñ", "é")]
            yield self._make_edge("non-ASCII strings", self._make_texts(texts))
        yield from self._make_edge_lists(usual)
        if not any(column.rows for column in self.columns):
            yield self._make_request("no rows", usual, 0, np.zeros(0, int), ordinary=False)

    def _make_edge_lists(self, usual: Values) -> Iterator[TensorRequest]:
        if not self._ragged:
            return
        for title, lengths in (
            ("some lists empty", [2, 0, 3, 0, 0]),
            ("all lists empty", [0] * _ROWS),
            (f"lists of {_LONG_LIST}", [_LONG_LIST] * _ROWS),
        ):
            yield self._make_request(title, usual, _ROWS, np.array(lengths), ordinary=False)
        if len(self._ragged) > 1:
            random = self._draw(1, 2)
            differing = {
                column.name: random.integers(0, _LIST_LENGTH + 1, _ROWS) for column in self._ragged
            }
            title = "list columns of differing lengths"
            yield self._make_request(title, usual, _ROWS, differing, ordinary=False)

    def _make_edge(self, title: str, values: Values) -> TensorRequest:
        """Lists of the length that is most likely taken, so that the values are what is judged."""
        return self._make_request(
            title, values, _ROWS, np.full(_ROWS, self.lengths[0]), ordinary=False
        )

    def _make_request(
        self,
        title: str,
        values: Values,
        rows: int,
        lengths: Array | dict[str, Array] | None = None,
        *,
        ordinary: bool = True,
    ) -> TensorRequest:
        tensors: dict[str, Tensor] = {}
        for column in self.columns:
            of_column = lengths.get(column.name) if isinstance(lengths, dict) else lengths
            tensors.update(_make_tensors(column, values, rows, of_column))
        return TensorRequest(title, tensors, ordinary, rows)

    # -- what a column's values are

    def _choose_usual(self, random: np.random.Generator) -> Values:
        def values(column: RequestColumn, count: int) -> Array:
            if column.known is not None and len(column.known):
                return column.known[random.integers(0, len(column.known), count)]
            if column.is_string:
                return encode_strings(
                    [_WORDS[word] for word in random.integers(0, len(_WORDS), count)]
                )
            if column.is_float:
                return random.uniform(0, 100, count).astype(NUMPY_TYPES[column.data_type])
            high = 2 if column.data_type == "BOOL" else _SMALL
            return random.integers(0, high, count).astype(NUMPY_TYPES[column.data_type])

        return values

    def _make_unseen(self, column: RequestColumn, count: int) -> Array:
        random = self._draw(3)
        if column.is_integer:
            kind = np.dtype(NUMPY_TYPES[column.data_type])
            high = np.iinfo(kind).max
            return random.integers(high // 2, high, count, dtype=kind, endpoint=True)
        if column.is_string:
            numbers = random.integers(0, 10**9, count)
            return encode_strings([b"never seen %d" % number for number in numbers])
        return self._choose_usual(random)(column, count)

    def _make_floats(self, *special: float) -> Values:
        def values(column: RequestColumn, count: int) -> Array:
            usual = self._choose_usual(self._draw(4))(column, count)
            if column.is_float:
                usual = _cycle([*special, 1.5], count, NUMPY_TYPES[column.data_type])
            return usual

        return values

    def _make_denormal(self, column: RequestColumn, count: int) -> Array:
        if not column.is_float:
            return self._choose_usual(self._draw(5))(column, count)
        limits = np.finfo(NUMPY_TYPES[column.data_type])
        small = [limits.smallest_subnormal, -limits.smallest_subnormal, limits.tiny / 2, -0.0]
        return _cycle(small, count, NUMPY_TYPES[column.data_type])

    def _make_texts(self, texts: list[bytes]) -> Values:
        def values(column: RequestColumn, count: int) -> Array:
            if column.is_string:
                return encode_strings([texts[number % len(texts)] for number in range(count)])
            return self._choose_usual(self._draw(6))(column, count)

        return values


def make_generator(
    columns: Iterable[RequestColumn],
    configs: Iterable[ModelConfig],
    categories: Categories,
    seed: int = 0,
) -> Generator:
    """A generator for these columns, with known categories, and lists that the configs take."""
    known = tuple(
        replace(column, known=find_known_values(column, categories)) for column in columns
    )
    return Generator(known, list_lengths(configs), seed)


def _find_extremes(column: RequestColumn, count: int) -> Array:
    if column.is_string:
        return encode_strings([b"0", b"1", b"-1", b"nan", b"None"] * (count // 5 + 1))[:count]
    kind = np.dtype(NUMPY_TYPES[column.data_type])
    if kind.kind == "b":
        return _cycle([False, True], count, kind.name)
    limits = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    least = [limits.min] if kind.kind == "u" else [-1, limits.min]
    return _cycle([0, 1, *least, limits.max], count, kind.name)


def _cycle(values: Sequence[float], count: int, kind: str) -> Array:
    return np.array([values[number % len(values)] for number in range(count)], dtype=kind)


def _make_tensors(
    column: RequestColumn, values: Values, rows: int, lengths: Array | None
) -> Iterator[tuple[str, Tensor]]:
    if column.ragged:
        assert lengths is not None, "list columns have lengths"
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        kind = NUMPY_TYPES[column.offsets_type]
        names = list_ragged_tensors(column.name)
        yield names[0], Tensor(column.data_type, values(column, int(offsets[-1])))
        yield names[1], Tensor(column.offsets_type, offsets.astype(kind))
        return
    shape = (rows if column.rows is None else column.rows, *column.sizes)
    flat = values(column, int(np.prod(shape)))
    yield column.name, Tensor(column.data_type, flat.reshape(shape))
