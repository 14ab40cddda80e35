"""Modules of a workflow's functions that do not lie where the archive has its own.

graph.json names a function by its module, which is imported in the model's process alone: whether
the models' Python has it, only a load can tell. Nothing is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ensemble_tools.archive.files import kind
from ensemble_tools.archive.graph_json import NamedFunction, NotAWorkflow, read_functions
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.saved_workflow import GRAPH
from ensemble_tools.archive.source_model import PYTHON_FILE, WORKFLOW
from ensemble_tools.errors import quoted, shown
from ensemble_tools.serving.serving_plan import PublishedModel, ServingPlan

#: What NVTabular itself cannot do without.
_WITH_NVTABULAR = {"dask", "merlin", "numba", "numpy", "nvtabular", "pandas", "pyarrow"}


def describe_needed_modules(plan: ServingPlan, repository: ModelRepository) -> Iterator[str]:
    """Sentences for people. Blocking; raises as kind and read_bounded do."""
    for model in plan.everything:
        source = repository.models.get(model.source_name)
        if source is None or model.generated or _is_compiled_whole(model):
            continue
        for version in source.versions:
            yield from _describe(source.version_directory(version), repository.path)


def _is_compiled_whole(model: PublishedModel) -> bool:
    return model.compiled is not None and not model.compiled.program.kept


def _describe(version: Path, archive: Path) -> Iterator[str]:
    graph = version / WORKFLOW / GRAPH
    told: set[str] = set()
    for function in _read_functions(graph):
        top = function.module.partition(".")[0]
        if top in told or top in sys.stdlib_module_names or top in _WITH_NVTABULAR:
            continue
        if any(kind(version / name) is not None for name in (top, f"{top}.py")):
            continue
        told.add(top)
        model = shown(version.relative_to(archive) / PYTHON_FILE)
        yield (
            f"{shown(graph.relative_to(archive))}: {function.operator} calls "
            f"{quoted(function.qualname)} of the module {quoted(function.module)}, which does not "
            f"lie beside {model}: unless the models' Python has it, a load is refused; put "
            f"{shown(top)}.py, or the package {shown(top)}/, there"
        )


def _read_functions(graph: Path) -> tuple[NamedFunction, ...]:
    """None of a file that is no workflow: who reads the workflow tells that."""
    try:
        return tuple(read_functions(graph))
    except NotAWorkflow:
        return ()
