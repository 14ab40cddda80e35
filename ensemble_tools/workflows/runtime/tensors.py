"""A program's ends: tensors of a request that become columns, columns that become an answer's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import Column, RequestError, offsets_of
from .records import Record


@dataclass(frozen=True)
class InputColumn(Record):
    """A column of the request."""

    name: str
    #: The column's own for one value a row; the values and the offsets for lists.
    tensors: tuple[str, ...]
    #: Whether the values are strings.
    text: bool

    def read(self, tensors: dict[str, Any]) -> Column:
        """The column of a request; raises RequestError."""
        absent = [tensor for tensor in self.tensors if tensor not in tensors]
        if absent:
            raise RequestError(f"column {self.name!r}: the request has no tensor {absent[0]!r}")
        arrays = [tensors[tensor] for tensor in self.tensors]
        # A matrix is read for its first column, as merlin-systems does (_convert_tensor).
        arrays = [array[:, 0] if array.ndim == 2 else array for array in arrays]
        values = self._texts(arrays[0]) if self.text else arrays[0]
        return Column(values) if len(arrays) == 1 else self._lists(values, arrays[1])

    def _texts(self, values: Any) -> Any:
        texts = values.astype("S")
        if texts.size and (texts.view(np.uint8) > 127).any():
            raise RequestError(
                f"column {self.name!r}: a string is not ASCII, which is all that merlin-systems "
                "reads"
            )
        return texts

    def _lists(self, values: Any, offsets: Any) -> Column:
        if not len(offsets) or offsets[-1] != len(values):
            raise RequestError(
                f"column {self.name!r}: the last offset is "
                f"{offsets[-1] if len(offsets) else 'missing'}, and there are {len(values)} "
                "values; they must be the same"
            )
        lengths = np.diff(offsets)  # in their own type, in which the difference may overflow
        if (lengths < 0).any():
            row = int(np.argmax(lengths < 0))
            raise RequestError(
                f"column {self.name!r}: the offset {offsets[row + 1]} comes after "
                f"{offsets[row]}; offsets may not become smaller"
            )
        # The lists begin with the first value, whatever the first offset is, and end with the last
        # one (build_pandas_list_column).
        offsets = np.minimum(offsets_of(np.minimum(lengths, len(values))), len(values))
        return Column(values[: offsets[-1]], offsets)


@dataclass(frozen=True)
class OutputColumn(Record):
    """A column of the answer."""

    name: str
    tensors: tuple[str, ...]
    #: The register that holds it.
    reads: int
    #: Whether its lists are answered as values and offsets.
    ragged: bool
    #: The type that it is cast to, empty for texts.
    dtype: str
    #: The shape of a row whose lists are of one length.
    shape: tuple[int | None, ...]

    def write(self, column: Column) -> dict[str, Any]:
        """The tensors of the answer; raises RequestError."""
        values = column.values
        if self.dtype:
            values = values.astype(self.dtype, copy=False)
        else:  # texts; where all are missing they may be floats
            values = values.astype("S", copy=False).astype(object)
        if column.offsets is None:
            return {self.name: values}
        if self.ragged:
            offsets = column.offsets.astype(np.int32)
            return {f"{self.name}__values": values, f"{self.name}__offsets": offsets}
        return {self.name: self._rows(values, np.diff(column.offsets))}

    def write_no_rows(self) -> Any:
        """The tensor of an answer without rows; raises RequestError, as NVTabular fails on lists.

        Lists of one length have one dimension then, too.
        """
        if self.ragged:
            raise RequestError(f"column {self.name!r}: it has lists, and no rows are left")
        return np.zeros(0, self.dtype or object)

    def _rows(self, values: Any, lengths: Any) -> Any:
        """Lists of one length as an array, shape (rows, *shape)."""
        if (lengths != lengths[0]).any():
            raise RequestError(
                f"column {self.name!r}: its lists have {lengths.min()} to {lengths.max()} items; "
                "the workflow's schema says that all are of one length"
            )
        try:
            return values.reshape([-1, *self.shape])
        except ValueError as error:
            raise RequestError(
                f"column {self.name!r}: its lists have {lengths[0]} items; the workflow's schema "
                f"says {self.shape[0]}"
            ) from error
