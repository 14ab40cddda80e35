"""What each command begins with: an extracted archive, its graph, and its plan or the refusal."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_tools.commands.errors import PackedArchive
from ensemble_tools.compilation import Compile, with_compiled_workflows
from ensemble_tools.errors import ArchiveError
from ensemble_tools.executor_graph import ExecutorGraph
from ensemble_tools.graph_reader import read_executor_graph
from ensemble_tools.namespace import Namespace
from ensemble_tools.plan import Rewrite, ServingPlan, plan
from ensemble_tools.publish import publish
from ensemble_tools.repository import ModelRepository, read_repository


@dataclass(frozen=True)
class Archive:
    """One archive as the container sees it: exactly one of plan and refusal is there.

    graph is None when the entry model is no executor, or when its graph could not be read.
    """

    repository: ModelRepository
    graph: ExecutorGraph | None = None
    plan: ServingPlan | None = None
    refusal: ArchiveError | None = None


def open_repository(path: Path) -> ModelRepository:
    """read_repository, with a hint for who gives the packed archive itself."""
    if path.is_file():
        raise PackedArchive(path)
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

    workflows: whether those of NVTabular are compiled; then their category files are read, too.
    Raises EnsembleToolsError for what cannot even be looked at; a refusal of the archive's content
    is part of the answer.
    """
    namespace = Namespace(model_name)
    repository = open_repository(path)
    graph = None
    try:
        graph = read_executor_graph(repository)
        made = plan(repository, graph, namespace, strict=strict, rewrite=rewrite)
        if workflows is Compile.AUTO:
            made = as_compiled(made, repository)
    except ArchiveError as error:
        return Archive(repository, graph, refusal=error)
    return Archive(repository, graph, plan=made)


def as_compiled(made: ServingPlan, repository: ModelRepository) -> ServingPlan:
    """The plan as it would be published with compiled workflows.

    A category file may be unusable, and only reading it tells: what is compiled is published into a
    temporary directory, which is then thrown away. Raises OSError when that cannot be written,
    PayloadBroken for a category file that nothing can read.
    """
    made = with_compiled_workflows(made, repository)
    compiled = tuple(model for model in made.models if model.compiled)
    with tempfile.TemporaryDirectory(prefix="compiled-") as directory:
        tried = publish(replace(made, models=compiled), Path(directory))
    known = {model.triton_name: model for model in tried.models}
    return replace(made, models=tuple(known.get(one.triton_name, one) for one in made.models))


def counted(operators: Mapping[str, int]) -> str:
    """How many operators of which kind a program has, for people."""
    return ", ".join(f"{count} {kind}" for kind, count in operators.items()) or "no operators"


def require_plan(archive: Archive) -> ServingPlan:
    """The plan; raises the refusal where there is none."""
    if archive.plan is None:
        assert archive.refusal is not None, "an archive has a plan or a refusal"
        raise archive.refusal
    return archive.plan
