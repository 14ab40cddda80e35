"""The models that are generated, as configs and sources. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import (
    ModelConfig,
    declare_input,
    declare_output,
    number_data_type,
)
from ensemble_tools.archive.tensor_names import list_ragged_tensors
from ensemble_tools.ensembles.conversions import Conversion, ConversionKind, EnsembleTensor
from ensemble_tools.ensembles.naming import name_tensors
from ensemble_tools.ensembles.operators import OperatorWork
from ensemble_tools.ensembles.ordering import Ordering, find_asked
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.placement import GeneratedStep, choose_free_name
from ensemble_tools.ensembles.producers import ANSWER, FromCall, FromStep
from ensemble_tools.ensembles.reads import FrontModel, Reads
from ensemble_tools.ensembles.wiring import Call, NodePath
from ensemble_tools.steps.sources import (
    ConversionRow,
    convert_source,
    render_forest,
    render_front,
    render_merlin,
    render_operator,
)

#: The name of the ensemble behind a front model, as if it were a model of the archive.
_INNER = "ensemble"
#: The name of the step that stacks a forest's columns and calls it.
_FOREST = "forest"
#: The name of the input by which a child waits.
_AFTER = "after"
#: What the templates call the conversions.
_KINDS = {
    ConversionKind.CAST: "cast",
    ConversionKind.PASS_ON: "cast",
    ConversionKind.DENSE: "dense",
    ConversionKind.RAGGED: "ragged",
}


@dataclass(frozen=True)
class GeneratedModel:
    """A model that is made for an ensemble."""

    #: Its name among the archive's models, None for the entry model.
    name: str | None
    config: pb.ModelConfig
    #: The text of its model.py, None for an ensemble.
    source: str | None = None
    #: Whether the files beside the executor's model.py are published beside its own.
    with_graph: bool = False
    #: The call whose operator it stands for: the work of that call says which other files lie
    #: beside it. None where it stands for no operator.
    call: Call | None = None


@dataclass(frozen=True)
class EnsembleForm:
    """The models of an ensemble."""

    #: The generated models, the entry model last.
    models: tuple[GeneratedModel, ...]
    #: The archive's models that are taken over.
    children: tuple[str, ...] = ()
    #: The child that is the entry model itself, as in a graph of one workflow.
    step_alone: str | None = None
    #: Models that generated ones call by name, in the order in which they are loaded.
    called: tuple[str, ...] = ()
    #: Children -> an input that is added to their configs, so that they wait for another step.
    waits: Mapping[str, pb.ModelInput] = field(default_factory=dict)
    #: Why this is no pure ensemble.
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_pure(self) -> bool:
        """Whether it is a Triton ensemble of the children alone."""
        return self.step_alone is None and len(self.models) == 1 and self.models[0].source is None


def render_models(
    parts: Parts, reads: Reads, ordering: Ordering, triton_name: Callable[[str], str]
) -> EnsembleForm:
    """Everything that is generated. triton_name: what a name in the archive becomes in Triton."""
    generated = _name_made(parts)
    names = name_tensors(parts, reads, ordering)
    renderer = _Renderer(parts, reads, ordering, names, generated, triton_name)
    models = [renderer.render_step(step) for step in reads.inner]
    models += [renderer.render_made(key, name) for key, name in generated.items()]
    called = [call.model_name for call in parts.calls.values() if call.stacked]
    ensemble = renderer.render_ensemble()
    if reads.front is None:
        models.append(GeneratedModel(None, ensemble))
    elif not parts.calls:
        models.append(renderer.render_front(reads.front, "", pb.ModelConfig()))
    else:
        inner = choose_free_name(_INNER, {*_list_step_names(parts), *generated.values()})
        called.append(inner)
        models.append(GeneratedModel(inner, ensemble))
        models.append(renderer.render_front(reads.front, inner, ensemble))
    return EnsembleForm(
        tuple(models), called=tuple(dict.fromkeys(called)), waits=renderer.render_waits()
    )


def _list_step_names(parts: Parts) -> set[str]:
    return {*parts.steps, *(step.name for step in parts.placement.steps)}


def _name_made(parts: Parts) -> dict[str, str]:
    """A call of a forest, or in the place of an operator -> the generated step that makes it."""
    taken = _list_step_names(parts)
    names: dict[str, str] = {}
    for key, call in parts.calls.items():
        preferred = call.work.kind if call.work is not None else _FOREST
        if call.stacked or call.work is not None:
            names[key] = choose_free_name(preferred, taken)
            taken.add(names[key])
    return names


@dataclass(frozen=True)
class _Renderer:
    """Writes the configs of an ensemble."""

    parts: Parts
    reads: Reads
    ordering: Ordering
    #: The names of tensors in the ensemble.
    names: Mapping[EnsembleTensor, str]
    #: Calls -> the generated steps that make them.
    made: Mapping[str, str]
    triton_name: Callable[[str], str]

    # -- the ensemble

    def render_ensemble(self) -> pb.ModelConfig:
        """The executor's inputs and outputs, or behind a front model what that sends and wants."""
        message = pb.ModelConfig(platform="ensemble")
        if self.reads.front:
            message.input.extend(map(self._make_input, self.reads.entering))
            message.output.extend(map(self._make_output, self.reads.leaving))
        else:
            message.input.extend(self.parts.executor.message.input)
            for tensor in message.input:
                tensor.optional = False  # the executor asks each request for all of its columns
            message.output.extend(self._declare_outputs())
        outputs = find_asked(self.reads, self.ordering)
        steps = [self._render_call(key, outputs[key]) for key in self.parts.calls]
        steps += [self._render_inner(step, outputs[step.name]) for step in self.reads.inner]
        message.ensemble_scheduling.step.extend(steps)
        return message

    def _render_call(self, key: str, tensors: list[EnsembleTensor]) -> pb.ModelEnsembling.Step:
        model = self.made.get(key, self.parts.calls[key].model_name)
        inputs = {own: self.names[tensor] for own, tensor in self.reads.calls[key].items()}
        if key in self.ordering.waits:
            inputs[self._choose_after(key)] = self.names[self.ordering.waits[key]]
        outputs = {tensor.name: self.names[tensor] for tensor in tensors}
        return self._make_ensemble_step(model, inputs, outputs)

    def _render_inner(
        self, step: GeneratedStep, tensors: list[EnsembleTensor]
    ) -> pb.ModelEnsembling.Step:
        """A generated step knows its tensors by their names in the ensemble."""
        inputs = {self.names[tensor]: self.names[tensor] for tensor in self._list_inputs(step)}
        outputs = {self.names[tensor]: self.names[tensor] for tensor in tensors}
        return self._make_ensemble_step(step.name, inputs, outputs)

    def _make_ensemble_step(
        self, model: str, inputs: Mapping[str, str], outputs: Mapping[str, str]
    ) -> pb.ModelEnsembling.Step:
        return pb.ModelEnsembling.Step(
            model_name=self.triton_name(model),
            model_version=-1,
            input_map=inputs,
            output_map=outputs,
        )

    # -- what waits

    def render_waits(self) -> dict[str, pb.ModelInput]:
        """Children that wait -> the input that is added to their configs."""
        return {
            self.parts.calls[key].model_name: declare_input(
                self.reads.specs[tensor], self._choose_after(key)
            )
            for key, tensor in self.ordering.waits.items()
            if key in self.parts.calls and key not in self.made
        }

    def _choose_after(self, key: str) -> str:
        name, taken = _AFTER, self.parts.find_config(key).inputs
        while name in taken:
            name += "."
        return name

    def _list_inputs(self, step: GeneratedStep) -> tuple[EnsembleTensor, ...]:
        """What it reads, and what it waits for."""
        wait = self.ordering.waits.get(step.name)
        read = self.reads.steps[step.name]
        return read if wait is None else tuple(dict.fromkeys((*read, wait)))

    # -- generated steps

    def render_step(self, step: GeneratedStep) -> GeneratedModel:
        """A step that carries out conversions, or runs inline operators with Merlin."""
        config = _make_python_config(self.parts.executor)
        config.input.extend(map(self._make_input, self._list_inputs(step)))
        config.output.extend(map(self._make_output, self.reads.outputs[step.name]))
        if not step.readers:
            rows = [self._render_conversion(step, conversion) for conversion in step.conversions]
            return GeneratedModel(step.name, config, convert_source(rows))
        for key, parameter in self.parts.executor.message.parameters.items():
            config.parameters[key].CopyFrom(parameter)  # such as the executor's Python environment
        calls = {
            call.model_name: {
                name: self.names[EnsembleTensor(FromCall(call.key), name)]
                for name in self.parts.find_config(call.key).outputs
            }
            for call in self.parts.list_calls_up_to(step.level)
        }
        readers = dict(self._render_reader(step, reader) for reader in step.readers)
        return GeneratedModel(step.name, config, render_merlin(calls, readers), with_graph=True)

    def _render_reader(
        self, step: GeneratedStep, reader: str
    ) -> tuple[str, tuple[NodePath, dict[str, str]]]:
        outputs = {
            spec.name: self.names[EnsembleTensor(FromStep(step.name, reader), spec.name)]
            for spec in self.parts.plans[reader].specs
        }
        if reader == ANSWER:
            return "answer", ((), outputs)
        return reader, (self.parts.calls[reader].node_path, outputs)

    def render_made(self, key: str, name: str) -> GeneratedModel:
        """The step that makes this call."""
        work = self.parts.calls[key].work
        if work is None:
            return self._render_forest(key, name)
        return self._render_operator(key, name, work)

    def _render_operator(self, key: str, name: str, work: OperatorWork) -> GeneratedModel:
        """A step in the place of an operator, each column under its own name."""
        config = _make_python_config(self.parts.executor)
        if work.may_use_gpu:
            _put_on_gpu(config, self.parts.executor)
        own = self.parts.find_config(key)
        config.input.extend(own.message.input)
        config.output.extend(own.message.output)
        if key in self.ordering.waits:
            spec = self.reads.specs[self.ordering.waits[key]]
            config.input.append(declare_input(spec, self._choose_after(key)))
        reads = {
            column: [
                tensor for tensor in own.inputs if tensor in (column, *list_ragged_tensors(column))
            ]
            for column in work.reads
        }
        call = self.parts.calls[key]
        source = render_operator(call.operator, work.kind, reads, work.writes, work.settings)
        return GeneratedModel(name, config, source, call=call)

    def _render_forest(self, key: str, name: str) -> GeneratedModel:
        """A step that stacks what the forest operator is fed with and calls the forest.

        As an ensemble's step the forest, which batches, would be given back without its first
        dimension for a single row (Triton's ReshapeTensorDims); a call leaves shapes alone.
        """
        call, plan = self.parts.calls[key], self.parts.plans[key]
        outputs = [*self.parts.find_config(key).outputs]
        specs = self.reads.specs
        config = _make_python_config(self.parts.executor)
        config.input.extend(map(declare_input, plan.specs))
        config.output.extend(
            declare_output(specs[EnsembleTensor(FromCall(key), output)], output)
            for output in outputs
        )
        columns = [] if plan.merlin else [spec.name for spec in plan.specs]
        source = render_forest(self.triton_name(call.model_name), columns, outputs)
        return GeneratedModel(name, config, source)

    def _render_conversion(self, step: GeneratedStep, conversion: Conversion) -> ConversionRow:
        producer = FromStep(step.name, conversion.reader)
        writes = [EnsembleTensor(producer, spec.name) for spec in conversion.writes]
        return {
            "kind": _KINDS[conversion.kind],
            "columns": list(conversion.columns),
            "reads": [self.names[tensor] for tensor in conversion.reads],
            "writes": [self.names[tensor] for tensor in writes],
            "dtype": conversion.dtype,
            "shape": list(conversion.writes[0].dims),
            "why": conversion.why,
        }

    # -- the model in front

    def render_front(
        self, front: FrontModel, inner: str, ensemble: pb.ModelConfig
    ) -> GeneratedModel:
        """The entry model before an ensemble of that name; without one where the name is empty."""
        config = _make_python_config(self.parts.executor)
        config.input.extend(self.parts.executor.message.input)
        config.output.extend(self._declare_outputs())
        source = render_front(
            self.triton_name(inner) if inner else "",
            [tensor.name for tensor in ensemble.input],
            [tensor.name for tensor in ensemble.output],
            self._render_conversions(front.before),
            self._render_conversions(front.behind),
            [(name, self.names[tensor]) for name, tensor in self.reads.answer.items()],
        )
        return GeneratedModel(None, config, source)

    def _render_conversions(self, steps: Iterable[GeneratedStep]) -> list[ConversionRow]:
        return [
            self._render_conversion(step, conversion)
            for step in steps
            for conversion in step.conversions
        ]

    def _declare_outputs(self) -> list[pb.ModelOutput]:
        """The executor's outputs, with the shapes that they really have.

        Nobody holds a python model's answer to its declared shape; Triton does an ensemble's.
        """
        declared = []
        for output in self.parts.executor.message.output:
            copy = pb.ModelOutput()
            copy.CopyFrom(output)
            spec = self.reads.specs[self.reads.answer[output.name]]
            del copy.dims[:]
            copy.dims.extend(spec.dims)
            copy.data_type = number_data_type(spec.data_type)
            declared.append(copy)
        return declared

    def _make_input(self, tensor: EnsembleTensor) -> pb.ModelInput:
        return declare_input(self.reads.specs[tensor], self.names[tensor])

    def _make_output(self, tensor: EnsembleTensor) -> pb.ModelOutput:
        return declare_output(self.reads.specs[tensor], self.names[tensor])


def _make_python_config(executor: ModelConfig) -> pb.ModelConfig:
    """A generated model's, with as many instances as the executor has: they take its requests."""
    count = max((group.count for group in executor.message.instance_group), default=0)
    group = pb.ModelInstanceGroup(kind=pb.ModelInstanceGroup.Kind.KIND_CPU, count=count)
    return pb.ModelConfig(backend="python", instance_group=[group])


def _put_on_gpu(config: pb.ModelConfig, executor: ModelConfig) -> None:
    """If the executor's config asks for it; one that nobody asked for is left to predictors."""
    (own,) = config.instance_group
    for group in executor.message.instance_group:
        if group.kind == pb.ModelInstanceGroup.KIND_GPU:
            own.kind = group.kind
            own.gpus.extend(gpu for gpu in group.gpus if gpu not in own.gpus)
