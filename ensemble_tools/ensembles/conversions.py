"""A column's tensors, and those that its reader requires -> the conversion between them.

Before it calls a model, the executor brings each column into the form and data type of the
operator's schema, and of the answer's schema before it answers (merlin-systems, conversions.py).
Triton's ensembles do neither. These cases are all there are of a column between its two ends:

1. The same form at both ends, two tensors for a ragged column or one for any other:
   a. shapes that do not fit where Triton checks them: the executor fails as well;
   b. the same data type, and shapes that fit: nothing is to be done, the tensor goes there itself;
   c. the same data type, and a declared shape that nobody checks and that does not fit: passed on;
   d. another data type: cast.
2. Dense where a ragged list is required: its rows are split. A list has a row length, so a shape of
   one size that Triton checks is refused.
3. Ragged where a dense tensor is required: its rows are joined, to the length that is required; if
   that is open, the executor fails as well.

Shapes are whole ones, batch dimension included; they fit when they have one rank and no two fixed
sizes differ.

No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from ensemble_tools.archive.model_config import TRITON_TYPES, TensorSpec
from ensemble_tools.ensembles.producers import (
    ANSWER,
    FromCall,
    FromInline,
    FromRequest,
    FromStep,
)
from ensemble_tools.errors import GraphNotServable


class ConversionKind(Enum):
    """The kind of a conversion; the value completes "the generated step ... the column"."""

    CAST = "casts"
    PASS_ON = "passes on"
    DENSE = "joins the rows of"
    RAGGED = "splits the rows of"


@dataclass(frozen=True)
class EnsembleTensor:
    """A tensor, and its name where it is put out; for a generated step's, its reader's name."""

    producer: FromRequest | FromCall | FromStep
    name: str


@dataclass(frozen=True)
class Conversion:
    """One column's tensors -> the tensors that a reader requires."""

    kind: ConversionKind
    reader: str
    columns: tuple[str, ...]
    reads: tuple[EnsembleTensor, ...]
    #: The reader's tensors with their whole shapes.
    writes: tuple[TensorSpec, ...]
    #: numpy's name of the type that values are cast to, None to leave them.
    dtype: str | None
    #: The finding that makes the conversion necessary, for people.
    why: str


@dataclass(frozen=True)
class Produced:
    """The tensors of one column, as a source makes them."""

    producer: FromRequest | FromCall
    #: The tensors with their whole shapes; a ragged column's are the values, then the offsets.
    specs: tuple[TensorSpec, ...]
    #: Whether Triton holds the tensors to their declared shapes.
    checked: bool
    #: The model's name, if its config puts a batch dimension in front.
    batched: str = ""

    @property
    def tensors(self) -> tuple[EnsembleTensor, ...]:
        """The tensors, in the same order."""
        return tuple(EnsembleTensor(self.producer, spec.name) for spec in self.specs)

    @property
    def is_ragged(self) -> bool:
        """Whether it is a pair of values and offsets."""
        return len(self.specs) == 2


@dataclass(frozen=True)
class Required:
    """The tensors of one column, as a reader requires them."""

    reader: str
    #: The reader's operator, for messages.
    operator: str
    column: str
    #: The type of the operator's schema.
    dtype: str | None
    #: As in Produced.
    specs: tuple[TensorSpec, ...]
    #: As in Produced.
    batched: str = ""

    @property
    def is_ragged(self) -> bool:
        """Whether it is a pair of values and offsets."""
        return len(self.specs) == 2


def find_conversion(produced: Produced, required: Required, path: Path) -> Conversion | None:
    """The conversion between the two ends; None where the tensors can go there as they are.

    path names the graph in messages. Raises GraphNotServable where Merlin's executor fails as well.
    """
    edge = _Edge(produced, required, path)
    edge.check_declared_type()
    # 1. The same form at both ends.
    if required.is_ragged == produced.is_ragged:
        return edge.cast()
    # 2. Dense where a ragged list is required.
    if required.is_ragged:
        return edge.split_rows()
    # 3. Ragged where a dense tensor is required.
    return edge.join_rows()


def replace_dims(spec: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    """The tensor with another shape."""
    return replace(spec, dims=dims)


def describe_producer(producer: FromRequest | FromCall | FromInline) -> str:
    """The producer for people: the request, or the name of a model."""
    return "the request" if isinstance(producer, FromRequest) else producer.key.partition("/")[0]


@dataclass(frozen=True)
class _Edge:
    produced: Produced
    required: Required
    path: Path

    def check_declared_type(self) -> None:
        """The operator sends the type of its schema, whatever the model's config has."""
        declared, sent = self.required.specs[0].data_type, self._triton_type
        if self.required.reader != ANSWER and declared != sent:
            raise self._refuse(
                f"the operator sends {sent} and the model's config "
                f"has {declared}, so Merlin's executor fails as well",
                "export the graph again",
            )

    def cast(self) -> Conversion | None:
        """Case 1: the same form at both ends; shapes are left as they are."""
        produced, written = self.produced.specs, self._written
        if self.required.reader == ANSWER:  # nobody holds the executor's answer to its shape
            written = tuple(
                replace_dims(spec, other.dims)
                for spec, other in zip(written, produced, strict=True)
            )
        fitting = all(_fits(a.dims, b.dims) for a, b in zip(produced, written, strict=True))
        same_type = all(a.data_type == b.data_type for a, b in zip(produced, written, strict=True))
        # 1a. Triton holds the tensor to a shape that its reader does not take.
        if not fitting and self.produced.checked:
            raise self._refuse_shape(written[0])
        # 1b. It is what the reader takes.
        if same_type and fitting:
            return None
        # 1c. A python model's shape is what it declares to nobody: it goes through a step.
        if same_type:
            why = (
                f"{self._origin} declares the shape {_show(produced[0].dims)} where "
                f"{_show(written[0].dims)} is expected"
            )
            return self._convert(ConversionKind.PASS_ON, written, None, why)
        # 1d. Another data type.
        why = f"{self._origin} gives {_show_type(produced[0])} where {_show_type(written[0])}"
        return self._convert(ConversionKind.CAST, written, self._numpy_type, f"{why} is expected")

    def split_rows(self) -> Conversion:
        """Case 2: dense to ragged, conversions._to_values_offsets_array."""
        dims = self.produced.specs[0].dims
        if len(dims) < 2 and self.produced.checked:
            raise self._refuse_shape(self._written[0])
        why = f"{self._origin} gives the dense shape {_show(dims)} where a ragged list is expected"
        return self._convert(ConversionKind.RAGGED, self._written, self._numpy_type, why)

    def join_rows(self) -> Conversion:
        """Case 3: ragged to dense, conversions._from_values_offsets."""
        shape = self._written[0].dims
        if any(size < 0 for size in shape[1:]):
            raise self._refuse(
                f"{self._origin} gives a ragged list where the shape {_show(shape)} is expected, "
                "whose row length is open, so Merlin's executor fails as well",
                "fix the length of the list in the schema",
            )
        why = f"{self._origin} gives a ragged list where the dense shape {_show(shape)} is expected"
        return self._convert(ConversionKind.DENSE, self._written, self._numpy_type, why)

    @property
    def _origin(self) -> str:
        return describe_producer(self.produced.producer)

    @property
    def _numpy_type(self) -> str | None:
        """The type that values are cast to: the schema's where Triton has it."""
        return self.required.dtype if self.required.dtype in TRITON_TYPES else None

    @property
    def _triton_type(self) -> str:
        """The same in Triton's words, or the type that comes."""
        return TRITON_TYPES.get(self.required.dtype or "", self.produced.specs[0].data_type)

    @property
    def _written(self) -> tuple[TensorSpec, ...]:
        """The reader's tensors, with the values' type as it is sent."""
        values, *offsets = self.required.specs
        return replace(values, data_type=self._triton_type), *offsets

    def _convert(
        self, kind: ConversionKind, writes: tuple[TensorSpec, ...], dtype: str | None, why: str
    ) -> Conversion:
        reader, columns = self.required.reader, (self.required.column,)
        return Conversion(kind, reader, columns, self.produced.tensors, writes, dtype, why)

    def _refuse_shape(self, written: TensorSpec) -> GraphNotServable:
        batched = self.produced.batched or self.required.batched
        cause = (
            f" (max_batch_size of {batched} puts a dimension in front that Merlin does not send)"
            if batched
            else ""
        )
        return self._refuse(
            f"{self._origin} gives the shape {_show(self.produced.specs[0].dims)} where "
            f"{_show(written.dims)} is expected{cause}, so Merlin's executor fails as well",
            "export with max_batch_size unset"
            if batched
            else "fit and export it again with one shape throughout",
        )

    def _refuse(self, reason: str, remedy: str) -> GraphNotServable:
        required = self.required
        return GraphNotServable(self.path, required.operator, (required.column,), reason, remedy)


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(
        a == b or -1 in (a, b) for a, b in zip(shape, expected, strict=True)
    )


def _show(dims: tuple[int, ...]) -> list[int]:
    return list(dims)


def _show_type(spec: TensorSpec) -> str:
    return spec.data_type.removeprefix("TYPE_")
