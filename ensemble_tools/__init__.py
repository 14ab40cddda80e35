"""Executor models into Triton ensembles: a library that knows no HTTP and no process.

The public names, in the order in which a load uses them.
"""

from ensemble_tools.compilation import Compile, with_compiled_workflows
from ensemble_tools.demand import Demand, ModelDemand, demand_of
from ensemble_tools.demands import Limits
from ensemble_tools.errors import (
    ArchiveError,
    EnsembleToolsError,
    IllegalName,
    ResourceLacking,
    SourceUnreadable,
)
from ensemble_tools.graph_reader import read_executor_graph
from ensemble_tools.namespace import Namespace, parse_published
from ensemble_tools.plan import Form, Rewrite, ServingPlan, plan
from ensemble_tools.publish import TableWriter, WorkflowCheck, publish, retract
from ensemble_tools.repository import ModelRepository, model_directories, read_repository
from ensemble_tools.requests_at_once import requests_at_once
from ensemble_tools.workflows.tables import TableUnusable, write_tables

__all__ = [
    "ArchiveError",
    "Compile",
    "Demand",
    "EnsembleToolsError",
    "Form",
    "IllegalName",
    "Limits",
    "ModelDemand",
    "ModelRepository",
    "Namespace",
    "ResourceLacking",
    "Rewrite",
    "ServingPlan",
    "SourceUnreadable",
    "TableUnusable",
    "TableWriter",
    "WorkflowCheck",
    "demand_of",
    "model_directories",
    "parse_published",
    "plan",
    "publish",
    "read_executor_graph",
    "read_repository",
    "requests_at_once",
    "retract",
    "with_compiled_workflows",
    "write_tables",
]
