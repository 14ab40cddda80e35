"""What each command begins with: an extracted archive, its graph, and its plan or the refusal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.commands.errors import PackedArchive
from ensemble_tools.errors import ArchiveError
from ensemble_tools.executor_graph import ExecutorGraph
from ensemble_tools.graph_reader import read_executor_graph
from ensemble_tools.namespace import Namespace
from ensemble_tools.plan import Rewrite, ServingPlan, plan
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
    path: Path, model_name: str, *, strict: bool = True, rewrite: Rewrite = Rewrite.AUTO
) -> Archive:
    """Read and plan as a load would. Nothing is run, nothing is changed.

    Raises EnsembleToolsError for what cannot even be looked at; a refusal of the archive's content
    is part of the answer.
    """
    namespace = Namespace(model_name)
    repository = open_repository(path)
    graph = None
    try:
        graph = read_executor_graph(repository)
        made = plan(repository, graph, namespace, strict=strict, rewrite=rewrite)
    except ArchiveError as error:
        return Archive(repository, graph, refusal=error)
    return Archive(repository, graph, plan=made)


def require_plan(archive: Archive) -> ServingPlan:
    """The plan; raises the refusal where there is none."""
    if archive.plan is None:
        assert archive.refusal is not None, "an archive has a plan or a refusal"
        raise archive.refusal
    return archive.plan
