"""PURE. Wiring + configs -> how each tensor of each reader is fed.

Before it calls a model, the executor brings each column into the form and data type of the
operator's schema, and of the answer's schema before it answers (merlin-systems, conversions.py).
Triton's ensembles do neither. An edge where that changes nothing is direct:

1. the same form at both ends: two tensors for a ragged column, one for any other;
2. the same data type at both ends, and in the operator's own schema;
3. whole shapes (batch dimension included) of one rank, with no two fixed sizes that differ.

Any other edge is a Conversion, which a generated step carries out; what the executor would fail on
raises GraphNotServable with the operator and the column. A reader that inline operators feed is
left to Merlin's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ensemble_tools.errors import GraphNotServable
from ensemble_tools.model_config import ModelConfig, TensorSpec
from ensemble_tools.tensor_names import column_of, ragged_tensors
from ensemble_tools.wiring import MATRIX, Call, Source, Wiring

#: Merlin's data types in Triton's words (merlin/dtypes/mappings/triton.py). Strings are no part of
#: it: numpy cannot cast to them as the executor asks it to.
TRITON_TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
}
#: The reader that is the graph's answer; no model directory is called so.
ANSWER = "/answer"
_EXPORT_AGAIN = "export the graph again with merlin-systems 23.08"
_UNSET_BATCH = "export with max_batch_size unset"


class Kind(Enum):
    """What a conversion does; the value completes "the generated step ... the column"."""

    CAST = "casts"
    PASS_ON = "passes on"
    DENSE = "joins the rows of"
    RAGGED = "splits the rows of"


@dataclass(frozen=True)
class Tensor:
    """A tensor and who puts it out: None for the request, a call's key, or a generated step.

    reader: whom a generated step's tensor is made for; the name is then that reader's name of it.
    """

    producer: str | None
    name: str
    reader: str = ""


@dataclass(frozen=True)
class Conversion:
    """One column's tensors -> the tensors that a reader wants.

    writes: the reader's tensors with their whole shapes. dtype: numpy's name of the type to cast
    values to, None to leave them. why: the finding that makes it needed, for people.
    """

    kind: Kind
    reader: str
    columns: tuple[str, ...]
    reads: tuple[Tensor, ...]
    writes: tuple[TensorSpec, ...]
    dtype: str | None
    why: str


@dataclass(frozen=True)
class Feed:
    """How one reader, a call or the answer, is fed.

    tensors: the reader's tensors that come unchanged. conversions: what feeds the others. merlin:
    inline operators feed it, and then all of its tensors come from a step that runs them; specs:
    its tensors with their whole shapes.
    """

    reader: str
    tensors: Mapping[str, Tensor]
    conversions: tuple[Conversion, ...]
    merlin: bool
    specs: tuple[TensorSpec, ...]


def request_columns(config: ModelConfig) -> tuple[str, ...]:
    """The columns of a request to an executor model, by the tensors that it declares."""
    return tuple(dict.fromkeys(_column(name, config.inputs) for name in config.inputs))


def answer_columns(config: ModelConfig) -> tuple[str, ...]:
    """The columns of an executor model's answer, by the tensors that it declares."""
    return tuple(dict.fromkeys(_column(name, config.outputs) for name in config.outputs))


def feeds(
    wiring: Wiring, executor: ModelConfig, steps: Mapping[str, ModelConfig], path: Path
) -> dict[str, Feed]:
    """Every call's Feed by its key, and the answer's.

    executor: its config, which declares request and answer. steps: the called models' configs by
    model name. path names the graph in messages. Raises GraphNotServable.
    """
    reader = _Reader(wiring, executor, steps, path)
    found = {call.key: reader.call(call) for call in wiring.calls}
    found[ANSWER] = reader.answer()
    return found


def forest_output(config: ModelConfig, spec: TensorSpec) -> TensorSpec:
    """An output of a forest with the shape that it has: the backend leaves out a last size of 1."""
    dims = config.full_dims(spec)
    return _reshaped(spec, dims[:-1] if len(dims) > 1 and dims[-1] == 1 else dims)


@dataclass(frozen=True)
class _Want:
    """What a reader wants of one column: its operator for messages, its schema, its tensors."""

    reader: str
    operator: str
    column: str
    dtype: str | None
    specs: tuple[TensorSpec, ...]

    @property
    def ragged(self) -> bool:
        return len(self.specs) == 2


@dataclass(frozen=True)
class _Offer:
    """What a source gives of one column: its tensors, ragged ones in the order values, offsets."""

    producer: str | None
    specs: tuple[TensorSpec, ...]
    checked: bool

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(self.producer, spec.name) for spec in self.specs)

    @property
    def ragged(self) -> bool:
        return len(self.specs) == 2


class _Reader:
    def __init__(
        self, wiring: Wiring, executor: ModelConfig, steps: Mapping[str, ModelConfig], path: Path
    ) -> None:
        self._wiring, self._executor, self._steps, self._path = wiring, executor, steps, path
        self._models = {call.key: call.model_name for call in wiring.calls}
        self._forests = {call.key for call in wiring.calls if call.stacked}

    def call(self, call: Call) -> Feed:
        config = self._steps[call.model_name]
        specs = tuple(_whole(config, spec) for spec in config.inputs.values())
        if any(source.producer in self._wiring.inlines for source in call.reads):
            return Feed(call.key, {}, (), True, self._fed_by_merlin(call, specs))
        if call.stacked:
            return self._stacked(call, config, specs)
        return self._feed(call.key, specs, list(self._wants(call, config)), call.sources)

    def answer(self) -> Feed:
        config = self._executor
        specs = tuple(_whole(config, spec) for spec in config.outputs.values())
        types = {column.name: column.dtype for column in self._wiring.columns}
        wants = []
        for column, tensors in _by_column(specs, config.outputs).items():
            if column not in self._wiring.answer:
                raise self._refusal(
                    "the answer", column, "the graph does not compute this declared output",
                    "export the graph again",
                )  # fmt: skip
            wants.append(_Want(ANSWER, "the answer", column, types.get(column), tensors))
        merlin = any(
            source.producer in self._wiring.inlines for source in self._wiring.answer.values()
        )
        if merlin:
            return Feed(ANSWER, {}, (), True, specs)
        return self._feed(ANSWER, specs, wants, self._wiring.answer)

    def _fed_by_merlin(self, call: Call, specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        """The tensors that Merlin's own code sends to the model."""
        if call.stacked:
            return specs
        fed = {column.name for column in call.columns_in}
        declared = self._steps[call.model_name].inputs
        return tuple(spec for spec in specs if _column(spec.name, declared) in fed)

    def _wants(self, call: Call, config: ModelConfig) -> Iterator[_Want]:
        types = {column.name: column.dtype for column in call.columns_in}
        specs = tuple(_whole(config, spec) for spec in config.inputs.values())
        by_column = _by_column(specs, config.inputs)
        for column in call.sources:
            if column not in by_column:
                raise self._refusal(
                    call.operator, column, f"the graph feeds this column to {call.model_name}, "
                    "whose config has no such input, so Merlin's executor fails as well",
                    "export the graph again",
                )  # fmt: skip
        for column, tensors in by_column.items():
            if column in call.sources:
                yield _Want(call.key, call.operator, column, types[column], tensors)
            elif not all(spec.optional for spec in tensors):
                raise self._refusal(
                    call.operator, column, f"the config of {call.model_name} has an input that "
                    "the graph does not feed, so Merlin's executor fails as well",
                    "export the graph again",
                )  # fmt: skip

    def _feed(
        self,
        reader: str,
        specs: tuple[TensorSpec, ...],
        wants: list[_Want],
        sources: Mapping[str, Source],
    ) -> Feed:
        tensors: dict[str, Tensor] = {}
        conversions: list[Conversion] = []
        for want in wants:
            offer = self._offer(want, sources[want.column])
            conversion = self._conversion(want, offer)
            if conversion is None:
                given = zip(want.specs, offer.tensors, strict=True)
                tensors.update({spec.name: tensor for spec, tensor in given})
            else:
                conversions.append(conversion)
        fed = {*tensors, *(spec.name for one in conversions for spec in one.writes)}
        return Feed(
            reader, tensors, tuple(conversions), False,
            tuple(spec for spec in specs if spec.name in fed),
        )  # fmt: skip

    def _offer(self, want: _Want, source: Source) -> _Offer:
        """The source's tensors of the column; raises GraphNotServable when it has none."""
        model = None if source.producer is None else self._models[source.producer]
        config = self._executor if model is None else self._steps[model]
        offered = config.inputs if model is None else config.outputs
        names = ragged_tensors(source.column)
        if not all(name in offered for name in names):
            names = (source.column,)  # type: ignore[assignment]
        if not all(name in offered for name in names):
            raise self._refusal(
                want.operator, want.column, f"{_origin(source)} is said to give this column, and "
                "its config has no such output, so Merlin's executor fails as well", _EXPORT_AGAIN,
            )  # fmt: skip
        # Triton holds requests to their declared shapes, and python models' outputs to nothing.
        checked = model is None or config.backend not in ("python", "")
        if source.producer in self._forests:
            specs = tuple(forest_output(config, offered[name]) for name in names)
            return _Offer(source.producer, specs, False)
        return _Offer(
            source.producer, tuple(_whole(config, offered[name]) for name in names), checked
        )

    def _conversion(self, want: _Want, offer: _Offer) -> Conversion | None:
        wanted = TRITON_TYPES.get(want.dtype or "", offer.specs[0].data_type)
        if want.reader != ANSWER and want.specs[0].data_type != wanted:
            raise self._refusal(
                want.operator, want.column, f"the operator sends {wanted} and the model's config "
                f"has {want.specs[0].data_type}, so Merlin's executor fails as well",
                "export the graph again",
            )  # fmt: skip
        dtype = want.dtype if want.dtype in TRITON_TYPES else None
        values = _retyped(want.specs[0], wanted)
        if want.ragged and offer.ragged:
            return self._same_form(want, offer, (values, want.specs[1]), dtype)
        if want.ragged:
            return self._split(want, offer, (values, want.specs[1]), dtype)
        if offer.ragged:
            return self._joined(want, offer, values, dtype)
        return self._same_form(want, offer, (values,), dtype)

    def _same_form(
        self, want: _Want, offer: _Offer, writes: tuple[TensorSpec, ...], dtype: str | None
    ) -> Conversion | None:
        """Cast where types differ; shapes are left as they are."""
        given = offer.specs
        if want.reader == ANSWER:  # nobody holds the executor's answer to its declared shape
            writes = tuple(
                _reshaped(spec, other.dims) for spec, other in zip(writes, given, strict=True)
            )
        fitting = all(_fits(a.dims, b.dims) for a, b in zip(given, writes, strict=True))
        if not fitting and offer.checked:
            raise self._unfitting(want, offer, writes)
        same = all(a.data_type == b.data_type for a, b in zip(given, writes, strict=True))
        if same and fitting:
            return None
        origin = _origin(Source(offer.producer, want.column))
        if same:
            why = f"{origin} declares the shape {_shown(given[0].dims)} where " + (
                f"{_shown(writes[0].dims)} is expected"
            )
            return Conversion(
                Kind.PASS_ON, want.reader, (want.column,), offer.tensors, writes, None, why
            )
        why = f"{origin} gives {_type(given[0])} where {_type(writes[0])} is expected"
        return Conversion(Kind.CAST, want.reader, (want.column,), offer.tensors, writes, dtype, why)

    def _joined(
        self, want: _Want, offer: _Offer, values: TensorSpec, dtype: str | None
    ) -> Conversion:
        """Ragged to dense: conversions._from_values_offsets."""
        if any(size < 0 for size in values.dims[1:]):
            raise self._refusal(
                want.operator, want.column,
                f"{_origin(Source(offer.producer, want.column))} gives a ragged list where the "
                f"shape {_shown(values.dims)} is expected, whose row length is open, so Merlin's "
                "executor fails as well", "fix the length of the list in the schema",
            )  # fmt: skip
        why = (
            f"{_origin(Source(offer.producer, want.column))} gives a ragged list where the dense "
            f"shape {_shown(values.dims)} is expected"
        )
        return Conversion(
            Kind.DENSE, want.reader, (want.column,), offer.tensors, (values,), dtype, why
        )

    def _split(
        self, want: _Want, offer: _Offer, writes: tuple[TensorSpec, ...], dtype: str | None
    ) -> Conversion:
        """Dense to ragged: conversions._to_values_offsets_array."""
        given = offer.specs[0].dims
        if len(given) < 2 and offer.checked:
            raise self._unfitting(want, offer, writes)
        why = (
            f"{_origin(Source(offer.producer, want.column))} gives the dense shape "
            f"{_shown(given)} where a ragged list is expected"
        )
        return Conversion(
            Kind.RAGGED, want.reader, (want.column,), offer.tensors, writes, dtype, why
        )

    def _stacked(self, call: Call, config: ModelConfig, specs: tuple[TensorSpec, ...]) -> Feed:
        """The forest operator's columns, each as it comes: the step that calls it stacks them."""
        if [spec.name for spec in specs] != [MATRIX.name] or specs[0].data_type != "TYPE_FP32":
            raise self._refusal(
                call.operator, MATRIX.name, f"{call.model_name} does not declare this input alone, "
                "as TYPE_FP32, so Merlin's executor fails as well", _EXPORT_AGAIN,
            )  # fmt: skip
        width = specs[0].dims[-1]
        if width not in (-1, len(call.stacked)):
            raise GraphNotServable(
                self._path, call.operator, tuple(source.column for source in call.stacked),
                f"{len(call.stacked)} columns reach the forest, which was trained on {width}, so "
                "Merlin's executor fails as well",
                "select the forest's columns in front of it",
            )  # fmt: skip
        tensors: dict[str, Tensor] = {}
        given: list[TensorSpec] = []
        for source in call.stacked:
            want = _Want(call.key, call.operator, source.column, None, specs)
            offer = self._offer(want, source)
            tensors[source.column] = offer.tensors[0]
            spec = offer.specs[0]
            given.append(TensorSpec(source.column, spec.data_type, spec.dims))
        return Feed(call.key, tensors, (), False, tuple(given))

    def _unfitting(
        self, want: _Want, offer: _Offer, writes: tuple[TensorSpec, ...]
    ) -> GraphNotServable:
        batched = self._batched(want, offer)
        cause = (
            f" (max_batch_size of {batched} puts a dimension in front that Merlin does not send)"
            if batched
            else ""
        )
        remedy = _UNSET_BATCH if batched else "fit and export it again with one shape throughout"
        return self._refusal(
            want.operator, want.column,
            f"{_origin(Source(offer.producer, want.column))} gives the shape "
            f"{_shown(offer.specs[0].dims)} where {_shown(writes[0].dims)} is expected{cause}, so "
            "Merlin's executor fails as well", remedy,
        )  # fmt: skip

    def _batched(self, want: _Want, offer: _Offer) -> str:
        keys = (offer.producer, want.reader)
        models = [self._models[key] for key in keys if key in self._models]
        return next((name for name in models if self._steps[name].max_batch_size > 0), "")

    def _refusal(self, operator: str, column: str, reason: str, remedy: str) -> GraphNotServable:
        return GraphNotServable(self._path, operator, (column,), reason, remedy)


def _by_column(
    specs: tuple[TensorSpec, ...], declared: Mapping[str, TensorSpec]
) -> dict[str, tuple[TensorSpec, ...]]:
    """Specs by column, a ragged column's as values, offsets."""
    found: dict[str, list[TensorSpec]] = {}
    for spec in specs:
        found.setdefault(_column(spec.name, declared), []).append(spec)
    return {
        column: tuple(sorted(tensors, key=lambda spec: spec.name, reverse=True))
        for column, tensors in found.items()
    }


def _whole(config: ModelConfig, spec: TensorSpec) -> TensorSpec:
    return _reshaped(spec, config.full_dims(spec))


def _reshaped(spec: TensorSpec, dims: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(spec.name, spec.data_type, dims, spec.optional)


def _retyped(spec: TensorSpec, data_type: str) -> TensorSpec:
    return TensorSpec(spec.name, data_type, spec.dims, spec.optional)


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(given) == len(wanted) and all(
        a == b or -1 in (a, b) for a, b in zip(given, wanted, strict=True)
    )


def _shown(dims: tuple[int, ...]) -> list[int]:
    return list(dims)


def _type(spec: TensorSpec) -> str:
    return spec.data_type.removeprefix("TYPE_")


def _origin(source: Source) -> str:
    return "the request" if source.producer is None else source.producer.partition("/")[0]


def _column(tensor: str, declared: Mapping[str, TensorSpec]) -> str:
    """The column of a declared tensor; only a pair of values and offsets is a ragged column."""
    column = column_of(tensor)
    return column if all(name in declared for name in ragged_tensors(column)) else tensor
