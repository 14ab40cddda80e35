"""Wiring + configs -> how each tensor of each reader is fed. No I/O.

A reader is a call, or the answer. It is fed in one of four ways:

1. inline operators stand in front of it: Merlin's own code makes all of its tensors;
2. it is a forest: the step that calls it stacks the columns, each as it comes;
3. it is a generated step in the place of an operator: each column as it comes;
4. by tensors of others, column by column, and by conversions where those do not fit.

What the executor would fail on raises GraphNotServable with the operator and the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.archive.model_config import ModelConfig, TensorSpec
from ensemble_tools.archive.tensor_names import find_column, list_ragged_tensors
from ensemble_tools.ensembles.conversions import (
    Conversion,
    EnsembleTensor,
    Produced,
    Required,
    describe_producer,
    find_conversion,
    replace_dims,
)
from ensemble_tools.ensembles.operators import OperatorWork, make_config
from ensemble_tools.ensembles.producers import ANSWER, FromCall, FromInline, FromRequest
from ensemble_tools.ensembles.wiring import MATRIX, Call, Source, Wiring
from ensemble_tools.errors import GraphNotServable

_THE_ANSWER = "the answer"
_EXPORT_AGAIN = "export the graph again"
_EXPORT_WITH_23_08 = f"{_EXPORT_AGAIN} with merlin-systems 23.08"


@dataclass(frozen=True)
class InputPlan:
    """How one reader, a call or the answer, is fed."""

    reader: str
    #: The reader's tensors that come unchanged.
    tensors: Mapping[str, EnsembleTensor]
    #: The conversions that feed the reader's other tensors.
    conversions: tuple[Conversion, ...]
    #: Whether inline operators feed the reader; then all of its tensors come from a step that
    #: runs them.
    merlin: bool
    #: The reader's tensors with their whole shapes.
    specs: tuple[TensorSpec, ...]


def list_columns(declared: Mapping[str, TensorSpec]) -> tuple[str, ...]:
    """The columns of a request to an executor model, or of its answer, by the tensors of it."""
    return tuple(dict.fromkeys(_find_column(name, declared) for name in declared))


def plan_inputs(
    wiring: Wiring, executor: ModelConfig, steps: Mapping[str, ModelConfig], path: Path
) -> dict[str, InputPlan]:
    """Every call's InputPlan by its key, and the answer's.

    executor: its config, which declares request and answer. steps: the called models' configs by
    model name. path names the graph in messages. Raises GraphNotServable.
    """
    planner = _InputPlanner(wiring, executor, steps, path)
    plans = {call.key: planner.plan_call(call) for call in wiring.calls}
    plans[ANSWER] = planner.plan_answer()
    return plans


def shape_forest_output(config: ModelConfig, spec: TensorSpec) -> TensorSpec:
    """An output of a forest with the shape that it has: the backend leaves out a last size of 1."""
    dims = config.make_full_dims(spec)
    return replace_dims(spec, dims[:-1] if len(dims) > 1 and dims[-1] == 1 else dims)


def find_whole_spec(config: ModelConfig, spec: TensorSpec) -> TensorSpec:
    """A declared tensor with its whole shape, batch dimension included."""
    return replace_dims(spec, config.make_full_dims(spec))


class _InputPlanner:
    def __init__(
        self, wiring: Wiring, executor: ModelConfig, steps: Mapping[str, ModelConfig], path: Path
    ) -> None:
        self._wiring, self._executor, self._steps, self._path = wiring, executor, steps, path
        self._calls = {call.key: call for call in wiring.calls}
        self._made: dict[str, ModelConfig] = {}

    def plan_call(self, call: Call) -> InputPlan:
        if call.work is not None:  # 3
            return self._plan_operator(call, call.work)
        config = self._steps[call.model_name]
        specs = tuple(find_whole_spec(config, spec) for spec in config.inputs.values())
        # 1. Merlin's own code feeds it.
        if any(isinstance(source.producer, FromInline) for source in call.reads):
            return InputPlan(call.key, {}, (), True, self._find_sent_by_merlin(call, specs))
        # 2. A forest.
        if call.stacked:
            return self._plan_stacked(call, specs)
        # 4. Column by column.
        return self._plan_columns(
            call.key, specs, list(self._require_of_call(call, specs)), call.sources
        )

    def plan_answer(self) -> InputPlan:
        sources = self._wiring.answer
        config = self._executor
        specs = tuple(find_whole_spec(config, spec) for spec in config.outputs.values())
        required = list(self._require_of_answer(specs))
        # 1. Merlin's own code makes it.
        if any(isinstance(source.producer, FromInline) for source in sources.values()):
            return InputPlan(ANSWER, {}, (), True, specs)
        # 4. Column by column.
        return self._plan_columns(ANSWER, specs, required, sources)

    def _find_sent_by_merlin(
        self, call: Call, specs: tuple[TensorSpec, ...]
    ) -> tuple[TensorSpec, ...]:
        """The tensors that Merlin's own code sends to the model."""
        if call.stacked:
            return specs
        sent = {column.name for column in call.columns_in}
        declared = self._steps[call.model_name].inputs
        return tuple(spec for spec in specs if _find_column(spec.name, declared) in sent)

    def _require_of_call(self, call: Call, specs: tuple[TensorSpec, ...]) -> Iterator[Required]:
        """The requirements of the model for each column that the graph feeds it with."""
        types = {column.name: column.dtype for column in call.columns_in}
        config = self._steps[call.model_name]
        by_column = _group_by_column(specs, config.inputs)
        for column in call.sources:
            if column not in by_column:
                raise self._refuse(
                    call.operator,
                    column,
                    f"the graph feeds this column to {call.model_name}, "
                    "whose config has no such input, so Merlin's executor fails as well",
                    _EXPORT_AGAIN,
                )
        for column, tensors in by_column.items():
            if column in call.sources:
                batched = _name_batched(call.model_name, config)
                yield Required(call.key, call.operator, column, types[column], tensors, batched)
            elif not all(spec.optional for spec in tensors):
                raise self._refuse(
                    call.operator,
                    column,
                    f"the config of {call.model_name} has an input that "
                    "the graph does not feed, so Merlin's executor fails as well",
                    _EXPORT_AGAIN,
                )

    def _require_of_answer(self, specs: tuple[TensorSpec, ...]) -> Iterator[Required]:
        """The declarations of the executor's config for each column of the answer."""
        types = {column.name: column.dtype for column in self._wiring.columns}
        for column, tensors in _group_by_column(specs, self._executor.outputs).items():
            if column not in self._wiring.answer:
                raise self._refuse(
                    _THE_ANSWER,
                    column,
                    "the graph does not compute this declared output",
                    _EXPORT_AGAIN,
                )
            yield Required(ANSWER, _THE_ANSWER, column, types.get(column), tensors)

    def _plan_columns(
        self,
        reader: str,
        specs: tuple[TensorSpec, ...],
        columns: list[Required],
        sources: Mapping[str, Source],
    ) -> InputPlan:
        tensors: dict[str, EnsembleTensor] = {}
        conversions: list[Conversion] = []
        for required in columns:
            produced = self._find_produced(required, sources[required.column])
            conversion = find_conversion(produced, required, self._path)
            if conversion is None:
                names = (spec.name for spec in required.specs)
                tensors.update(zip(names, produced.tensors, strict=True))
            else:
                conversions.append(conversion)
        fed = {*tensors, *(spec.name for planned in conversions for spec in planned.writes)}
        specs_fed = tuple(spec for spec in specs if spec.name in fed)
        return InputPlan(reader, tensors, tuple(conversions), False, specs_fed)

    def _plan_stacked(self, call: Call, specs: tuple[TensorSpec, ...]) -> InputPlan:
        """Case 2: a forest's plan. Its specs are the columns: the step that calls it has them."""
        self._check_matrix(call, specs)
        tensors: dict[str, EnsembleTensor] = {}
        columns: list[TensorSpec] = []
        for source in call.stacked:
            required = Required(call.key, call.operator, source.column, None, specs)
            produced = self._find_produced(required, source)
            tensors[source.column] = produced.tensors[0]
            spec = produced.specs[0]
            columns.append(TensorSpec(source.column, spec.data_type, spec.dims))
        return InputPlan(call.key, tensors, (), False, tuple(columns))

    def _plan_operator(self, call: Call, work: OperatorWork) -> InputPlan:
        """Case 3. Its specs tell what it puts out, which those behind it are planned by."""
        tensors: dict[str, EnsembleTensor] = {}
        specs: list[TensorSpec] = []
        for column, source in call.sources.items():
            produced = self._find_produced(
                Required(call.key, call.operator, column, None, ()), source
            )
            names = list_ragged_tensors(column) if produced.is_ragged else (column,)
            for name, tensor, spec in zip(names, produced.tensors, produced.specs, strict=True):
                tensors[name] = tensor
                specs.append(TensorSpec(name, spec.data_type, spec.dims))
        self._made[call.key] = make_config(work, specs)
        return InputPlan(call.key, tensors, (), False, tuple(specs))

    def _check_matrix(self, call: Call, specs: tuple[TensorSpec, ...]) -> None:
        """Raise GraphNotServable unless the forest takes a matrix of as many columns."""
        if [spec.name for spec in specs] != [MATRIX.name] or specs[0].data_type != "TYPE_FP32":
            raise self._refuse(
                call.operator,
                MATRIX.name,
                f"{call.model_name} does not declare this input alone, "
                "as TYPE_FP32, so Merlin's executor fails as well",
                _EXPORT_WITH_23_08,
            )
        width = specs[0].dims[-1]
        if width not in (-1, len(call.stacked)):
            raise GraphNotServable(
                self._path,
                call.operator,
                tuple(source.column for source in call.stacked),
                f"{len(call.stacked)} columns reach the forest, which was trained on {width}, so "
                "Merlin's executor fails as well",
                "select the forest's columns in front of it",
            )

    def _find_produced(self, required: Required, source: Source) -> Produced:
        """The source's tensors of the column; raises GraphNotServable when it has none."""
        assert not isinstance(source.producer, FromInline), "Merlin's own code feeds such readers"
        if isinstance(source.producer, FromRequest):
            specs = self._find_declared(required, source, self._executor.inputs)
            return Produced(
                source.producer,
                tuple(find_whole_spec(self._executor, spec) for spec in specs),
                checked=True,  # Triton holds requests to their declared shapes
            )
        return self._find_produced_by_call(required, source, source.producer)

    def _find_produced_by_call(
        self, required: Required, source: Source, producer: FromCall
    ) -> Produced:
        call = self._calls[producer.key]
        config = self._made.get(call.key) or self._steps[call.model_name]
        specs = self._find_declared(required, source, config.outputs)
        batched = _name_batched(call.model_name, config)
        if call.stacked:
            shaped = tuple(shape_forest_output(config, spec) for spec in specs)
            return Produced(producer, shaped, False, batched)
        # Triton holds backends' outputs to their declared shapes, and python models' to nothing.
        checked = config.backend not in ("python", "")
        whole = tuple(find_whole_spec(config, spec) for spec in specs)
        return Produced(producer, whole, checked, batched)

    def _find_declared(
        self, required: Required, source: Source, declared: Mapping[str, TensorSpec]
    ) -> tuple[TensorSpec, ...]:
        pair = list_ragged_tensors(source.column)
        if all(name in declared for name in pair):
            return tuple(declared[name] for name in pair)
        if source.column in declared:
            return (declared[source.column],)
        raise self._refuse(
            required.operator,
            required.column,
            f"{describe_producer(source.producer)} is said to give this column, and "
            "its config has no such output, so Merlin's executor fails as well",
            _EXPORT_WITH_23_08,
        )

    def _refuse(self, operator: str, column: str, reason: str, remedy: str) -> GraphNotServable:
        return GraphNotServable(self._path, operator, (column,), reason, remedy)


def _group_by_column(
    specs: tuple[TensorSpec, ...], declared: Mapping[str, TensorSpec]
) -> dict[str, tuple[TensorSpec, ...]]:
    """Specs by column, a ragged column's as values, offsets."""
    grouped: dict[str, list[TensorSpec]] = {}
    for spec in specs:
        grouped.setdefault(_find_column(spec.name, declared), []).append(spec)
    return {
        column: tuple(sorted(tensors, key=lambda spec: spec.name, reverse=True))
        for column, tensors in grouped.items()
    }


def _find_column(tensor: str, declared: Mapping[str, TensorSpec]) -> str:
    """The column of a declared tensor; only a pair of values and offsets is a ragged column."""
    column = find_column(tensor)
    return column if all(name in declared for name in list_ragged_tensors(column)) else tensor


def _name_batched(model_name: str, config: ModelConfig) -> str:
    return model_name if config.max_batch_size > 0 else ""
