"""Facts in, ONE frozen plan out: what an archive holds, and what was chosen -> ServingPlan.

An executor model is served in the first of these forms that gives the executor's own numbers: an
ensemble of its children alone (or its only child itself); an ensemble with generated steps; the
executor, with its children loaded for it. Any other model is published as delivered, under its
namespace's names. Whether a workflow is compiled, which models children of warm interpreters run,
and whether one process runs all steps, is decided with it. What only publishing finds out, that no
tables can be made of a category file, is one fact more (ModelRepository.with_unusable): then the
plan is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.errors import GraphNotExpressible
from ensemble_tools.serving.asked_in_part import answer_parts
from ensemble_tools.serving.compilation import Compile, compile_model
from ensemble_tools.serving.config_limits import Limits, check_demands
from ensemble_tools.serving.ensemble import select_as_ensemble
from ensemble_tools.serving.gpu_use import mark_gpu_use
from ensemble_tools.serving.joining import Predictor, join_steps
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.overlay import describe_doubts, describe_models
from ensemble_tools.serving.queues import describe_queue, open_queues
from ensemble_tools.serving.selection import Selection, select_as_delivered, select_as_executor
from ensemble_tools.serving.servability import Rules, check_servable
from ensemble_tools.serving.serving_plan import (
    Compiled,
    Form,
    PublishedModel,
    Rewrite,
    ServingPlan,
)
from ensemble_tools.serving.unpickling import check_unpickled
from ensemble_tools.serving.warm import find_warm_model_file
from ensemble_tools.serving.workflow_checks import check_nvtabulars
from ensemble_tools.setting_names import REWRITE

__all__ = [
    "Choices",
    "Compiled",
    "Form",
    "PublishedModel",
    "Rewrite",
    "ServingPlan",
    "plan_archive",
]


@dataclass(frozen=True)
class Choices:
    """The choices that hold for all archives."""

    #: Triton runs without auto-completion, so configs must be whole.
    strict: bool = True
    #: The forms that an executor model may take.
    rewrite: Rewrite = Rewrite.AUTO
    #: What becomes of workflows.
    compile: Compile = Compile.OFF
    #: Whether anybody may unpickle.
    pickles: bool = True
    #: Whether there are warm interpreters.
    warm: bool = False
    #: What the interpreters' children run for a backend, by its name.
    predictors: Mapping[str, Predictor] = field(default_factory=dict)
    #: Whether inner ensembles are to answer any part of their outputs.
    answers_parts: bool = False
    #: The version that the models' Python has, empty where it is not known.
    nvtabular: str = ""
    #: What configs may ask for; this machine's limits by default.
    limits: Limits = field(default_factory=Limits)

    @property
    def joins(self) -> bool:
        """Whether one process may run all steps of an ensemble."""
        return self.warm and self.strict and self.rewrite is Rewrite.AUTO


def plan_archive(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    choices: Choices | None = None,
) -> ServingPlan:
    """Decide how the archive is served.

    graph: the entry model's executor graph, None when it has none. Blocking. Raises ArchiveError,
    IllegalName, and ResourceLacking, SourceUnreadable and MemoryError, which are no reasons to
    serve another form; and never answers with a plan whose numbers differ from what the archive
    itself would compute.
    """
    choices = choices or Choices()
    selection = _select(repository, graph, namespace, choices)
    check_demands(repository, selection.models, choices.limits)
    models, queue = open_queues(selection.make_models(namespace, repository.path))
    called = tuple(map(namespace.step, selection.called))
    sources = repository.models
    not_joined: tuple[str, ...] = ()
    if choices.compile is Compile.AUTO:
        models = tuple(compile_model(it, sources.get(it.source_name)) for it in models)
    compiled = {model.source_name for model in models if model.compiled}
    delivered = (model for model in selection.models if model.name not in compiled)
    check_nvtabulars(delivered, choices.nvtabular)
    if choices.warm:
        if choices.limits.gpus:
            models = tuple(mark_gpu_use(it, sources.get(it.source_name)) for it in models)
        models = tuple(find_warm_model_file(it, sources.get(it.source_name)) for it in models)
    if choices.joins:
        models, not_joined = join_steps(models, called, choices.predictors)
    if choices.answers_parts:
        models = answer_parts(models, namespace.entry, called)
    plan = ServingPlan(
        namespace.model_name,
        selection.form,
        namespace.entry,
        models,
        called,
        selection.reasons,
        notes=(
            *selection.notes,
            *describe_models(repository, selection.models),
            *describe_queue(queue),
        ),
        doubts=(*describe_doubts(repository.entry, selection.models), *selection.doubts),
        not_joined=not_joined,
        queue=queue,
    )
    if not choices.pickles:
        check_unpickled(plan, repository)
    return plan


def _select(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    choices: Choices,
) -> Selection:
    """The first form that gives the archive's own numbers; its models can answer."""
    entry, rewrite = repository.entry, choices.rewrite
    rules = Rules(choices.strict, under_executor=graph is not None)
    if graph is None:
        selection = select_as_delivered(repository)
    else:
        check_servable([entry], rules)
        reason = f"{REWRITE}=executor asks for it"
        if rewrite is not Rewrite.EXECUTOR:
            try:
                return select_as_ensemble(repository, graph, namespace, rules)
            except GraphNotExpressible as error:
                if rewrite is Rewrite.ENSEMBLE:
                    raise
                reason = error.finding
        selection = select_as_executor(repository, graph, reason)
    check_servable(selection.models, rules)
    return selection
