"""Modules of a graph's functions and operators that do not lie where the archive has its own.

A workflow, and a graph for Merlin's executor, name functions and classes by their modules, which
are imported in the model's process alone: whether the models' Python has one, only a load can tell.
Nothing is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.archive.files import is_directory, kind
from ensemble_tools.archive.inert_pickle import NotInert
from ensemble_tools.archive.named_functions import NamedFunction, find_named
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.saved_workflow import find_workflow_file, read_objects
from ensemble_tools.archive.source_model import GRAPH_FILE, PYTHON_FILE, WORKFLOW
from ensemble_tools.errors import quoted, shown
from ensemble_tools.serving.serving_plan import PublishedModel, ServingPlan

#: What NVTabular itself cannot do without, and what cuDF brings where a workflow was fitted.
WITH_NVTABULAR = {
    *("cloudpickle", "cudf", "cupy", "dask", "distributed", "fsspec", "merlin", "numba", "numpy"),
    *("nvtabular", "pandas", "pyarrow", "pytz", "scipy"),
}
#: How old pickles name Python's own modules, and what no file can be.
PYTHONS = {"__builtin__", "__main__", "copy_reg"}


@dataclass(frozen=True)
class NeededModule:
    """A module that a graph needs."""

    #: The file that names it.
    graph: Path
    #: The directory that it belongs into.
    version: Path
    named: NamedFunction

    @property
    def top(self) -> str:
        """The file or package that has it, without its ending."""
        return self.named.module.partition(".")[0]

    @property
    def use(self) -> str:
        """The operator that needs it, and what of it, in words."""
        operator, module, name = self.named.operator, self.named.module, self.named.qualname
        if name == operator:
            return f"the operator {quoted(operator)} is of the module {quoted(module)}"
        if name == "__init__":
            return f"{operator} uses the module {quoted(module)}"
        return f"{operator} calls {quoted(name)} of the module {quoted(module)}"


def describe_needed_modules(plan: ServingPlan, repository: ModelRepository) -> Iterator[str]:
    """Sentences for people. Blocking; raises as kind and read_bounded do."""
    for model in plan.everything:
        source = repository.models.get(model.source_name)
        if model.is_compiled_whole:
            continue
        served = map(source.find_version_directory, source.versions) if source else ()
        for version in _linked(model) if model.generated else served:
            for needed in _find(version):
                yield _describe(needed, repository.path)


def find_needed(plan: ServingPlan, module: str) -> str:
    """The models of the plan that need the module, in words; empty where none is known to.

    Blocking: for a load that failed, which says no more than the module's name.
    """
    top = shown(module)
    try:
        modules = (
            f"{needed.use}, which does not lie beside {needed.version.parent.name}/"
            f"{needed.version.name}/{PYTHON_FILE}: put {top}.py, or the package {top}/, there"
            for model in plan.everything
            if not model.is_compiled_whole
            for version in _linked(model)
            for needed in _find(version)
            if needed.top == module
        )
        return next(modules, "")
    except OSError:
        return ""


def _linked(model: PublishedModel) -> Iterator[Path]:
    """The version directories that its links lead to; a step that runs operators has the graph."""
    for name, path in model.links:
        if name.isdecimal() and is_directory(path):
            yield path
        elif model.generated and name == f"1/{Path(GRAPH_FILE).parent}":
            yield path.parent


def _find(version: Path) -> Iterator[NeededModule]:
    """The modules, each once."""
    listed: set[str] = set()
    for graph in (find_workflow_file(version / WORKFLOW), version / GRAPH_FILE):
        for function in _read_names(graph):
            needed = NeededModule(graph, version, function)
            top = needed.top
            if top in listed or top in sys.stdlib_module_names or top in WITH_NVTABULAR | PYTHONS:
                continue
            if any(kind(version / name) is not None for name in (top, f"{top}.py")):
                continue
            listed.add(top)
            yield needed


def _describe(needed: NeededModule, archive: Path) -> str:
    graph, top = shown(needed.graph.relative_to(archive)), shown(needed.top)
    model = shown(needed.version.relative_to(archive) / PYTHON_FILE)
    return (
        f"{graph}: {needed.use}, which does not lie beside {model}: unless the models' Python has "
        f"it, a load is refused; put {top}.py, or the package {top}/, there"
    )


def _read_names(graph: Path) -> tuple[NamedFunction, ...]:
    """None of a file that is no graph: who reads it tells that."""
    try:
        return tuple(find_named(read_objects(graph)))
    except NotInert:
        return ()
