"""PURE, the heart: repository + graph + namespace -> ServingPlan, the files Triton will be given.

Two forms exist. An executor model becomes a pure ensemble of its children, where that answers the
executor's own numbers. Anything else is published as delivered, under its namespace's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ensemble_tools.delivered import check_ensemble, check_servable, reachable, with_steps
from ensemble_tools.executor_graph import ExecutorGraph
from ensemble_tools.model_config import print_model_config
from ensemble_tools.namespace import Namespace
from ensemble_tools.pure_ensemble import answer_columns, child, pure_ensemble, request_columns
from ensemble_tools.repository import CONFIG_FILE, ModelRepository, SourceModel
from ensemble_tools.wiring import wire


class Form(Enum):
    """How a model is served."""

    PURE_ENSEMBLE = "pure ensemble"
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
class PublishedModel:
    """One model directory of the serving repository.

    source_name: the model it was in the archive. config_text: its config.pbtxt, None for none.
    links: names in the directory and what each stands for, files by links.
    files: paths in the directory, such as `1/model.py`, and the text of each: generated ones, which
    take the place of what is linked there.
    empty_versions: version directories that are made because Triton wants one and there is nothing
    to put into it.
    """

    triton_name: str
    source_name: str
    config_text: str | None
    links: tuple[tuple[str, Path], ...] = ()
    empty_versions: tuple[int, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


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


def plan(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    *,
    strict: bool = True,
) -> ServingPlan:
    """Decide how the archive is served.

    graph: the entry model's executor graph, None when it has none. strict: Triton runs without
    auto-completion, so configs must be whole. Raises ArchiveError or IllegalName, and never
    answers with a plan whose numbers differ from what the archive itself would compute.
    """
    if graph is None:
        return _as_delivered(repository, namespace, strict)
    return _as_pure_ensemble(repository, graph, namespace)


def _as_delivered(repository: ModelRepository, namespace: Namespace, strict: bool) -> ServingPlan:
    models = reachable(repository)
    for model in models:
        check_servable(model, strict=strict)
        check_ensemble(model)
    names = {model.name: namespace.step(model.name) for model in models[:-1]}
    names[repository.entry.name] = namespace.entry
    return ServingPlan(
        namespace.model_name,
        Form.AS_DELIVERED,
        namespace.entry,
        tuple(_published(model, names) for model in models),
        notes=_left_out(repository, names),
        doubts=_doubts(models),
    )


def _as_pure_ensemble(
    repository: ModelRepository, graph: ExecutorGraph, namespace: Namespace
) -> ServingPlan:
    executor = repository.entry
    check_servable(executor, strict=True, under_executor=True)
    assert executor.config is not None
    assert executor.graph_path is not None
    wiring = wire(
        graph,
        request_columns(executor.config),
        answer_columns(executor.config),
        executor.graph_path,
    )
    called = [child(repository, executor, call.model_name) for call in wiring.calls]
    steps = with_steps(called, repository.models)
    for step in steps:
        check_servable(step, strict=True, under_executor=True)
        check_ensemble(step)
    names = {step.name: namespace.step(step.name) for step in steps}
    message = pure_ensemble(wiring, executor, {step.name: step for step in steps}, names)
    entry = PublishedModel(
        namespace.entry, executor.name, print_model_config(message), empty_versions=(1,)
    )
    return ServingPlan(
        namespace.model_name,
        Form.PURE_ENSEMBLE,
        namespace.entry,
        (*(_published(step, names) for step in steps), entry),
        notes=_left_out(repository, {**names, executor.name: namespace.entry}),
        doubts=(*_doubts(steps), *_doubts([executor], "it is not passed on to the ensemble")),
    )


def _published(model: SourceModel, names: Mapping[str, str]) -> PublishedModel:
    """An overlay of the model's directory: everything in it linked, the names replaced."""
    wanted = (model.config.specific_versions if model.config else None) or (1,)
    made = wanted if model.is_ensemble and not model.versions else ()
    return PublishedModel(
        names[model.name],
        model.name,
        model.config.renamed(names[model.name], names) if model.config else None,
        tuple((name, model.directory / name) for name in model.entries if name != CONFIG_FILE),
        made,
    )


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
