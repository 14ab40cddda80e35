"""Columns of the request and the answer, as schemas and the model's config have them. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ensemble_tools.archive.executor_graph import ExecutorGraph, SchemaColumn
from ensemble_tools.archive.model_config import TRITON_TYPES, TensorSpec
from ensemble_tools.archive.tensor_names import is_part_of_list, list_ragged_tensors
from ensemble_tools.errors import quoted
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.rules import Emitter
from ensemble_tools.workflows.runtime.kept import ANSWERED_LISTS, TakeArray
from ensemble_tools.workflows.runtime.operations.filling import NoneMissing
from ensemble_tools.workflows.runtime.tensors import InputColumn, OutputColumn

#: numpy's types of a request's columns.
_REQUESTED = {name: np.dtype(name) for name in TRITON_TYPES if name not in ("float16", "uint64")}
_LETTERS = {"b": Kind.BOOL, "i": Kind.INT, "u": Kind.INT, "f": Kind.FLOAT}
#: Triton's data types -> what they are to the compiler, and the width in bytes.
_KINDS = {
    TRITON_TYPES[name]: (_LETTERS[dtype.kind], dtype.itemsize) for name, dtype in _REQUESTED.items()
} | {"TYPE_STRING": (Kind.TEXT, 0)}
#: What a schema says of texts that are answered; Triton takes none of what it calls `str`.
_TEXTS = ("object",)
#: The types that an answer's columns are cast to.
_NUMBERS = {*_REQUESTED, "uint64"}
#: How the schema's types begin -> what such values are.
_BEGINNINGS = {
    "int": Kind.INT,
    "uint": Kind.INT,
    "float": Kind.FLOAT,
    "bool": Kind.BOOL,
    "object": Kind.TEXT,
    "datetime64[ns]": Kind.DATE,
}
#: No answer has dates; what a column of pandas' holds is not known before there is a request.
_NOT_ANSWERED = (Kind.PANDAS, Kind.DATE)


def read_inputs(
    graph: ExecutorGraph, declared: Mapping[str, TensorSpec], emitter: Emitter
) -> tuple[Frame, tuple[InputColumn, ...]]:
    """merlin-core's Graph.input_schema: the inputs of all nodes without parents."""
    columns = {
        column.name: column for node in graph.nodes if node.is_leaf for column in node.columns_in
    }
    if not columns:
        raise NotCompiled("it reads no columns")
    frame: Frame = {}
    inputs: list[InputColumn] = []
    for name, column in columns.items():
        tensors = _tensors(column)
        _check_name(name)
        values, *offsets = [_find_declared(declared, name, tensor) for tensor in tensors]
        if values.data_type not in _KINDS:
            raise NotCompiled(f"a column of {values.data_type} is not known", columns=[name])
        if offsets and offsets[0].data_type not in ("TYPE_INT32", "TYPE_INT64"):
            raise NotCompiled("its offsets are no whole numbers", columns=[name])
        kind, width = _KINDS[values.data_type]
        frame[name] = ColumnType(emitter.new_register(), kind, width, is_list=bool(offsets))
        inputs.append(InputColumn(name, tensors, text=kind is Kind.TEXT))
    return frame, tuple(inputs)


def _find_declared(declared: Mapping[str, TensorSpec], column: str, tensor: str) -> TensorSpec:
    if tensor not in declared:
        raise NotCompiled(f"the model declares no input {quoted(tensor)}", columns=[column])
    spec = declared[tensor]
    if len(spec.dims) > 2:
        raise NotCompiled("it has more than two dimensions", columns=[column])
    return spec


def answer_column(column: SchemaColumn, frame: Frame, emitter: Emitter) -> OutputColumn:
    """A column of the answer, as merlin-systems' match_representations makes it."""
    _check_name(column.name)
    if column.name not in frame:
        raise NotCompiled("the workflow does not put it out", columns=[column.name])
    column_type = frame[column.name]
    if column_type.absent:
        raise NotCompiled(column_type.absent, columns=[column.name])
    is_list = column.is_ragged or len(column.dims or ()) > 1
    if column_type.is_list != is_list:
        raise NotCompiled(
            f"its schema says {'lists' if is_list else 'one value a row'}, and it is otherwise",
            columns=[column.name],
        )
    if column_type.kind in _NOT_ANSWERED or column_type.any_rows:
        column_type = _take_answer(column, column_type, emitter)
    if column_type.is_list and column_type.with_gaps:
        column_type = _answer_lists(column, column_type, emitter)
    dtype = _answered_type(column, column_type)
    shape = (column.dims or ())[1:]
    if is_list and not column.is_ragged and None in shape:
        raise NotCompiled("the length of its lists is not known", columns=[column.name])
    return OutputColumn(
        column.name, _tensors(column), column_type.register, column.is_ragged, dtype, shape
    )


def _take_answer(column: SchemaColumn, column_type: ColumnType, emitter: Emitter) -> ColumnType:
    """Lists that a kept operator made; how they are answered does not depend on their kind."""
    kind = _schema_kind(column)
    if kind in _NOT_ANSWERED or not column_type.is_list:
        raise NotCompiled(f"it is answered as {column.dtype}", columns=[column.name])
    operation = TakeArray(column.name, kind.value, ANSWERED_LISTS)
    register = emitter.convert(operation, column_type.handed_over)
    return replace(column_type, register=register, kind=kind)


def _answer_lists(column: SchemaColumn, column_type: ColumnType, emitter: Emitter) -> ColumnType:
    """Lists of which some may be missing, for which merlin-systems mostly fails.

    Where all lists are of one length by their schema and all of a request are missing, floats
    and texts are answered as single values.
    """
    if not column.is_ragged and column_type.kind is not Kind.INT:
        raise NotCompiled("its lists are of one length, or missing", columns=[column.name])
    register = emitter.convert(NoneMissing(column.name), column_type.register)
    return replace(column_type, register=register, with_gaps=False)


def _tensors(column: SchemaColumn) -> tuple[str, ...]:
    return list_ragged_tensors(column.name) if column.is_ragged else (column.name,)


def _check_name(column: str) -> None:
    """Raise NotCompiled for a name in a request or an answer that NVTabular takes apart."""
    if is_part_of_list(column):
        raise NotCompiled(
            "merlin-core reads such a name as a part of a list column", columns=[column]
        )


def read_schema_type(column: SchemaColumn, lists: bool) -> ColumnType:
    """A column's type by a schema. lists: whether its lists are known to be Python's."""
    is_list = column.is_ragged or len(column.dims or ()) > 1
    return ColumnType(0, _schema_kind(column), is_list=is_list, python_rows=is_list and lists)


def _schema_kind(column: SchemaColumn) -> Kind:
    dtype = column.dtype or ""
    kinds = (kind for start, kind in _BEGINNINGS.items() if dtype.startswith(start))
    return next(kinds, Kind.PANDAS)


def _answered_type(column: SchemaColumn, column_type: ColumnType) -> str:
    """The type that the answer is cast to, empty for texts."""
    if column.dtype in _TEXTS or column_type.kind is Kind.TEXT:
        if column.dtype not in _TEXTS or column_type.kind is not Kind.TEXT:
            raise NotCompiled(
                f"its schema says {column.dtype}, and it is {column_type.kind.value}",
                columns=[column.name],
            )
        return ""
    if column.dtype not in _NUMBERS:
        raise NotCompiled(f"it is answered as {column.dtype}", columns=[column.name])
    return column.dtype
