"""Executor models into Triton ensembles: a library that knows no HTTP.

The public names, in the order in which a load uses them. A module is imported when one of its names
is first asked for: the program (__main__.py) has to heed Ctrl-C before that.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes as long to import as all else here
if TYPE_CHECKING:
    from typing import Any

    from ensemble_tools.archive.graph_reader import read_executor_graph
    from ensemble_tools.archive.repository import (
        ModelRepository,
        model_directories,
        read_repository,
    )
    from ensemble_tools.errors import (
        ArchiveError,
        EnsembleToolsError,
        IllegalName,
        ResourceLacking,
        SourceUnreadable,
        WorkflowsUnusable,
    )
    from ensemble_tools.serving.candidate import check_candidate
    from ensemble_tools.serving.compilation import Compile
    from ensemble_tools.serving.config_limits import Limits
    from ensemble_tools.serving.demand import Demand, ModelDemand, measure_demand
    from ensemble_tools.serving.joining import Predictor
    from ensemble_tools.serving.namespace import (
        Namespace,
        drop_number,
        is_candidate,
        name_candidate,
        parse_published,
    )
    from ensemble_tools.serving.plan import Choices, Form, Rewrite, ServingPlan, plan_archive
    from ensemble_tools.serving.publish import TableWriter, publish, retract
    from ensemble_tools.serving.requests_at_once import (
        count_requests_at_once,
        limit_requests_at_once,
    )
    from ensemble_tools.workflows.tables import TableUnusable, write_tables

_MODULES = {
    name: module
    for module, names in {
        "archive.graph_reader": "read_executor_graph",
        "archive.repository": "ModelRepository model_directories read_repository",
        "errors": "ArchiveError EnsembleToolsError IllegalName ResourceLacking SourceUnreadable"
        " WorkflowsUnusable",
        "serving.candidate": "check_candidate",
        "serving.compilation": "Compile",
        "serving.config_limits": "Limits",
        "serving.demand": "Demand ModelDemand measure_demand",
        "serving.joining": "Predictor",
        "serving.namespace": "LAYOUT_PREFIX Namespace drop_number is_candidate name_candidate"
        " parse_published",
        "serving.plan": "Choices Form Rewrite ServingPlan plan_archive",
        "serving.publish": "TableWriter publish retract",
        "serving.requests_at_once": "count_requests_at_once limit_requests_at_once",
        "workflows.tables": "TableUnusable write_tables",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    value = globals()[name] = getattr(module, name)
    return value
