"""The inputs that an executor declares: requests are made for them, or have to fit. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ensemble_tools.answers.exchange import TensorRequest
from ensemble_tools.answers.tensors import NUMPY_TYPES, STRINGS, Array, encode_strings
from ensemble_tools.archive.model_config import ModelConfig, TensorSpec
from ensemble_tools.archive.tensor_names import list_ragged_tensors
from verification.errors import RequestsUnfit

#: Column -> some of its categories.
Categories = Mapping[str, list[int | str]]

#: Longer lists than these in a declared shape are matrices of features rather than a list column.
_LONGEST_LIST = 1000
_MOST_LENGTHS = 3
_USUAL_LENGTH = 4
#: A size that is declared open, apart from that of the rows.
_OPEN_SIZE = 4


@dataclass(frozen=True)
class RequestColumn:
    """One column of a request."""

    name: str
    data_type: str
    #: The shape of one row's value: () for a scalar, (4,) for a fixed list.
    sizes: tuple[int, ...] = ()
    #: A ragged column has two tensors, values and offsets, with rows of any length.
    ragged: bool = False
    offsets_type: str = "INT32"
    #: Fixed by the config, else None.
    rows: int | None = None
    #: Values that the archive knows, such as a column's categories; None when unknown.
    known: Array | None = field(default=None, compare=False)

    @property
    def is_float(self) -> bool:
        """Whether it can hold NaN."""
        return self.data_type.startswith("FP")

    @property
    def is_integer(self) -> bool:
        """Whether it can hold an id."""
        return "INT" in self.data_type

    @property
    def is_string(self) -> bool:
        """Whether it holds texts."""
        return self.data_type == STRINGS


def read_input_columns(config: ModelConfig) -> tuple[RequestColumn, ...]:
    """The columns of a request, in order; a pair of tensors x__values and x__offsets is one."""
    columns: dict[str, RequestColumn] = {}
    for name, spec in config.inputs.items():
        data_type = to_v2_type(spec.data_type)
        dims = config.make_full_dims(spec)
        column = _make_ragged_column(name, config)
        if column is None:
            columns[name] = RequestColumn(
                name,
                data_type,
                sizes=tuple(size if size > 0 else _OPEN_SIZE for size in dims[1:]),
                rows=dims[0] if dims and dims[0] > 0 else None,
            )
        elif column not in columns:
            values, offsets = (config.inputs[part] for part in list_ragged_tensors(column))
            columns[column] = RequestColumn(
                column,
                to_v2_type(values.data_type),
                ragged=True,
                offsets_type=to_v2_type(offsets.data_type),
            )
    return tuple(columns.values())


def list_lengths(configs: Iterable[ModelConfig]) -> tuple[int, ...]:
    """Lengths that lists must have somewhere in the archive: fixed second sizes of inputs."""
    lengths = {
        config.make_full_dims(spec)[1]
        for config in configs
        for spec in config.inputs.values()
        if len(config.make_full_dims(spec)) == 2
        and 1 <= config.make_full_dims(spec)[1] <= _LONGEST_LIST
    }
    return tuple(sorted(lengths)[:_MOST_LENGTHS]) or (_USUAL_LENGTH,)


def count_values(column: RequestColumn, rows: int, length: int) -> int:
    """The values of a request with so many rows, with lists of that length."""
    if column.ragged:
        return rows * (length + 1)
    return (rows if column.rows is None else column.rows) * math.prod(column.sizes)


def find_unsupported(columns: Iterable[RequestColumn]) -> tuple[str, ...]:
    """Columns of data types for which nothing can be generated."""
    return tuple(column.name for column in columns if column.data_type not in NUMPY_TYPES)


def to_v2_type(config_type: str) -> str:
    """TYPE_INT64 -> INT64; only strings have another name in the protocol."""
    return STRINGS if config_type == "TYPE_STRING" else config_type.removeprefix("TYPE_")


def describe_input(config: ModelConfig, spec: TensorSpec) -> str:
    """Its data type and shape, as in INT64 [-1]."""
    dims = ", ".join(map(str, config.make_full_dims(spec)))
    return f"{to_v2_type(spec.data_type)} [{dims}]"


def find_fitting(
    requests: Sequence[TensorRequest], config: ModelConfig | None, path: Path, who: str, advice: str
) -> tuple[TensorRequest, ...]:
    """Those that have the declared inputs, and no others; raises RequestsUnfit where none has.

    path: of the requests. All fit where nothing is declared.
    """
    if config is None or not config.inputs:
        return tuple(requests)
    problems = [_find_problem(request, config) for request in requests]
    if all(problems):
        raise RequestsUnfit(path, requests[0].title, problems[0], who, advice)
    return tuple(it for it, problem in zip(requests, problems, strict=True) if not problem)


def _find_problem(request: TensorRequest, config: ModelConfig) -> str:
    """What is wrong with a request's inputs; empty where nothing is."""
    needed = [spec for spec in config.inputs.values() if not spec.optional]
    lacking = [spec for spec in needed if spec.name not in request.tensors]
    if lacking:
        return f"lacks {', '.join(f'{it.name} ({describe_input(config, it)})' for it in lacking)}"
    unknown = [name for name in request.tensors if name not in config.inputs]
    return f"has {', '.join(unknown)}, which it does not declare" if unknown else ""


def find_known_values(column: RequestColumn, categories: Categories) -> Array | None:
    """The column's categories as an array of its type; None where none of them fits.

    merlin-systems reads texts in ASCII alone.
    """
    known = categories.get(column.name, [])
    if column.is_string:
        texts = [text.encode() for text in known if isinstance(text, str) and text.isascii()]
        return encode_strings(texts) if texts else None
    if not column.is_integer:
        return None
    limits = np.iinfo(NUMPY_TYPES[column.data_type])
    fitting = [v for v in known if isinstance(v, int) and limits.min <= v <= limits.max]
    return np.array(fitting, dtype=NUMPY_TYPES[column.data_type]) if fitting else None


def _make_ragged_column(tensor: str, config: ModelConfig) -> str | None:
    for suffix in list_ragged_tensors(""):
        column = tensor.removesuffix(suffix)
        if column != tensor and all(part in config.inputs for part in list_ragged_tensors(column)):
            return column
    return None
