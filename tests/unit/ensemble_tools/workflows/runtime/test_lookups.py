"""Tables of keys: what is found in them, and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.runtime.lookups import Lookup, hashes_of, read_lookup, words_of
from ensemble_tools.workflows.tables import write_tables


def table(
    directory: Path, kinds: Sequence[str], hash_words: Any = hashes_of, **columns: Any
) -> Lookup:
    """A table whose rows are labelled 0, 1, 2 and so on in the order of the file.

    hash_words: what its texts are looked up by.
    """
    data = {name: pyarrow.array(values) for name, values in columns.items()}
    rows = len(next(iter(columns.values())))
    path = directory / "keys.parquet"
    pyarrow.parquet.write_table(pyarrow.table({**data, "row": np.arange(rows)}), path)
    written = directory / "tables"
    written.mkdir()
    wanted = Table(path, tuple(columns), tuple(kinds), beside=("row",))
    (row,) = write_tables([wanted], written)
    return read_lookup(written, row, hash_words)


def rows(lookup: Lookup, *columns: Any) -> list[int | None]:
    """For each value the row of the file in which it is, or None."""
    found, places = lookup.find([np.asarray(column) for column in columns])
    numbers = lookup.beside("row", places)
    return [
        int(number) if hit else None for hit, number in zip(found, numbers.tolist(), strict=True)
    ]


def test_dense_integers(tmp_path: Path) -> None:
    """Ids without gaps, in any order, below and above zero."""
    lookup = table(tmp_path, ["int"], a=np.array([3, -1, 0, 2, 1]))
    assert rows(lookup, np.array([-2, -1, 0, 1, 2, 3, 4])) == [None, 1, 2, 4, 3, 0, None]


def test_sparse_integers(tmp_path: Path) -> None:
    """Ids with gaps, the extremes of their type among them."""
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    lookup = table(tmp_path, ["int"], a=np.array([high, 7, low, -3]))
    assert rows(lookup, np.array([low, low + 1, -3, 0, 7, high])) == [2, None, 3, None, 1, 0]


def test_unsigned_integers(tmp_path: Path) -> None:
    """uint64 above int64, as its own type."""
    lookup = table(tmp_path, ["int"], a=np.array([2**64 - 1, 2**63, 0], np.uint64))
    asked = np.array([0, 2**63, 2**63 - 1, 2**64 - 1], np.uint64)
    assert rows(lookup, asked) == [2, 1, None, 0]


def test_a_run_that_ends_at_the_types_end(tmp_path: Path) -> None:
    """Subtraction neither overflows nor wraps around."""
    high = np.iinfo(np.int64).max
    lookup = table(tmp_path, ["int"], a=np.array([high - 1, high]))
    low = np.iinfo(np.int64).min
    assert rows(lookup, np.array([high - 2, high - 1, high, low])) == [None, 0, 1, None]


def test_values_are_cast_to_the_tables_type(tmp_path: Path) -> None:
    """As NVTabular casts a request to its table's type: int32 wraps."""
    lookup = table(tmp_path, ["int"], a=np.array([1, 5, 9], np.int32))
    assert rows(lookup, np.array([1, 2**32 + 5, 2**32 + 6], np.int64)) == [0, 1, None]


def test_integers_in_a_table_of_floats(tmp_path: Path) -> None:
    """A column of whole numbers that had a null when the workflow was fitted."""
    lookup = table(tmp_path, ["int"], a=np.array([1.0, 2.5, 7.0]))
    assert rows(lookup, np.array([1, 2, 7])) == [0, None, 2]


def test_floats(tmp_path: Path) -> None:
    """-0.0 is 0.0; NaN is found where the table has it."""
    lookup = table(tmp_path, ["float"], a=np.array([0.0, np.nan, 1.5, -np.inf]))
    asked = np.array([-0.0, 1.5, np.nan, -np.inf, np.inf, 1.4999])
    assert rows(lookup, asked) == [0, 2, 1, 3, None, None]


def test_nan_is_not_found_where_the_table_has_none(tmp_path: Path) -> None:
    lookup = table(tmp_path, ["float"], a=np.array([0.5, 1.5]))
    assert rows(lookup, np.array([np.nan, 1.5])) == [None, 1]


def test_texts(tmp_path: Path) -> None:
    """Of every length around the width of a word; the empty one; zeros inside."""
    words = ["", "a", "1234567", "12345678", "123456789", "x" * 300, "a\0b", "é"]
    lookup = table(tmp_path, ["text"], a=words)
    asked = np.array([word.encode() for word in words] + [b"b", b"a\0c", b"x" * 299, b"1" * 9])
    assert rows(lookup, asked) == [*range(8), None, None, None, None]


def test_zeros_at_the_end_are_no_difference(tmp_path: Path) -> None:
    """numpy drops them, in NVTabular's requests and in ours; no request bears such a category."""
    lookup = table(tmp_path, ["text"], a=["beer", "ale\0"])
    assert rows(lookup, np.array([b"beer\0", b"beer", b"ale", b"ale\0"])) == [0, 0, None, None]


def test_short_requests_in_a_table_of_long_texts(tmp_path: Path) -> None:
    """A text that begins like the asked one is another."""
    lookup = table(tmp_path, ["text"], a=["abcdefgh" * 4, "abcdefgh"])
    assert rows(lookup, np.array([b"abcdefgh"])) == [1]
    assert rows(lookup, np.array([b"abcdefgh" * 3])) == [None]


def test_texts_of_one_hash_are_told_apart(tmp_path: Path) -> None:
    """The hash only says where to look."""
    (hash_of_beer,) = hashes_of(words_of(np.array([b"beer"])))
    lookup = table(
        tmp_path,
        ["text"],
        lambda words: np.full(len(words), hash_of_beer, np.uint64),
        a=["beer", "12345678abc"],
    )
    asked = np.array([b"ale", b"beer", b"beers", b"bee", b"", b"beer" * 10])
    assert rows(lookup, asked) == [None, 0, None, None, None, None]


def test_hashes_do_not_depend_on_the_others() -> None:
    """The longest text of a request decides how many words all of them have."""
    alone = hashes_of(words_of(np.array([b"beer"])))
    beside = hashes_of(words_of(np.array([b"beer", b"x" * 100])))
    assert alone[0] == beside[0]


@pytest.mark.parametrize(
    ("family", "values", "asked"),
    [
        ("int", np.zeros(0, np.int64), np.array([0, 1])),
        ("float", np.zeros(0), np.array([0.0, np.nan])),
        ("text", pyarrow.array([], pyarrow.string()), np.array([b"", b"a"])),
    ],
)
def test_empty_tables(tmp_path: Path, family: str, values: Any, asked: Any) -> None:
    """freq_threshold can leave no category at all."""
    assert rows(table(tmp_path, [family], a=values), asked) == [None, None]


def test_combined_keys(tmp_path: Path) -> None:
    """All columns must be those of one row."""
    lookup = table(
        tmp_path,
        ["int", "text", "float"],
        a=np.array([1, 1, 2, 2]),
        b=["x", "y", "x", "x"],
        c=np.array([0.5, 0.5, 0.5, np.nan]),
    )
    asked = (
        np.array([1, 1, 2, 2, 2, 3]),
        np.array([b"x", b"y", b"x", b"x", b"y", b"x"]),
        np.array([0.5, 0.5, 0.5, np.nan, 0.5, 0.5]),
    )
    assert rows(lookup, *asked) == [0, 1, 2, 3, None, None]


def test_combined_keys_of_an_empty_table(tmp_path: Path) -> None:
    lookup = table(tmp_path, ["int", "int"], a=np.zeros(0, np.int64), b=np.zeros(0, np.int64))
    assert rows(lookup, np.array([0]), np.array([0])) == [None]


def test_many_random_keys(tmp_path: Path) -> None:
    """Against a dict."""
    chance = np.random.default_rng(5)
    texts = sorted({f"{number:x}" * (number % 4) for number in chance.integers(0, 9999, 3000)})
    numbers = chance.integers(-5, 5, len(texts))
    lookup = table(tmp_path, ["text", "int"], a=texts, b=numbers)
    known = {
        (text.encode(), int(number)): row
        for row, (text, number) in enumerate(zip(texts, numbers, strict=True))
    }
    asked = [texts[place].encode() for place in chance.integers(0, len(texts), 5000)]
    beside = chance.integers(-5, 5, 5000)
    wanted = [known.get((text, int(n))) for text, n in zip(asked, beside, strict=True)]
    assert rows(lookup, np.array(asked), beside) == wanted
