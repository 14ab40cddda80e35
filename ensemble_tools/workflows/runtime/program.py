"""A compiled workflow: what is read, what is done in which order, what is answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .columns import Column, RequestError
from .lookups import read_lookup
from .operations import OPERATIONS

#: A node's number, the request's columns that it needs, and the request -> what the node puts out.
Original = Callable[[int, "list[str]", "dict[str, Any]"], "dict[str, Any]"]
#: The files beside the tables.
PROGRAM_FILE = "program.json"


class Program:
    """One workflow, ready to answer requests; it keeps nothing of them."""

    def __init__(self, directory: Path, original: Original | None = None) -> None:
        """Raises OSError or ValueError when a file is missing or cut off.

        original: what runs the nodes that are not compiled; needed where there are some.
        """
        written = json.loads((directory / PROGRAM_FILE).read_text(encoding="utf-8"))
        self._inputs = written["inputs"]
        self._outputs = written["outputs"]
        tables = [read_lookup(directory, table) for table in written["tables"]]
        self._steps = []
        for step in written["steps"]:
            given = step["given"]
            made = (
                kept(given, original)
                if step["operation"] == "kept"
                else OPERATIONS[step["operation"]](given, tables)
            )
            self._steps.append((made, step["operation"] == "kept", step["reads"], step["writes"]))
        self._registers = written["registers"]

    @property
    def columns(self) -> dict[str, list[str]]:
        """The request's columns and the tensors of each."""
        return {column["name"]: column["tensors"] for column in self._inputs}

    @property
    def tensors(self) -> list[str]:
        """The names of the tensors that a request has."""
        return [name for column in self._inputs for name in column["tensors"]]

    def run(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """Tensors of a request -> those of the answer; raises RequestError.

        Numbers come as arrays of the declared types, strings as arrays of bytes objects.
        """
        columns: list[Any] = [None] * self._registers
        with np.errstate(all="ignore"):
            for number, column in enumerate(self._inputs):
                columns[number] = _read(column, tensors)
            self._check_rows(columns)
            for operation, is_kept, reads, writes in self._steps:
                if is_kept:
                    made = operation(tensors, columns[0].rows)
                else:
                    made = operation(*[columns[number] for number in reads])
                for number, column in zip(writes, made, strict=True):
                    columns[number] = column
            answer: dict[str, Any] = {}
            for output in self._outputs:
                _write(output, columns[output["reads"]], answer)
        return answer

    def _check_rows(self, columns: list[Any]) -> None:
        rows = columns[0].rows
        for number, column in enumerate(self._inputs):
            if columns[number].rows != rows:
                raise RequestError(
                    f"column {column['name']!r} has {columns[number].rows} rows, and column "
                    f"{self._inputs[0]['name']!r} has {rows}; a request's columns are of one length"
                )
        if not rows:
            raise RequestError("the request has no rows; NVTabular's operators need one at least")


def kept(given: dict[str, Any], original: Original | None) -> Callable[..., list[Column]]:
    """The step of a node that NVTabular runs; its columns must be what the schema says of them."""
    if original is None:
        raise ValueError("the program keeps operators of NVTabular, and was not given it")

    def operation(tensors: dict[str, Any], rows: int) -> list[Column]:
        made = original(given["node"], given["inputs"], tensors)
        return [
            Column(_foreseen(name, family, made.get(name), rows))
            for name, family in zip(given["columns"], given["families"], strict=True)
        ]

    return operation


def _foreseen(name: str, family: str, values: Any, rows: int) -> Any:
    kinds = {"int": "iu", "float": "f", "bool": "b", "text": "O"}[family]
    if values is None or values.shape != (rows,) or values.dtype.kind not in kinds:
        raise RequestError(f"column {name!r}: NVTabular made something else of it than {family}")
    if family != "text":
        return values
    if not all(_is_plain(text) for text in values):
        raise RequestError(f"column {name!r}: not all of it is text in ASCII without zeros")
    return np.array([text.encode() for text in values], dtype="S")


def _is_plain(text: Any) -> bool:
    return isinstance(text, str) and text.isascii() and "\0" not in text


def _read(column: dict[str, Any], tensors: dict[str, Any]) -> Column:
    name = column["name"]
    absent = [tensor for tensor in column["tensors"] if tensor not in tensors]
    if absent:
        raise RequestError(f"column {name!r}: the request has no tensor {absent[0]!r}")
    arrays = [tensors[tensor] for tensor in column["tensors"]]
    # A matrix is read for its first column, as merlin-systems does (_convert_tensor).
    arrays = [array[:, 0] if array.ndim == 2 else array for array in arrays]
    values = _texts(name, arrays[0]) if column["text"] else arrays[0]
    if len(arrays) == 1:
        return Column(values)
    offsets = arrays[1].astype(np.int64)
    lengths = np.diff(offsets)
    if not len(offsets) or offsets[-1] != len(values):
        raise RequestError(
            f"column {name!r}: the last offset is {offsets[-1] if len(offsets) else 'missing'}, "
            f"and there are {len(values)} values; they must be the same"
        )
    if offsets[0] < 0:
        raise RequestError(f"column {name!r}: the first offset is {offsets[0]}, which is negative")
    if (lengths < 0).any():
        place = int(np.argmax(lengths < 0))
        raise RequestError(
            f"column {name!r}: the offset {offsets[place + 1]} comes after {offsets[place]}; "
            "offsets may not become smaller"
        )
    # The lists begin with the first value, whatever the first offset is (build_pandas_list_column).
    offsets = offsets - offsets[0]
    return Column(values[: offsets[-1]], offsets)


def _texts(name: str, values: Any) -> Any:
    texts = values.astype("S")
    if texts.size and (texts.view(np.uint8) > 127).any():
        raise RequestError(
            f"column {name!r}: a string is not ASCII, which is all that merlin-systems reads"
        )
    return texts


def _write(output: dict[str, Any], column: Column, answer: dict[str, Any]) -> None:
    name, dtype = output["name"], output["dtype"]
    if column.offsets is None:
        answer[name] = _typed(name, column.values, dtype)
        return
    values = _typed(name, column.values, dtype)
    if output["ragged"]:
        answer[f"{name}__values"] = values
        answer[f"{name}__offsets"] = column.offsets.astype(np.int32)
        return
    lengths = np.diff(column.offsets)
    if (lengths != lengths[0]).any():
        raise RequestError(
            f"column {name!r}: its lists have {lengths.min()} to {lengths.max()} items; the "
            "workflow's schema says that all are of one length"
        )
    try:
        answer[name] = values.reshape([-1, *output["shape"]])
    except ValueError as error:
        raise RequestError(
            f"column {name!r}: its lists have {lengths[0]} items; the workflow's schema says "
            f"{output['shape'][0]}"
        ) from error


def _typed(name: str, values: Any, dtype: str) -> Any:
    if values.dtype.kind == "S":
        return values.astype(object)
    return values.astype(dtype, copy=False) if dtype else values
