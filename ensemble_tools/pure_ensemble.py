"""PURE. Wiring + the children's configs -> the config of an ensemble with the executor's numbers.

Before it calls a child, the executor casts each column to the operator's data type and switches
between ragged and dense forms; it does the same for the answer (merlin-systems, conversions.py).
Triton's ensembles do neither. So an edge is taken over only where it would change nothing:

1. the same form at both ends: two tensors for a ragged column, one for any other;
2. the same data type at both ends, and in the operator's own schema;
3. whole shapes (batch dimension included) of one rank, with no two fixed sizes that differ.

Anything else raises GraphNotExpressible with the operator and the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.errors import GraphNotExpressible
from ensemble_tools.model_config import ModelConfig, TensorSpec
from ensemble_tools.repository import ModelRepository, SourceModel
from ensemble_tools.tensor_names import column_of, produced_by, ragged_tensors
from ensemble_tools.wiring import Call, Source, Wiring

#: Merlin's data types in Triton's words (merlin/dtypes/mappings/triton.py).
_TRITON_TYPES = {
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
    "string": "TYPE_STRING",
}
_ANSWER = "the answer"
_REFIT = "fit and export it again with columns of one type and form from end to end"


def request_columns(config: ModelConfig) -> tuple[str, ...]:
    """The columns of a request to an executor model, by the tensors that it declares."""
    return tuple(dict.fromkeys(_column(name, config.inputs) for name in config.inputs))


def answer_columns(config: ModelConfig) -> tuple[str, ...]:
    """The columns of an executor model's answer, by the tensors that it declares."""
    return tuple(dict.fromkeys(_column(name, config.outputs) for name in config.outputs))


def child(repository: ModelRepository, executor: SourceModel, name: str) -> SourceModel:
    """The model directory that an operator of the graph calls; raises GraphNotExpressible."""
    if name not in repository.models:
        raise GraphNotExpressible(
            executor.graph_path or executor.directory, name, (),
            "the graph calls this model, and the archive has no directory of that name",
            f"add {name}/ beside {executor.name}/",
        )  # fmt: skip
    return repository.models[name]


def pure_ensemble(
    wiring: Wiring,
    executor: SourceModel,
    steps: Mapping[str, SourceModel],
    names: Mapping[str, str],
) -> pb.ModelConfig:
    """The ensemble in the executor's place: its inputs and outputs, its children as steps.

    steps: the children by their names in the archive; names: their Triton names. The message has
    no name of its own, so Triton takes the directory's.
    """
    assert executor.config is not None
    _check_batching(wiring, executor, executor.config, steps)
    builder = _Builder(wiring, executor, executor.config, steps)
    message = pb.ModelConfig(platform="ensemble")
    message.input.extend(executor.config.message.input)
    message.output.extend(executor.config.message.output)
    for tensor in message.input:
        tensor.optional = False  # the executor asks each request for all of its columns
    answer = builder.answer()
    for call in wiring.calls:
        message.ensemble_scheduling.step.append(
            pb.ModelEnsembling.Step(
                model_name=names[call.model_name],
                model_version=-1,
                input_map=builder.input_map(call, answer),
                output_map=builder.output_map(call, answer),
            )
        )
    builder.check_request_is_used(message)
    return message


def _check_batching(
    wiring: Wiring,
    executor: SourceModel,
    config: ModelConfig,
    steps: Mapping[str, SourceModel],
) -> None:
    """Raise GraphNotExpressible where Merlin's own python models would have to batch."""
    batching = [("the executor", executor.name, config)] + [
        (call.operator, call.model_name, found)
        for call in wiring.calls
        if call.operator.startswith("TransformWorkflow")
        and (found := steps[call.model_name].config) is not None
    ]
    for operator, name, found in batching:
        if found.max_batch_size > 0:
            raise GraphNotExpressible(
                executor.graph_path or executor.directory, operator, (),
                f"max_batch_size of {name} is {found.max_batch_size}, which puts a dimension in "
                "front of whole shapes; Merlin sends whole shapes, so its executor fails as well",
                "export with max_batch_size unset",
            )  # fmt: skip


@dataclass(frozen=True)
class _Tensor:
    """A tensor and who puts it out (a step, or None for the request)."""

    step: str | None
    name: str


class _Builder:
    """One ensemble in the making: wiring, configs, and the names of its tensors."""

    def __init__(
        self,
        wiring: Wiring,
        executor: SourceModel,
        config: ModelConfig,
        steps: Mapping[str, SourceModel],
    ) -> None:
        self._path: Path = executor.graph_path or executor.directory
        self._wiring, self._executor, self._config = wiring, executor, config
        self._steps = steps
        self._taken = {*config.inputs, *config.outputs}
        self._names: dict[_Tensor, str] = {}

    def answer(self) -> dict[_Tensor, str]:
        """Step tensors that are the ensemble's outputs, under the outputs' names."""
        outputs: dict[_Tensor, str] = {}
        types = {column.name: column.dtype for column in self._wiring.columns}
        for output in self._config.outputs.values():
            column = _column(output.name, self._config.outputs)
            if column not in self._wiring.answer:
                raise self._refusal(
                    _ANSWER, column, "the graph does not compute this declared output",
                    "export the graph again",
                )  # fmt: skip
            source = self._wiring.answer[column]
            tensor = self._edge(_ANSWER, column, source, output, self._config, types.get(column))
            if tensor.step is None and tensor.name == output.name:
                continue  # a request tensor that is answered as it came
            if output.name in self._config.inputs:
                raise self._refusal(
                    _ANSWER, column, "the answer has this column under the name of a request "
                    "column, and in an ensemble a name is one tensor, so the request's numbers "
                    "would come back", "rename the column in the workflow",
                )  # fmt: skip
            outputs[tensor] = output.name
        return outputs

    def input_map(self, call: Call, answer: Mapping[_Tensor, str]) -> dict[str, str]:
        """The child's input tensors -> ensemble tensors."""
        return {
            name: self._ensemble_name(tensor, answer) for name, tensor in self._inputs(call).items()
        }

    def output_map(self, call: Call, answer: Mapping[_Tensor, str]) -> dict[str, str]:
        """The child's output tensors that anyone reads -> ensemble tensors.

        Triton refuses an ensemble with a tensor that nobody reads.
        """
        read = {tensor for other in self._wiring.calls for tensor in self._inputs(other).values()}
        return {
            tensor.name: self._ensemble_name(tensor, answer)
            for tensor in sorted(read | answer.keys(), key=lambda tensor: tensor.name)
            if tensor.step == call.model_name
        }

    def check_request_is_used(self, message: pb.ModelConfig) -> None:
        """Raise GraphNotExpressible for a request tensor that no step takes.

        Triton 2.36 and 2.51 say "ensemble input ... is not used", also when it is an output.
        """
        used = {
            name for step in message.ensemble_scheduling.step for name in step.input_map.values()
        }
        for name in self._config.inputs:
            if name in used:
                continue
            use = "answers it as it came" if name in self._config.outputs else "uses it for nothing"
            raise self._refusal(
                "the request", _column(name, self._config.inputs),
                f"the executor wants this column in each request and {use}, and Triton's ensembles "
                "do not allow an input that no step reads",
                "remove the column from the graph",
            )  # fmt: skip

    def _inputs(self, call: Call) -> dict[str, _Tensor]:
        config = self._step_config(call.model_name)
        types = {column.name: column.dtype for column in call.columns_in}
        declared = {_column(name, config.inputs) for name in config.inputs}
        for column in call.sources:
            if column not in declared:
                raise self._refusal(
                    call.operator, column, f"the graph feeds this column to {call.model_name}, "
                    "whose config has no such input, so Merlin's executor fails as well",
                    "export the graph again",
                )  # fmt: skip
        inputs: dict[str, _Tensor] = {}
        for spec in config.inputs.values():
            column = _column(spec.name, config.inputs)
            if column in call.sources:
                inputs[spec.name] = self._edge(
                    call.operator, column, call.sources[column], spec, config, types[column]
                )
            elif not spec.optional:
                raise self._refusal(
                    call.operator, column, f"the config of {call.model_name} has an input that "
                    "the graph does not feed, so Merlin's executor fails as well",
                    "export the graph again",
                )  # fmt: skip
        return inputs

    def _edge(
        self,
        operator: str,
        column: str,
        source: Source,
        reader: TensorSpec,
        reader_config: ModelConfig,
        schema_type: str | None,
    ) -> _Tensor:
        """The tensor that can go from source to reader unchanged; cases 1 to 3 of the top."""
        origin = self._step_config(source.step) if source.step else self._config
        offered = origin.outputs if source.step else origin.inputs
        suffix = reader.name.removeprefix(column)
        writer = offered.get(source.column + suffix)
        if writer is None:
            raise self._wrong_form(operator, column, source, ragged_wanted=bool(suffix))
        declared = _TRITON_TYPES.get(schema_type or "", reader.data_type)
        wanted = reader.data_type if suffix == "__offsets" else declared
        if not writer.data_type == reader.data_type == wanted:
            expected = reader.data_type if reader.data_type != writer.data_type else wanted
            raise self._refusal(
                operator, column, f"{_origin(source)} gives {writer.data_type} where "
                f"{expected} is expected, and Triton's ensembles do not cast", _REFIT,
            )  # fmt: skip
        self._check_shapes(operator, column, source, (writer, origin), (reader, reader_config))
        return _Tensor(source.step, writer.name)

    def _check_shapes(
        self,
        operator: str,
        column: str,
        source: Source,
        writer: tuple[TensorSpec, ModelConfig],
        reader: tuple[TensorSpec, ModelConfig],
    ) -> None:
        given, wanted = (config.full_dims(spec) for spec, config in (writer, reader))
        if len(given) == len(wanted) and all(
            a == b or -1 in (a, b) for a, b in zip(given, wanted, strict=True)
        ):
            return
        batched = [
            config.name or "a step" for _, config in (writer, reader) if config.max_batch_size > 0
        ]
        cause = (
            f" (max_batch_size of {batched[0]} puts a dimension in front that Merlin does not "
            "send, so its executor fails as well)" if batched else ""
        )  # fmt: skip
        remedy = "export with max_batch_size unset" if batched else _REFIT
        raise self._refusal(
            operator, column, f"{_origin(source)} gives the shape {list(given)} where "
            f"{list(wanted)} is expected{cause}", remedy,
        )  # fmt: skip

    def _wrong_form(
        self, operator: str, column: str, source: Source, *, ragged_wanted: bool
    ) -> GraphNotExpressible:
        forms = ("a ragged list", "one dense tensor")
        wanted, given = forms if ragged_wanted else forms[::-1]
        return self._refusal(
            operator, column, f"{_origin(source)} gives {given} where {wanted} is expected, and "
            "Triton's ensembles do not reshape", _REFIT,
        )  # fmt: skip

    def _ensemble_name(self, tensor: _Tensor, answer: Mapping[_Tensor, str]) -> str:
        if tensor.step is None:
            return tensor.name
        if tensor in answer:
            return answer[tensor]
        if tensor not in self._names:
            name = produced_by(tensor.step, tensor.name)
            while name in self._taken:
                name += "."
            self._taken.add(name)
            self._names[tensor] = name
        return self._names[tensor]

    def _step_config(self, name: str) -> ModelConfig:
        config = self._steps[name].config
        assert config is not None, "check_servable came first"
        return config

    def _refusal(self, operator: str, column: str, reason: str, remedy: str) -> GraphNotExpressible:
        return GraphNotExpressible(self._path, operator, (column,), reason, remedy)


def _origin(source: Source) -> str:
    return "the request" if source.step is None else source.step


def _column(tensor: str, declared: Mapping[str, TensorSpec]) -> str:
    """The column of a declared tensor; only a pair of values and offsets is a ragged column."""
    column = column_of(tensor)
    return column if all(name in declared for name in ragged_tensors(column)) else tensor
