"""PURE, the heart: repository + graph + namespace -> ServingPlan, the files Triton will be given.

An executor model is served in the first of these forms that gives the executor's own numbers: an
ensemble of its children alone (or its only child itself); an ensemble with generated steps; the
executor, with its children loaded for it. Any other model is published as delivered, under its
namespace's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.delivered import (
    called_by_name,
    check_ensemble,
    check_servable,
    reachable,
    with_steps,
)
from ensemble_tools.demands import Limits, check_demands
from ensemble_tools.edges import answer_columns, request_columns
from ensemble_tools.ensemble_form import EnsembleForm, GeneratedModel, ensemble_form
from ensemble_tools.errors import GraphNotExpressible, GraphNotServable, shortened
from ensemble_tools.executor_graph import ExecutorGraph
from ensemble_tools.model_config import print_model_config
from ensemble_tools.namespace import Namespace
from ensemble_tools.repository import CONFIG_FILE, ModelRepository, SourceModel
from ensemble_tools.steps.sources import named_calls_source
from ensemble_tools.wiring import Wiring, called_models, has_foreign_operators, wire
from ensemble_tools.workflows.program import Program


class Form(Enum):
    """How a model is served."""

    PURE_ENSEMBLE = "pure ensemble"
    STEP_ALONE = "the only step itself"
    STEPPED_ENSEMBLE = "ensemble with generated steps"
    EXECUTOR = "executor"
    AS_DELIVERED = "as delivered"


class Rewrite(Enum):
    """What may become of an executor model (SERVE_REWRITE).

    AUTO: the first form that gives the executor's numbers. ENSEMBLE: an ensemble or nothing.
    EXECUTOR: the executor itself, whatever the graph.
    """

    AUTO = "auto"
    ENSEMBLE = "ensemble"
    EXECUTOR = "executor"


@dataclass(frozen=True)
class Compiled:
    """An NVTabular workflow as a program that needs numpy alone.

    place: the model's program file, in its directory, whose place the compiled one takes.
    """

    program: Program
    place: str


@dataclass(frozen=True)
class PublishedModel:
    """One model directory of the serving repository.

    source_name: the model it was in the archive. config_text: its config.pbtxt, None for none.
    links: names in the directory and what each stands for, files by links.
    files: paths in the directory, such as `1/model.py`, and the text of each: generated ones, which
    take the place of what is linked there.
    empty_versions: version directories that are made because Triton wants one and there is nothing
    to put into it. compiled: what is published in the place of its workflow; not_compiled: why a
    workflow is published as delivered, empty for other models.
    """

    triton_name: str
    source_name: str
    config_text: str | None
    links: tuple[tuple[str, Path], ...] = ()
    empty_versions: tuple[int, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    compiled: Compiled | None = None
    not_compiled: str = ""


@dataclass(frozen=True)
class ServingPlan:
    """Everything that serves one SageMaker model; steps before the models that need them.

    called: Triton names of models that python models call by name, in the order in which they are
    loaded; tritonserver loads an ensemble's steps with it, but knows nothing of such calls.
    reasons: why the forms that come before this one were not taken, a sentence for each place.
    notes are sentences for people: what was left out and why. doubts are sentences about what was
    passed on without being understood, for the message of a load that then fails.
    """

    model_name: str
    form: Form
    entry: str
    models: tuple[PublishedModel, ...]
    called: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def triton_names(self) -> tuple[str, ...]:
        """Every Triton model of the plan, the entry model last."""
        return tuple(model.triton_name for model in self.models)

    @property
    def source_names(self) -> Mapping[str, str]:
        """Triton name -> the model's name in the archive, for messages."""
        return {model.triton_name: model.source_name for model in self.models}

    @property
    def compiled(self) -> int:
        """How many of its models are compiled workflows."""
        return sum(model.compiled is not None for model in self.models)

    @property
    def not_compiled(self) -> tuple[str, ...]:
        """Why NVTabular itself serves a workflow; a sentence for each."""
        return tuple(
            f"{model.source_name}: {model.not_compiled}"
            for model in self.models
            if model.not_compiled
        )

    @property
    def kept(self) -> tuple[str, ...]:
        """Which operators of compiled workflows NVTabular runs, and why; a sentence for each."""
        return tuple(
            f"{model.source_name}: {kept.reason}"
            for model in self.models
            if model.compiled is not None
            for kept in model.compiled.program.kept
        )


def plan(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    *,
    strict: bool = True,
    rewrite: Rewrite = Rewrite.AUTO,
    nvtabular: str = "",
    limits: Limits | None = None,
) -> ServingPlan:
    """Decide how the archive is served.

    graph: the entry model's executor graph, None when it has none. strict: Triton runs without
    auto-completion, so configs must be whole. rewrite: which forms an executor model may take.
    nvtabular: the version that the models' Python has, empty when it is not known. limits: what
    configs may ask for, this machine's when they are not given. Raises ArchiveError or IllegalName,
    and never answers with a plan whose numbers differ from what the archive itself would compute.
    """
    made = _planned(repository, graph, namespace, strict, rewrite, nvtabular)
    served = {model.source_name for model in made.models} | {repository.entry.name}
    wanted = (model for name, model in repository.models.items() if name in served)
    check_demands(wanted, repository.path, limits or Limits())
    return made


def _planned(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    strict: bool,
    rewrite: Rewrite,
    nvtabular: str,
) -> ServingPlan:
    if graph is None:
        return _as_delivered(repository, namespace, strict, nvtabular)
    check_servable(repository.entry, strict=True, under_executor=True)
    if rewrite is Rewrite.EXECUTOR:
        reason = "SERVE_REWRITE=executor asks for it"
        return _as_executor(repository, graph, namespace, reason, nvtabular)
    try:
        return _as_ensemble(repository, graph, namespace, nvtabular)
    except GraphNotExpressible as error:
        if rewrite is Rewrite.ENSEMBLE:
            raise
        return _as_executor(repository, graph, namespace, error.finding, nvtabular)


def _as_delivered(
    repository: ModelRepository, namespace: Namespace, strict: bool, nvtabular: str
) -> ServingPlan:
    models = reachable(repository)
    for model in models:
        check_servable(model, strict=strict, nvtabular=nvtabular)
        check_ensemble(model)
    names = {model.name: namespace.step(model.name) for model in models[:-1]}
    names[repository.entry.name] = namespace.entry
    return ServingPlan(
        namespace.model_name,
        Form.AS_DELIVERED,
        namespace.entry,
        tuple(_published(model, names, repository.calls) for model in models),
        called=tuple(names[name] for name in called_by_name(models, repository.calls)),
        notes=_left_out(repository, names),
        doubts=_doubts(models),
    )


def _as_ensemble(
    repository: ModelRepository, graph: ExecutorGraph, namespace: Namespace, nvtabular: str
) -> ServingPlan:
    executor = repository.entry
    assert executor.config is not None
    assert executor.graph_path is not None
    _check_template(graph, executor.graph_path.parent.parent)
    wiring = wire(
        graph,
        request_columns(executor.config),
        answer_columns(executor.config),
        executor.graph_path,
    )
    called = [_child(repository, call.model_name) for call in wiring.calls]
    steps = with_steps(called, repository.models, repository.calls)
    for step in steps:
        check_servable(step, strict=True, under_executor=True, nvtabular=nvtabular)
        check_ensemble(step)
    _check_all_known(wiring, graph, repository, steps)
    found = {step.name: step for step in steps}
    by_name = frozenset(name for names in repository.calls.values() for name in names)
    form = ensemble_form(wiring, executor, found, namespace.step, by_name)
    _check_release(form, graph, executor.graph_path)
    taken = [repository.models[name] for name in form.calls]
    steps = with_steps(taken, repository.models, repository.calls)
    names = {step.name: namespace.step(step.name) for step in steps}
    if form.step_alone is not None:
        names[form.step_alone] = namespace.entry
    kind = (
        Form.STEP_ALONE if form.step_alone is not None
        else Form.PURE_ENSEMBLE if form.is_pure
        else Form.STEPPED_ENSEMBLE
    )  # fmt: skip
    return ServingPlan(
        namespace.model_name,
        kind,
        namespace.entry,
        (
            *(
                _waiting(_published(step, names, repository.calls), form.waits.get(step.name))
                for step in steps
            ),
            *(_generated(model, executor, namespace) for model in form.models),
        ),
        called=tuple(
            namespace.step(name)
            for name in (*called_by_name((*steps, executor), repository.calls), *form.called)
        ),
        reasons=form.reasons,
        notes=(
            *form.notes,
            *_waits(form),
            *_left_out(repository, {**names, executor.name: namespace.entry}),
        ),
        doubts=(*_doubts(steps), *_doubts([executor], "it is not passed on to the ensemble")),
    )


def _waits(form: EnsembleForm) -> tuple[str, ...]:
    return tuple(
        f"{name} waits for another step by its input {after.name!r}, which it does not read: "
        "tritonserver never releases a request in which a step errs while another one runs"
        for name, after in form.waits.items()
    )


def _check_template(graph: ExecutorGraph, version: Path) -> None:
    if graph.customised:
        raise GraphNotExpressible(
            version / "model.py", "the executor", (),
            f"model.py is not the one that merlin-systems exports ({graph.customised}): what it "
            "adds would be lost in an ensemble",
            "SERVE_REWRITE=auto serves the executor itself",
        )  # fmt: skip


def _check_release(form: EnsembleForm, graph: ExecutorGraph, path: Path) -> None:
    """Generated steps do what the executor does since 23.06; what an older one does, it knows."""
    if graph.outdated and any(model.source is not None for model in form.models):
        raise GraphNotExpressible(
            path, "the executor", (),
            f"merlin-systems {graph.outdated} wrote it, whose executor converts columns in another "
            f"way than those since 23.06 ({form.reasons[0]})",
            "export it again with merlin-systems 23.08, or SERVE_REWRITE=auto serves the executor",
        )  # fmt: skip


def _check_all_known(
    wiring: Wiring, graph: ExecutorGraph, repository: ModelRepository, steps: Iterable[SourceModel]
) -> None:
    """A user's own operator may call models by itself: then only the executor knows the calls."""
    others = repository.models.keys() - {step.name for step in steps} - {repository.entry.name}
    if not wiring.inlines or not (others or (has_foreign_operators(graph) and wiring.calls)):
        return
    foreign = [one for one in wiring.inlines.values() if one.foreign] or [*wiring.inlines.values()]
    may_call = min(others) if others else wiring.calls[0].model_name
    raise GraphNotExpressible(
        repository.graph_path or repository.path, foreign[0].operator, foreign[0].columns,
        f"this inline operator may call the model {may_call} by itself, which only the executor "
        "lets it do", "SERVE_REWRITE=auto serves the executor itself",
    )  # fmt: skip


def _child(repository: ModelRepository, name: str) -> SourceModel:
    """The model directory that an operator of the graph calls; raises GraphNotServable."""
    if name not in repository.models:
        raise GraphNotServable(
            repository.graph_path or repository.path, name, (),
            "the graph calls this model, and the archive has no directory of that name",
            f"add {shortened(name)}/ beside {repository.entry.name}/",
        )  # fmt: skip
    return repository.models[name]


def _generated(
    model: GeneratedModel, executor: SourceModel, namespace: Namespace
) -> PublishedModel:
    name = namespace.entry if model.name is None else namespace.step(model.name)
    assert executor.graph_path is not None
    return PublishedModel(
        name,
        model.name or executor.name,
        print_model_config(model.config),
        _beside_the_program(executor, executor.graph_path) if model.with_graph else (),
        (1,) if model.source is None else (),
        (("1/model.py", model.source),) if model.source is not None else (),
    )


def _beside_the_program(executor: SourceModel, graph: Path) -> tuple[tuple[str, Path], ...]:
    """Links to what the executor has: the graph, modules of its operators, its environment."""
    version = graph.parent.parent
    inside = sorted(name.rstrip("/") for name in executor.payload[int(version.name)])
    around = (
        name
        for name in executor.entries
        if name != CONFIG_FILE and name not in map(str, executor.versions)
    )
    left_out = {executor.python_file, "__pycache__"}
    return (
        *((f"1/{name}", version / name) for name in inside if name not in left_out),
        *((name, executor.directory / name) for name in around),
    )


def _as_executor(
    repository: ModelRepository,
    graph: ExecutorGraph,
    namespace: Namespace,
    reason: str,
    nvtabular: str,
) -> ServingPlan:
    """The executor under the entry model's name, its calls mapped to its children's names."""
    executor = repository.entry
    calls = {**repository.calls, executor.name: _executor_calls(repository, graph)}
    models = reachable(repository, calls)
    for model in models:
        check_servable(model, strict=True, under_executor=True, nvtabular=nvtabular)
        check_ensemble(model)
    names = {model.name: namespace.step(model.name) for model in models[:-1]}
    names[executor.name] = namespace.entry
    return ServingPlan(
        namespace.model_name,
        Form.EXECUTOR,
        namespace.entry,
        tuple(_published(model, names, calls) for model in models),
        called=tuple(names[name] for name in called_by_name(models, calls)),
        reasons=(reason,),
        notes=_left_out(repository, names),
        doubts=_doubts(models),
    )


def _executor_calls(repository: ModelRepository, graph: ExecutorGraph) -> tuple[str, ...]:
    """What the graph names; and all else in the archive, where a user's own code may call it."""
    named = tuple(_child(repository, name).name for name in called_models(graph))
    if not graph.customised and not has_foreign_operators(graph):
        return named
    executors = {model.name for model in repository.models.values() if model.graph_path}
    return tuple(dict.fromkeys((*named, *sorted(repository.models.keys() - executors))))


def _published(
    model: SourceModel, names: Mapping[str, str], calls: Mapping[str, Iterable[str]] | None = None
) -> PublishedModel:
    """An overlay of the model's directory: everything in it linked, the names replaced.

    calls: models that are in it call others by names, which are mapped for them.
    """
    wanted = (model.config.specific_versions if model.config else None) or (1,)
    made = wanted if model.is_ensemble and not model.versions else ()
    links = tuple((name, model.directory / name) for name in model.entries if name != CONFIG_FILE)
    aside, files = _calls_mapped(model, names) if calls and model.name in calls else ((), ())
    return PublishedModel(
        names[model.name],
        model.name,
        model.config.renamed(names[model.name], names) if model.config else None,
        (*links, *aside),
        made,
        files,
    )


def _waiting(model: PublishedModel, after: pb.ModelInput | None) -> PublishedModel:
    """The model with one input more, which it does not read: it runs once that is there."""
    if after is None:
        return model
    added = print_model_config(pb.ModelConfig(input=[after]))
    return replace(model, config_text=f"{(model.config_text or '').rstrip()}\n{added}")


def _calls_mapped(
    model: SourceModel, names: Mapping[str, str]
) -> tuple[tuple[tuple[str, Path], ...], tuple[tuple[str, str], ...]]:
    """Links and files that put a generated file in front of what the python backend runs.

    In every version that has such a file; it is linked beside the generated one, which runs it.
    """
    file = model.python_file or ""
    links, files = [], []
    for version, found in model.payload.items():
        if file in found and file.endswith(".py"):
            aside = f"{file.removesuffix('.py')}_as_delivered.py"
            while aside in found:
                aside = f"_{aside}"
            links.append((f"{version}/{aside}", model.directory / str(version) / file))
            files.append((f"{version}/{file}", named_calls_source(aside, names)))
    return tuple(links), tuple(files)


def _doubts(
    models: Iterable[SourceModel], what_becomes_of_it: str = "it is passed on as it is"
) -> tuple[str, ...]:
    return tuple(
        f"{model.name}/{CONFIG_FILE} has a field that this container does not know "
        f"({model.config.unknown_field}); {what_becomes_of_it}"
        for model in models
        if model.config and model.config.unknown_field
    )


def _left_out(repository: ModelRepository, names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{name} is not served: the entry model {repository.entry.name} does not use it"
        for name in sorted(repository.models.keys() - names.keys())
    )
