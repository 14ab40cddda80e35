"""A parquet file's columns as arrays, as pandas reads them.

Without pyarrow.compute, which takes longer to import than most files to read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import TableUnusable

#: A text of a vocabulary is a name; longer ones make every lookup wide.
MAX_TEXT_BYTES = 4096
#: All texts of a column, each filled up to the longest.
_LARGEST_TEXTS = 2**30
#: What stands for a text that no request can bear: it is no UTF-8, as texts of requests, of
#: functions and of files are.
UNREACHABLE = b"\xff"


def array_of(column: Any, name: str, file: str) -> Any:
    """A column of pyarrow's: texts as bytes (`S`), nulls of numbers as NaN.

    file: its name, for TableUnusable, which is raised for what is neither.
    """
    import pyarrow

    kind = column.type
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return _texts(column, name, file)
    is_number = pyarrow.types.is_integer(kind) or (
        pyarrow.types.is_floating(kind) and kind.bit_width >= 32
    )
    if is_number or (pyarrow.types.is_boolean(kind) and not column.null_count):
        return column.to_numpy()
    raise TableUnusable(f"the category file {file} has {kind} in {name!r}")


def _texts(column: Any, name: str, file: str) -> Any:
    import pyarrow

    large = pyarrow.types.is_large_string(column.type)
    binary = pyarrow.large_binary() if large else pyarrow.binary()
    plain = np.concatenate(
        [np.empty(0, object)]
        + [chunk.view(binary).to_numpy(zero_copy_only=False) for chunk in column.chunks]
    )
    longest = max((len(text) for text in plain if text is not None), default=0)
    if longest > MAX_TEXT_BYTES:
        raise TableUnusable(
            f"the category file {file} has a text of {longest} bytes in {name!r}; "
            f"up to {MAX_TEXT_BYTES} are compiled"
        )
    if longest * len(plain) > _LARGEST_TEXTS:
        raise TableUnusable(
            f"the category file {file} has {len(plain)} texts of up to {longest} bytes in "
            f"{name!r}; up to {_LARGEST_TEXTS} bytes are compiled"
        )
    gone = np.array([text is None or text.endswith(b"\0") for text in plain], dtype=bool)
    plain[gone] = UNREACHABLE
    return plain.astype("S")
