"""Opens an archive for a command: extracted, its graph, and its plan or the refusal."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import ModelRepository, read_repository
from ensemble_tools.errors import ArchiveError, PackedArchive, WorkflowsUnusable
from ensemble_tools.serving.candidate import check_candidate
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.namespace import Namespace, is_candidate, name_candidate
from ensemble_tools.serving.needed_modules import describe_needed_modules
from ensemble_tools.serving.plan import Choices, plan_archive
from ensemble_tools.serving.publish import publish
from ensemble_tools.serving.serving_plan import Rewrite, ServingPlan
from ensemble_tools.serving.unpickling import describe_unpickled


@dataclass(frozen=True)
class Archive:
    """One archive as the container sees it: exactly one of plan and refusal is there."""

    repository: ModelRepository
    #: None where the entry model is no executor, or its graph could not be read.
    graph: ExecutorGraph | None = None
    plan: ServingPlan | None = None
    refusal: ArchiveError | None = None
    #: The archive in its `candidate/`, if it has one.
    candidate: Archive | None = None


def open_repository(path: Path) -> ModelRepository:
    """read_repository, with a hint for who gives the packed archive itself."""
    if path.is_file():
        raise PackedArchive(path, "found a file")
    return read_repository(path)


def read_archive(
    path: Path,
    model_name: str,
    *,
    strict: bool = True,
    rewrite: Rewrite = Rewrite.AUTO,
    workflows: Compile = Compile.OFF,
) -> Archive:
    """Read and plan as a load would. Nothing is run, nothing is changed.

    workflows: whether those of NVTabular are compiled; then their category files are read, and else
    what describes them.
    Raises EnsembleToolsError for what cannot even be looked at; a refusal of the archive's content
    is part of the answer.
    """
    choices = Choices(strict, rewrite, workflows)
    namespace = Namespace(model_name)
    repository = open_repository(path)
    graph = None
    try:
        graph = read_executor_graph(repository)
        serving = plan_and_try(repository, graph, namespace, choices)
        unpickled = describe_unpickled(serving, repository)
        needed = describe_needed_modules(serving, repository)
        serving = replace(serving, notes=(*serving.notes, *needed, *unpickled))
    except ArchiveError as error:
        return Archive(repository, graph, refusal=error)
    archive = Archive(repository, graph, plan=serving)
    if repository.candidate is None or is_candidate(model_name):
        return archive
    name = name_candidate(model_name)
    read = read_archive(
        repository.candidate, name, strict=strict, rewrite=rewrite, workflows=workflows
    )
    return replace(archive, candidate=_judge_candidate(serving, read))


def _judge_candidate(plan: ServingPlan, candidate: Archive) -> Archive:
    """The candidate, refused where it is none of that plan's model."""
    try:
        check_candidate(plan, require_plan(candidate), candidate.repository.path)
    except ArchiveError as error:
        return replace(candidate, plan=None, refusal=error)
    return candidate


def plan_and_try(
    repository: ModelRepository,
    graph: ExecutorGraph | None,
    namespace: Namespace,
    choices: Choices,
) -> ServingPlan:
    """The plan by which the archive would be published.

    A category file may be unusable, and only reading it tells: what has any is published into a
    temporary directory, which is then thrown away. Raises what plan_archive does; OSError when that
    cannot be written, PayloadBroken for a category file that nothing can read.
    """
    while True:
        plan = plan_archive(repository, graph, namespace, choices)
        try:
            _try_publishing(plan)
        except WorkflowsUnusable as error:
            repository = repository.with_unusable(error.reasons)
        else:
            return plan


def _try_publishing(plan: ServingPlan) -> None:
    """Try to publish those of its models that have category files."""
    models = tuple(model for model in plan.models if model.compiled or model.categories)
    if models:
        with tempfile.TemporaryDirectory(prefix="compiled-") as directory:
            publish(replace(plan, models=models), Path(directory))


def describe_operators(operators: Mapping[str, int]) -> str:
    """How many operators of which kind a program has, for people."""
    return ", ".join(f"{count} {kind}" for kind, count in operators.items()) or "no operators"


def check_archive(path: Path, *, strict: bool) -> tuple[str, ...]:
    """The notes of the plan by which a directory would be served; raises its refusal, or its
    candidate's.

    strict: Triton completes no config. SageMaker gives the model's name, so any will do here.
    Raises EnsembleToolsError, OSError.
    """
    archive = read_archive(path, "model", strict=strict, workflows=Compile.AUTO)
    plan = require_plan(archive)
    notes = (*plan.notes, *plan.doubts)
    if archive.candidate is None:
        return notes
    candidate = require_plan(archive.candidate)
    return (*notes, *(f"candidate: {it}" for it in (*candidate.notes, *candidate.doubts)))


def require_plan(archive: Archive) -> ServingPlan:
    """The plan; raises the refusal where there is none."""
    if archive.plan is None:
        assert archive.refusal is not None, "an archive has a plan or a refusal"
        raise archive.refusal
    return archive.plan
