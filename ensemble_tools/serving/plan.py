"""PURE, the heart: repository + graph + namespace -> ServingPlan, the files Triton will be given.

An executor model is served in the first of these forms that gives the executor's own numbers: an
ensemble of its children alone (or its only child itself); an ensemble with generated steps; the
executor, with its children loaded for it. Any other model is published as delivered, under its
namespace's names.
"""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.errors import GraphNotExpressible
from ensemble_tools.serving.config_limits import Limits, check_demands
from ensemble_tools.serving.forms.delivered import plan_as_delivered
from ensemble_tools.serving.forms.ensemble import plan_as_ensemble
from ensemble_tools.serving.forms.executor import plan_as_executor
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.queues import open_queues
from ensemble_tools.serving.servability import Rules, check_servable
from ensemble_tools.serving.serving_plan import (
    Compiled,
    Form,
    PublishedModel,
    Rewrite,
    ServingPlan,
)
from ensemble_tools.serving.setting_names import SettingNames

__all__ = ["Compiled", "Form", "PublishedModel", "Rewrite", "ServingPlan", "plan"]


def plan(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    *,
    strict: bool = True,
    rewrite: Rewrite = Rewrite.AUTO,
    nvtabular: str = "",
    limits: Limits | None = None,
    names: SettingNames | None = None,
    compiles: bool = False,
) -> ServingPlan:
    """Decide how the archive is served.

    graph: the entry model's executor graph, None when it has none. strict: Triton runs without
    auto-completion, so configs must be whole. rewrite: which forms an executor model may take.
    nvtabular: the version that the models' Python has, empty when it is not known. limits: what
    configs may ask for, this machine's when they are not given. names: what messages call the
    settings. compiles: compile_plan comes next. Raises ArchiveError or IllegalName, and never
    answers with a plan whose numbers differ from what the archive itself would compute.
    """
    names = names or SettingNames()
    rules = Rules(strict, nvtabular, names, compiles=compiles)
    chosen = _choose_form(repository, graph, namespace, rewrite, rules)
    served = {model.source_name for model in chosen.models} | {repository.entry.name}
    models = (model for name, model in repository.models.items() if name in served)
    check_demands(models, repository.path, limits or Limits())
    return open_queues(chosen)


def _choose_form(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    rewrite: Rewrite,
    rules: Rules,
) -> ServingPlan:
    if graph is None:
        return plan_as_delivered(repository, namespace, rules)
    rules = replace(rules, under_executor=True)
    check_servable(repository.entry, replace(rules, nvtabular=""))  # an ensemble does not run it
    if rewrite is Rewrite.EXECUTOR:
        reason = f"{rules.names.rewrite}=executor asks for it"
        return plan_as_executor(repository, graph, namespace, rules, reason)
    try:
        return plan_as_ensemble(repository, graph, namespace, rules)
    except GraphNotExpressible as error:
        if rewrite is Rewrite.ENSEMBLE:
            raise
        return plan_as_executor(repository, graph, namespace, rules, error.finding)
