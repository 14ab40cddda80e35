"""An archive's two plans: the executor as it is, and what a load would serve in its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools import (
    ModelRepository,
    Namespace,
    Rewrite,
    ServingPlan,
    plan,
    read_executor_graph,
)
from ensemble_tools.commands.archive import open_repository
from ensemble_tools.executor_graph import ExecutorGraph
from ensemble_tools.model_config import ModelConfig
from verification.distribution import RANDOM_OPERATORS

#: Names that both are published under, and by which reports call them.
EXECUTOR, SERVED = "executor", "served"


@dataclass(frozen=True)
class Forms:
    """Both plans, for one serving repository. random: operators that draw random numbers."""

    repository: ModelRepository
    executor: ServingPlan
    served: ServingPlan
    random: tuple[str, ...] = ()

    @property
    def config(self) -> ModelConfig:
        """The executor's own, which declares what a request holds."""
        config = self.repository.entry.config
        assert config is not None, "an executor has a config: it says that it is one"
        return config

    @property
    def configs(self) -> tuple[ModelConfig, ...]:
        """Those of all models of the archive."""
        return tuple(model.config for model in self.repository.models.values() if model.config)


def read_forms(path: Path, rewrite: Rewrite = Rewrite.AUTO) -> Forms | None:
    """Read and plan twice; None when the archive is no executor export.

    Raises EnsembleToolsError. Nothing is run.
    """
    repository = open_repository(path)
    graph = read_executor_graph(repository)
    if graph is None:
        return None
    return Forms(
        repository,
        plan(repository, graph, Namespace(EXECUTOR), rewrite=Rewrite.EXECUTOR),
        plan(repository, graph, Namespace(SERVED), rewrite=rewrite),
        tuple(sorted({*_labels(graph, set())} & RANDOM_OPERATORS)),
    )


def _labels(graph: ExecutorGraph, seen: set[int]) -> Iterator[str]:
    """Class names of all operators, those of a shared subgraph once."""
    seen.add(id(graph))
    for node in graph.nodes:
        yield node.operator.label
        inner = node.operator.subgraph
        if inner is not None and id(inner) not in seen:
            yield from _labels(inner, seen)
