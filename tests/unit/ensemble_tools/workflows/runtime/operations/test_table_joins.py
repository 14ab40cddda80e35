"""What a table has of a key."""

from __future__ import annotations

import numpy as np

from ensemble_tools.workflows.runtime.columns import Column
from ensemble_tools.workflows.runtime.lookups import Lookup, Texts, hashes_of, words_of
from ensemble_tools.workflows.runtime.operations.table_joins import Join

WORDS = words_of(np.array([b"nan"]))
TABLE = Lookup(
    [Texts(hashes_of(WORDS), np.zeros(1, int), np.ones(1, int), WORDS.reshape(-1), hashes_of)],
    None,
    {"price": Column(np.array([1.5]))},
    {},
)


def test_a_missing_key_is_in_no_table() -> None:
    """The table has the word that is answered for it."""
    join = Join(0, (("price", None),), ("city",)).prepare([TABLE])
    keys = Column(np.array([b"nan", b"nan"]), None, np.array([True, False]))
    (price,) = join(keys)
    np.testing.assert_array_equal(price.values, [np.nan, 1.5])
