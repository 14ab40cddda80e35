"""PURE. Any model but an executor: published as delivered, under its namespace's names."""

from __future__ import annotations

from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.serving.children import find_called_by_name, find_reachable
from ensemble_tools.serving.forms.overlay import (
    describe_backends,
    describe_beside,
    describe_completed,
    describe_doubts,
    describe_left_out,
    overlay_model,
)
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.servability import Rules, check_ensemble, check_servable
from ensemble_tools.serving.serving_plan import Form, ServingPlan


def plan_as_delivered(
    repository: ModelRepository, namespace: Namespace, rules: Rules
) -> ServingPlan:
    """The entry model and all that it needs, as they are. Raises ArchiveError, IllegalName."""
    models = find_reachable(repository)
    for model in models:
        check_servable(model, rules)
        check_ensemble(model)
    names = {model.name: namespace.step(model.name) for model in models[:-1]}
    names[repository.entry.name] = namespace.entry
    called = find_called_by_name(models, repository.calls)
    return ServingPlan(
        namespace.model_name,
        Form.AS_DELIVERED,
        namespace.entry,
        tuple(overlay_model(model, names, repository) for model in models),
        called=tuple(names[name] for name in called),
        notes=(
            *describe_completed(models),
            *describe_backends(repository, names),
            *describe_beside(repository, names),
            *describe_left_out(repository, names),
        ),
        doubts=describe_doubts(models),
    )
