"""Measures what a parquet file comes to when it is read, before it is.

Its footer has the sizes of columns as they are encoded: a long text that stands in a dictionary
counts once, however many rows have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

#: What is read at once of texts that are in no dictionary: bytes, and rows.
_READ_AT_ONCE, _ROWS_AT_ONCE = 2**28, 256
#: Opens the file again, with options of pyarrow.parquet.ParquetFile's.
Reopen = Callable[..., Any]


def count_rows(metadata: Any) -> int:
    """Rows, or the values of the longest column: a row may hold a list of many."""
    values: dict[str, int] = {}
    for _, _, chunk in _chunks(metadata):
        values[chunk.path_in_schema] = values.get(chunk.path_in_schema, 0) + chunk.num_values
    return max([metadata.num_rows, *values.values()])


def size_when_read(metadata: Any, most: int, reopen: Reopen) -> int:
    """Bytes of all columns, decompressed and out of their dictionaries; eight at least for a value.

    Texts are read, in their dictionaries, until they come to more than `most`: the sizes in the
    footer may be untrue, and nothing else says how long they are.
    """
    taken, texts = 0, []
    for group, column, chunk in _chunks(metadata):
        taken += max(chunk.total_uncompressed_size, 8 * chunk.num_values)
        if chunk.physical_type == "BYTE_ARRAY":
            texts.append((group, chunk))
        else:
            taken += max(0, metadata.schema.column(column).length) * chunk.num_values
    for group, chunk in texts:
        if taken > most:
            break
        is_nested = chunk.num_values > metadata.row_group(group).num_rows
        if is_nested:
            taken += _bound(chunk)
        else:
            taken += _text_bytes(reopen, group, chunk, most)
    return taken


def _chunks(metadata: Any) -> Iterator[tuple[int, int, Any]]:
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for column in range(metadata.num_columns):
            yield group, column, row_group.column(column)


def _bound(chunk: Any) -> int:
    """No text is longer than all that is encoded."""
    return int(chunk.num_values * chunk.total_uncompressed_size)


def _text_bytes(reopen: Reopen, group: int, chunk: Any, most: int) -> int:
    """Of a part of a column; what cannot be left in a dictionary is read a few rows at a time."""
    import pyarrow

    name = chunk.path_in_schema
    try:
        with reopen(read_dictionary=[name]) as opened:
            data = opened.read_row_group(group, columns=[name]).column(name)
        return sum(_expanded(part) for part in data.chunks)
    except MemoryError:
        raise
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, AttributeError):
        pass
    at_once = _READ_AT_ONCE // max(1, chunk.total_uncompressed_size)
    at_once = max(1, min(_ROWS_AT_ONCE, at_once))
    taken = 0
    try:
        with reopen() as opened:
            for batch in opened.iter_batches(at_once, row_groups=[group], columns=[name]):
                taken += batch.nbytes
                if taken > most:
                    break
    except MemoryError:
        raise
    except (pyarrow.ArrowException, OSError, KeyError, TypeError, AttributeError):
        return 0  # who reads it finds that out
    return taken


def _expanded(part: Any) -> int:
    """Bytes of the texts of pyarrow's DictionaryArray."""
    texts = part.dictionary
    wide = str(texts.type).startswith("large_")
    _, starts, _ = texts.buffers()
    lengths = np.diff(
        np.frombuffer(starts, np.int64 if wide else np.int32)[
            texts.offset : texts.offset + len(texts) + 1
        ]
    )
    indices = part.indices.to_numpy(zero_copy_only=False)
    indices = indices[~np.isnan(indices)].astype(np.int64) if indices.dtype.kind == "f" else indices
    return int(lengths[indices].sum(dtype=np.int64))
