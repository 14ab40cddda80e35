"""An archive's plans: the executor as it is, and what a load would serve in its place.

An archive that is no executor export, but has NVTabular workflows, is compared with itself after
they are compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools import (
    Choices,
    Compile,
    ModelRepository,
    Namespace,
    Rewrite,
    ServingPlan,
    plan_archive,
    read_executor_graph,
)
from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.serving.json_workflow_readers import add_json_readers
from ensemble_tools.serving.opened_archive import open_repository, plan_and_try
from verification.comparing.comparison import Names
from verification.comparing.distribution import RANDOM_OPERATORS

#: Names that they are published under, and by which reports call them.
EXECUTOR, SERVED, COMPILED, DELIVERED = "executor", "served", "compiled", "delivered"


@dataclass(frozen=True)
class LoadedForm:
    """A form that is loaded."""

    #: Its name in the table of costs.
    title: str
    plan: ServingPlan
    #: In sentences, beside the first form.
    names: Names


@dataclass(frozen=True)
class Forms:
    """The plans that are compared, for one serving repository."""

    repository: ModelRepository
    #: What is right by definition, with NVTabular itself; for an archive without an executor, the
    #: archive as delivered.
    executor: ServingPlan
    #: What the container serves instead, with NVTabular itself as well; None where it serves
    #: nothing else.
    served: ServingPlan | None
    #: Operators that draw random numbers.
    random: tuple[str, ...] = ()
    #: What the container serves with compiled workflows, None without any.
    compiled: ServingPlan | None = None
    #: Workflows by their models' names, and why.
    not_compiled: tuple[tuple[str, str], ...] = ()

    @property
    def right(self) -> LoadedForm:
        """The one that the others are compared with."""
        if self.served is None:
            names = Names("the archive as delivered", "")
            return LoadedForm("as delivered", self.executor, names)
        return LoadedForm(EXECUTOR, self.executor, Names())

    @property
    def others(self) -> tuple[LoadedForm, ...]:
        """The forms that are compared with it, in the order in which they are loaded."""
        forms = []
        if self.served is not None:
            forms.append(LoadedForm(self.served.form.value, self.served, Names()))
        if self.compiled is not None:
            names = Names(self.right.names.right, "the compiled form")
            title = f"{self.compiled.form.value}, {COMPILED}"
            forms.append(LoadedForm(title, self.compiled, names))
        return tuple(forms)

    @property
    def original(self) -> ServingPlan:
        """The compiled form's plan without compiled workflows."""
        return self.served or self.executor

    @property
    def config(self) -> ModelConfig:
        """The entry model's own, which declares what a request holds."""
        config = self.repository.entry.config
        assert config is not None, "executors have a config, and so has what is planned strictly"
        return config

    @property
    def configs(self) -> tuple[ModelConfig, ...]:
        """The configs of all models of the archive."""
        return tuple(model.config for model in self.repository.models.values() if model.config)


def read_forms(
    path: Path, rewrite: Rewrite = Rewrite.AUTO, workflows: Compile = Compile.AUTO
) -> Forms | None:
    """Read and plan each; None when the archive is no executor export and nothing is to compile.

    Raises EnsembleToolsError. Nothing is run.
    """
    repository = open_repository(path)
    graph = read_executor_graph(repository)
    models = repository.models.values()
    is_compiled = workflows is Compile.AUTO and any(model.workflow for model in models)
    if graph is None and not is_compiled:
        return None
    compiled, reasons = None, []
    if is_compiled:
        choices = Choices(rewrite=rewrite, compile=Compile.AUTO)
        compiled_plan = plan_and_try(repository, graph, Namespace(COMPILED), choices)
        compiled = compiled_plan if compiled_plan.compiled else None
        reasons = [
            (model.source_name, model.not_compiled)
            for model in compiled_plan.models
            if model.not_compiled
        ]
    if graph is None:
        delivered = _plan(repository, None, DELIVERED, Rewrite.AUTO)
        return Forms(
            repository, _choose_reference(delivered, compiled), None, (), compiled, tuple(reasons)
        )
    return Forms(
        repository,
        _choose_reference(_plan(repository, graph, EXECUTOR, Rewrite.EXECUTOR), compiled),
        _choose_reference(_plan(repository, graph, SERVED, rewrite), compiled),
        tuple(sorted({*label_operators(graph, set())} & RANDOM_OPERATORS)),
        compiled,
        tuple(reasons),
    )


def _plan(
    repository: ModelRepository, graph: ExecutorGraph | None, name: str, rewrite: Rewrite
) -> ServingPlan:
    choices = Choices(rewrite=rewrite)
    return plan_archive(repository, graph, Namespace(name), choices)


def _choose_reference(reference: ServingPlan, compiled: ServingPlan | None) -> ServingPlan:
    """The plan to compare with; without a compiled one, NVTabular must do without our reader."""
    return reference if compiled is None else add_json_readers(reference)


def label_operators(graph: ExecutorGraph, seen: set[int]) -> Iterator[str]:
    """Class names of all operators, those of a shared subgraph once. seen: subgraphs so far."""
    seen.add(id(graph))
    for node in graph.nodes:
        yield node.operator.label
        inner = node.operator.subgraph
        if inner is not None and id(inner) not in seen:
            yield from label_operators(inner, seen)
