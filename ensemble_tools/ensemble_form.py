"""PURE. Wiring + feeds + placement -> the ensemble in the executor's place, with generated steps.

Ensembles have one name space for tensors, and every input must be read by a step. Where the answer
has a column under the name of a request's column, or leaves a column of the request unread, a
generated model stands in front: it has the names that callers know, and the ensemble behind it has
names of its own. It carries out the conversions at both ends of the graph as well.

Steps that may err at a request run one after the other. tritonserver up to 2.6x never releases an
ensemble's request when a step errs while another one runs: the models then say UNLOADING for ever,
and 2.51 has died of it (seen). So workflows and generated steps, which meet what callers send, wait
for each other by a tensor that they do not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.edges import ANSWER, Conversion, Feed, Kind, Tensor, feeds, forest_output
from ensemble_tools.errors import GraphNotExpressible, GraphNotServable
from ensemble_tools.model_config import ModelConfig, TensorSpec, data_type_number
from ensemble_tools.placement import (
    GeneratedStep,
    Placement,
    free_name,
    place,
    without_idle_calls,
)
from ensemble_tools.repository import SourceModel
from ensemble_tools.steps.sources import (
    ConversionRow,
    convert_source,
    forest_source,
    front_source,
    merlin_source,
)
from ensemble_tools.tensor_names import produced_by
from ensemble_tools.wiring import Wiring

#: The name of the ensemble behind a front model, as if it were a model of the archive.
_INNER = "ensemble"
#: The name of the step that stacks a forest's columns and calls it.
_FOREST = "forest"
#: What the templates call the conversions.
_KINDS = {
    Kind.CAST: "cast", Kind.PASS_ON: "cast", Kind.DENSE: "dense", Kind.RAGGED: "ragged",
}  # fmt: skip
_REMEDY = "SERVE_REWRITE=auto serves the executor itself"


@dataclass(frozen=True)
class GeneratedModel:
    """A model that is made: its name in the archive's name space, None for the entry model.

    source: the text of its model.py, None for an ensemble. with_graph: what lies beside the
    executor's own model.py belongs beside it.
    """

    name: str | None
    config: pb.ModelConfig
    source: str | None = None
    with_graph: bool = False


@dataclass(frozen=True)
class EnsembleForm:
    """What is published beside the children, the entry model last.

    calls: the children that are taken over. step_alone: the child that is the entry model itself,
    as in a graph of one workflow. called: models that generated ones call by name, in the order in
    which they are to be loaded. waits: children -> an input that is added to their configs, so that
    they wait for another step. reasons: why this is no pure ensemble.
    """

    calls: tuple[str, ...]
    models: tuple[GeneratedModel, ...]
    step_alone: str | None = None
    called: tuple[str, ...] = ()
    waits: Mapping[str, pb.ModelInput] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_pure(self) -> bool:
        """Whether it is a Triton ensemble of the children alone."""
        return self.step_alone is None and len(self.models) == 1 and self.models[0].source is None


def ensemble_form(
    wiring: Wiring,
    executor: SourceModel,
    steps: Mapping[str, SourceModel],
    triton_name: Callable[[str], str],
    called: frozenset[str] = frozenset(),
) -> EnsembleForm:
    """The models in the executor's place.

    steps: the children by their names in the archive. triton_name: what such a name, a child's or a
    generated model's, becomes in Triton. called: models that python models call by name, whose
    inputs must stay what they are. Raises GraphNotServable where the executor fails as well,
    GraphNotExpressible where no ensemble does.
    """
    assert executor.config is not None
    path = executor.graph_path or executor.directory
    configs = {name: step.config for name, step in steps.items() if step.config is not None}
    _check_batching(wiring, executor, executor.config, configs)
    fed = feeds(wiring, executor.config, configs, path)
    wiring = without_idle_calls(wiring, fed)
    kept = {ANSWER, *(call.key for call in wiring.calls)}
    fed = {key: feed for key, feed in fed.items() if key in kept}
    placement = place(wiring, fed, frozenset(steps), path)
    return _Builder(
        wiring, executor.config, configs, fed, placement, triton_name, path, called
    ).form()


def _check_batching(
    wiring: Wiring, executor: SourceModel, config: ModelConfig, steps: Mapping[str, ModelConfig]
) -> None:
    """Raise GraphNotServable where Merlin's own python models would have to batch."""
    batching = [("the executor", executor.name, config)] + [
        (call.operator, call.model_name, steps[call.model_name])
        for call in wiring.calls
        if call.operator.startswith("TransformWorkflow")
    ]
    for operator, name, found in batching:
        if found.max_batch_size > 0:
            raise GraphNotServable(
                executor.graph_path or executor.directory, operator, (),
                f"max_batch_size of {name} is {found.max_batch_size}, which puts a dimension in "
                "front of whole shapes; Merlin sends whole shapes, so its executor fails as well",
                "export with max_batch_size unset",
            )  # fmt: skip


class _Builder:
    """One ensemble in the making: who reads which tensor, and under which name."""

    def __init__(
        self,
        wiring: Wiring,
        config: ModelConfig,
        steps: Mapping[str, ModelConfig],
        fed: Mapping[str, Feed],
        placement: Placement,
        triton_name: Callable[[str], str],
        path: Path,
        called: frozenset[str],
    ) -> None:
        self._called = called
        self._wiring, self._config, self._steps = wiring, config, steps
        self._fed, self._placement = fed, placement
        self._triton_name, self._path = triton_name, path
        self._calls = {call.key: call for call in wiring.calls}
        self._forests = self._forest_names(placement)
        self._waits: dict[str, Tensor] = {}
        self._sources = self._all_sources()
        self._generated: dict[tuple[str, str], TensorSpec] = {
            (reader, spec.name): spec
            for reader, feed in fed.items()
            for spec in (*feed.specs, *(s for one in feed.conversions for s in one.writes))
        }
        self._answer = {
            spec.name: self._sources[ANSWER, spec.name] for spec in config.outputs.values()
        }
        self._front = self._front_reasons()
        self._taken = {*config.inputs, *config.outputs}
        self._tensor_names: dict[Tensor, str] = {}

    def _forest_names(self, placement: Placement) -> dict[str, str]:
        """A call of a forest -> the generated step that makes it."""
        taken = {*self._steps, *(step.name for step in placement.steps)}
        names: dict[str, str] = {}
        for key, call in self._calls.items():
            if call.stacked:
                names[key] = free_name(_FOREST, taken)
                taken.add(names[key])
        return names

    # -- who gives what

    def _all_sources(self) -> dict[tuple[str, str], Tensor]:
        """(reader, its tensor) -> the tensor that it is fed with."""
        found = {
            (reader, name): tensor
            for reader, feed in self._fed.items()
            for name, tensor in feed.tensors.items()
        }
        for step in self._placement.steps:
            for one in step.conversions:
                for spec in one.writes:
                    found[one.reader, spec.name] = Tensor(step.name, spec.name, one.reader)
            for reader in step.readers:
                for spec in self._fed[reader].specs:
                    found[reader, spec.name] = Tensor(step.name, spec.name, reader)
        return found

    def _spec(self, tensor: Tensor) -> TensorSpec:
        """The declaration of a tensor, with its whole shape."""
        name = tensor.name
        if tensor.reader:
            return self._generated[tensor.reader, name]
        if tensor.producer is None:
            config, spec = self._config, self._config.inputs[name]
        else:
            call = self._calls[tensor.producer]
            config = self._steps[call.model_name]
            spec = config.outputs[name]
            if call.stacked:
                return forest_output(config, spec)
        return TensorSpec(spec.name, spec.data_type, config.full_dims(spec), spec.optional)

    def _front_reasons(self) -> list[str]:
        """Why an ensemble cannot have the executor's inputs and outputs under their names."""
        reasons = [
            f"the answer, column {name!r}: it has the name of a column of the request, and in an "
            "ensemble a name is one tensor"
            for name, tensor in self._answer.items()
            if name in self._config.inputs and tensor != Tensor(None, name)
        ]
        read = {tensor for _, tensor in self._inner_reads(with_ends=True)}
        reasons += [
            f"the request, column {name!r}: no step reads it, and Triton's ensembles do not allow "
            "that"
            for name in self._config.inputs
            if Tensor(None, name) not in read
        ]
        return reasons

    def _is_end(self, step: GeneratedStep) -> bool:
        """Whether a front model would carry it out."""
        return not step.readers and step.level in (0, self._placement.deepest)

    def _inner_reads(self, *, with_ends: bool) -> list[tuple[str, Tensor]]:
        """(step or call, tensor that it reads) of everything that runs inside the ensemble."""
        reads = [
            (reader, tensor) for (reader, _), tensor in self._sources.items() if reader != ANSWER
        ]
        reads += self._waits.items()
        for step in self._placement.steps:
            if with_ends or not self._is_end(step):
                reads += [(step.name, tensor) for tensor in self._reads_of(step)]
        return reads

    def _reads_of(self, step: GeneratedStep) -> list[Tensor]:
        if not step.readers:
            return _unique(tensor for one in step.conversions for tensor in one.reads)
        request = [Tensor(None, name) for name in self._config.inputs]
        return request + [
            Tensor(key, name)
            for key, call in self._calls.items()
            if self._placement.depths[key] <= step.level
            for name in self._steps[call.model_name].outputs
        ]

    def _waited_for(self, step: str) -> list[Tensor]:
        return [self._waits[step]] if step in self._waits else []

    # -- names

    def _name(self, tensor: Tensor) -> str:
        """The tensor's name in the ensemble."""
        if tensor.producer is None:
            return tensor.name
        if not self._front and tensor in self._outputs:
            return self._outputs[tensor]
        if tensor not in self._tensor_names:
            owner = f"to.{tensor.reader}" if tensor.reader else tensor.producer
            name = produced_by(owner.replace(ANSWER, "answer"), tensor.name)
            while name in self._taken:
                name += "."
            self._taken.add(name)
            self._tensor_names[tensor] = name
        return self._tensor_names[tensor]

    @property
    def _outputs(self) -> dict[Tensor, str]:
        return {
            tensor: name for name, tensor in self._answer.items() if tensor != Tensor(None, name)
        }

    # -- the models

    def form(self) -> EnsembleForm:
        alone = self._step_alone()
        if alone is not None:
            reasons = tuple(self._front)
            return EnsembleForm((alone,), (), alone, reasons=reasons, notes=self._wiring.notes)
        found = [*self._reasons(), *self._front]
        ends = [step for step in self._placement.steps if self._front and self._is_end(step)]
        inner_steps = [step for step in self._placement.steps if step not in ends]
        if self._front and any(step.readers for step in inner_steps):
            inline = next(iter(self._wiring.inlines.values()))
            raise GraphNotExpressible(
                self._path, inline.operator, inline.columns, "this inline operator needs a process "
                f"with Merlin, and the ensemble another model in front ({self._front[0]}); the "
                "executor is one process", _REMEDY,
            )  # fmt: skip
        self._waits = self._waiting(inner_steps)
        models = [self._generated_model(step) for step in inner_steps]
        models += [self._forest_model(key, name) for key, name in self._forests.items()]
        ensemble = self._ensemble(inner_steps)
        called = tuple(dict.fromkeys(self._calls[key].model_name for key in self._forests))
        if not self._front:
            models.append(GeneratedModel(None, ensemble))
        else:
            generated = (step.name for step in self._placement.steps)
            taken = {*self._steps, *generated, *self._forests.values()}
            inner = free_name(_INNER, taken) if self._calls else ""
            if inner:
                models.append(GeneratedModel(inner, ensemble))
                called = (*called, inner)
            models.append(self._front_model(inner, ensemble, ends))
        waits = {
            self._calls[key].model_name: _input(self._after(key), self._spec(tensor))
            for key, tensor in self._waits.items()
            if key in self._calls
        }
        return EnsembleForm(
            tuple(dict.fromkeys(call.model_name for call in self._calls.values())),
            tuple(models),
            None,
            called,
            waits,
            tuple(dict.fromkeys(found)),
            self._wiring.notes,
        )

    # -- one after the other

    def _waiting(self, generated: list[GeneratedStep]) -> dict[str, Tensor]:
        """Step -> the tensor that it waits for, so that no two that may err run side by side."""
        waits: dict[str, Tensor] = {}
        behind: dict[str, set[str]] = {}
        names = (*self._calls, *(step.name for step in generated))
        signals = {name: tensor for name in names if (tensor := self._signal(name)) is not None}
        last: str | None = None
        for step, needed in self._in_order(generated, signals):
            behind[step] = needed.union(*(behind[name] for name in needed))
            if step not in signals:
                continue
            if last is not None and last not in behind[step]:
                waits[step] = signals[last]
                behind[step] |= {last, *behind[last]}
            last = step
        return waits

    def _in_order(
        self, generated: list[GeneratedStep], signals: Mapping[str, Tensor]
    ) -> list[tuple[str, set[str]]]:
        """Every step behind those it needs, with these; among the ready ones signals come first."""
        steps = {step.name: step for step in generated}
        waiting = {
            name: {
                tensor.producer
                for tensor in (
                    self._reads_of(steps[name])
                    if name in steps
                    else [t for (reader, _), t in self._sources.items() if reader == name]
                )
                if tensor.producer is not None
                and (tensor.producer in steps or tensor.producer in self._calls)
            }
            for name in (*self._calls, *steps)
        }
        ordered: dict[str, set[str]] = {}
        while waiting:
            ready = [name for name, needed in waiting.items() if needed <= ordered.keys()]
            chosen = next((name for name in ready if name in signals), ready[0])
            ordered[chosen] = waiting.pop(chosen)
        return list(ordered.items())

    def _signal(self, name: str) -> Tensor | None:
        """A tensor of the step that others can wait for, if it may err and can wait itself.

        One number a row, so that its shape is sure: what else is declared, Triton never checked.
        """
        if name in self._calls:
            call = self._calls[name]
            config = self._steps[call.model_name]
            alone = sum(call.model_name == other.model_name for other in self._calls.values()) == 1
            if not (
                alone
                and call.model_name not in self._called
                and call.operator.startswith("TransformWorkflow")
                and config.backend == "python"
                and "sparse_max" not in config.message.parameters
            ):
                return None
            tensors = [Tensor(name, output) for output in config.outputs]
        else:
            tensors = [
                tensor for tensor in _unique(self._sources.values()) if tensor.producer == name
            ]
        fitting = [
            tensor
            for tensor in tensors
            if len(self._spec(tensor).dims) == 1 and self._spec(tensor).data_type != "TYPE_STRING"
        ]
        return fitting[0] if fitting else None

    def _after(self, key: str) -> str:
        """The name of the input by which a child waits."""
        name, taken = "after", self._steps[self._calls[key].model_name].inputs
        while name in taken:
            name += "."
        return name

    def _step_alone(self) -> str | None:
        """The only call, when it has exactly the executor's inputs and outputs."""
        if len(self._calls) != 1 or self._placement.steps:
            return None
        key, call = next(iter(self._calls.items()))
        config = self._steps[call.model_name]
        inputs = {name: Tensor(None, name) for name in self._config.inputs}
        outputs = {name: Tensor(key, name) for name in self._config.outputs}
        return (
            call.model_name
            if self._front
            and config.backend == "python"
            and config.max_batch_size == 0
            and self._fed[key].tensors == inputs
            and self._answer == outputs
            and config.inputs.keys() == self._config.inputs.keys()
            and config.outputs.keys() == self._config.outputs.keys()
            else None
        )

    def _reasons(self) -> list[str]:
        found = []
        for key, feed in self._fed.items():
            who = "the answer" if key == ANSWER else self._calls[key].model_name
            found += [
                f"{who}, column {', '.join(map(repr, one.columns[:10]))}: {one.why}"
                for one in feed.conversions
            ]
        found += [
            f"{call.model_name}: it takes one matrix in the place of {len(call.stacked)} columns"
            for call in self._calls.values()
            if call.stacked
        ]
        found += [
            f"{inline.operator}: it runs Python inside Merlin's executor and has no model directory"
            for inline in self._wiring.inlines.values()
        ]
        return found

    def _ensemble(self, generated: list[GeneratedStep]) -> pb.ModelConfig:
        message = pb.ModelConfig(platform="ensemble")
        inside = {*self._calls, *(step.name for step in generated)}
        reads = [read for read in self._inner_reads(with_ends=not self._front) if read[0] in inside]
        read = _unique(tensor for _, tensor in reads)
        wanted = {*read, *self._wanted_outside(generated)}
        outside = [tensor for tensor in read if tensor.producer not in inside]
        if self._front:
            message.input.extend(_input(self._name(one), self._spec(one)) for one in outside)
            message.output.extend(
                _output(self._name(one), self._spec(one)) for one in self._wanted_outside(generated)
            )
        else:
            message.input.extend(self._config.message.input)
            for tensor in message.input:
                tensor.optional = False  # the executor asks each request for all of its columns
            message.output.extend(self._declared_outputs())
        for step in [*self._calls, *(step.name for step in generated)]:
            message.ensemble_scheduling.step.append(self._step(step, generated, wanted))
        return message

    def _wanted_outside(self, generated: list[GeneratedStep]) -> list[Tensor]:
        """What callers, or the front model, want of the ensemble."""
        inside = {*self._calls, *(step.name for step in generated)}
        wanted = [*self._answer.values()]
        for step in self._placement.steps:
            if step not in generated:
                wanted += self._reads_of(step)
        return _unique(tensor for tensor in wanted if tensor.producer in inside)

    def _step(
        self, name: str, generated: list[GeneratedStep], wanted: set[Tensor]
    ) -> pb.ModelEnsembling.Step:
        given = [
            tensor
            for tensor in sorted(wanted, key=lambda tensor: tensor.name)
            if tensor.producer == name
        ]
        if name in self._calls:
            model = self._triton_name(self._forests.get(name, self._calls[name].model_name))
            inputs = {
                own: self._name(tensor)
                for (reader, own), tensor in self._sources.items()
                if reader == name
            }
            if name in self._waits:
                inputs[self._after(name)] = self._name(self._waits[name])
            outputs = {tensor.name: self._name(tensor) for tensor in given}
        else:
            step = next(step for step in generated if step.name == name)
            model = self._triton_name(name)
            read = [*self._reads_of(step), *self._waited_for(name)]
            inputs = {self._name(tensor): self._name(tensor) for tensor in read}
            outputs = {self._name(tensor): self._name(tensor) for tensor in given}
        return pb.ModelEnsembling.Step(
            model_name=model, model_version=-1, input_map=inputs, output_map=outputs
        )

    def _declared_outputs(self) -> list[pb.ModelOutput]:
        """The executor's outputs, with the shapes that they really have.

        Nobody holds a python model's answer to its declared shape; Triton does an ensemble's.
        """
        declared = []
        for output in self._config.message.output:
            copy = pb.ModelOutput()
            copy.CopyFrom(output)
            spec = self._spec(self._answer[output.name])
            del copy.dims[:]
            copy.dims.extend(spec.dims)
            copy.data_type = data_type_number(spec.data_type)
            declared.append(copy)
        return declared

    def _generated_model(self, step: GeneratedStep) -> GeneratedModel:
        config = _python_config(self._config)
        config.input.extend(
            _input(self._name(tensor), self._spec(tensor))
            for tensor in _unique([*self._reads_of(step), *self._waited_for(step.name)])
        )
        made = [
            tensor for tensor in _unique(self._sources.values()) if tensor.producer == step.name
        ]
        config.output.extend(_output(self._name(tensor), self._spec(tensor)) for tensor in made)
        if not step.readers:
            rows = [self._row(step, one) for one in step.conversions]
            return GeneratedModel(step.name, config, convert_source(rows))
        calls = {
            call.model_name: {
                name: self._name(Tensor(key, name)) for name in self._steps[call.model_name].outputs
            }
            for key, call in self._calls.items()
            if self._placement.depths[key] <= step.level
        }
        readers = {
            "answer" if reader == ANSWER else reader: (
                () if reader == ANSWER else self._calls[reader].place,
                {
                    spec.name: self._name(self._sources[reader, spec.name])
                    for spec in self._fed[reader].specs
                },
            )
            for reader in step.readers
        }
        for key, parameter in self._config.message.parameters.items():
            config.parameters[key].CopyFrom(parameter)  # such as the executor's Python environment
        return GeneratedModel(step.name, config, merlin_source(calls, readers), with_graph=True)

    def _forest_model(self, key: str, name: str) -> GeneratedModel:
        """A step that stacks what the forest operator is fed with and calls the forest.

        As an ensemble's step the forest, which batches, would be given back without its first
        dimension for a single row (Triton's ReshapeTensorDims); a call leaves shapes alone.
        """
        call, feed = self._calls[key], self._fed[key]
        outputs = [Tensor(key, output) for output in self._steps[call.model_name].outputs]
        config = _python_config(self._config)
        config.input.extend(_input(spec.name, spec) for spec in feed.specs)
        config.output.extend(_output(tensor.name, self._spec(tensor)) for tensor in outputs)
        columns = [] if feed.merlin else [spec.name for spec in feed.specs]
        return GeneratedModel(
            name,
            config,
            forest_source(
                self._triton_name(call.model_name), columns, [tensor.name for tensor in outputs]
            ),
        )

    def _row(self, step: GeneratedStep, one: Conversion) -> ConversionRow:
        values = one.writes[0]
        writes = [Tensor(step.name, spec.name, one.reader) for spec in one.writes]
        return {
            "kind": _KINDS[one.kind],
            "columns": list(one.columns),
            "reads": [self._name(tensor) for tensor in one.reads],
            "writes": [self._name(tensor) for tensor in writes],
            "dtype": one.dtype,
            "shape": list(values.dims),
            "why": one.why,
        }

    def _front_model(
        self, inner: str, ensemble: pb.ModelConfig, ends: list[GeneratedStep]
    ) -> GeneratedModel:
        config = _python_config(self._config)
        config.input.extend(self._config.message.input)
        config.output.extend(self._declared_outputs())
        before = [step for step in ends if step.level == 0]
        after = [step for step in ends if step.level != 0]
        return GeneratedModel(
            None,
            config,
            front_source(
                self._triton_name(inner) if inner else "",
                [tensor.name for tensor in ensemble.input] if inner else [],
                [tensor.name for tensor in ensemble.output] if inner else [],
                [self._row(step, one) for step in before for one in step.conversions],
                [self._row(step, one) for step in after for one in step.conversions],
                [(name, self._name(tensor)) for name, tensor in self._answer.items()],
            ),
        )


def _python_config(executor: ModelConfig) -> pb.ModelConfig:
    """A generated model's, with as many instances as the executor has: they take its requests."""
    count = max((group.count for group in executor.message.instance_group), default=0)
    group = pb.ModelInstanceGroup(kind=pb.ModelInstanceGroup.Kind.KIND_CPU, count=count)
    return pb.ModelConfig(backend="python", instance_group=[group])


def _input(name: str, spec: TensorSpec) -> pb.ModelInput:
    return pb.ModelInput(
        name=name, data_type=data_type_number(spec.data_type), dims=list(spec.dims)
    )


def _output(name: str, spec: TensorSpec) -> pb.ModelOutput:
    return pb.ModelOutput(
        name=name, data_type=data_type_number(spec.data_type), dims=list(spec.dims)
    )


def _unique(tensors: Iterable[Tensor]) -> list[Tensor]:
    return list(dict.fromkeys(tensors))
