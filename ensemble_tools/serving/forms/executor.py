"""PURE. An executor model served by itself, with its children loaded for it."""

from __future__ import annotations

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.ensembles.operator_kinds import has_foreign_operators, list_called_models
from ensemble_tools.ensembles.operators import find_program
from ensemble_tools.serving.children import find_called_by_name, find_child, find_reachable
from ensemble_tools.serving.forms.overlay import (
    describe_backends,
    describe_beside,
    describe_doubts,
    describe_left_out,
    overlay_model,
)
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.servability import Rules, check_ensemble, check_servable
from ensemble_tools.serving.serving_plan import Form, ServingPlan


def plan_as_executor(
    repository: ModelRepository,
    graph: ExecutorGraph,
    namespace: Namespace,
    rules: Rules,
    reason: str,
) -> ServingPlan:
    """The executor under the entry model's name, its calls mapped to its children's names.

    reason: why no ensemble is made of it. Raises ArchiveError, IllegalName.
    """
    executor = repository.entry
    calls = {**repository.calls, executor.name: _find_calls(repository, graph)}
    models = find_reachable(repository, calls)
    for model in models:
        check_servable(model, rules)
        check_ensemble(model)
    names = {model.name: namespace.step(model.name) for model in models[:-1]}
    names[executor.name] = namespace.entry
    return ServingPlan(
        namespace.model_name,
        Form.EXECUTOR,
        namespace.entry,
        tuple(overlay_model(model, names, repository) for model in models),
        called=tuple(names[name] for name in find_called_by_name(models, calls)),
        reasons=(reason,),
        notes=(
            *describe_backends(repository, names),
            *describe_beside(repository, names),
            *describe_left_out(repository, names),
        ),
        doubts=(*describe_doubts(models), *_describe_elsewhere(graph)),
    )


def _describe_elsewhere(graph: ExecutorGraph) -> tuple[str, ...]:
    """What Merlin's code reads outside of the archive."""
    programs = ((node.operator.label, find_program(node)) for node in graph.nodes)
    places = {(label, it.elsewhere) for label, it in programs if it is not None and it.elsewhere}
    return tuple(
        f"{label}: Merlin's executor reads the feature repository {place} and no other; "
        "copy it there"
        for label, place in sorted(places)
    )


def _find_calls(repository: ModelRepository, graph: ExecutorGraph) -> tuple[str, ...]:
    """What the graph names; and all else in the archive, where a user's own code may call it, or
    the graph is not known."""
    named = tuple(find_child(repository, name).name for name in list_called_models(graph))
    if not (graph.customised or graph.unread or has_foreign_operators(graph)):
        return named
    executors = {model.name for model in repository.models.values() if model.graph_path}
    return tuple(dict.fromkeys((*named, *sorted(repository.models.keys() - executors))))
