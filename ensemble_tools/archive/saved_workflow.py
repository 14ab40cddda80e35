"""Which file of a workflow's directory holds the workflow, and what it holds.

The only place that knows that there are two formats: a pickle, and graph.json.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ensemble_tools.archive.files import kind, read_with
from ensemble_tools.archive.graph_json import read_graph_json
from ensemble_tools.archive.inert_pickle import read_pickle_file

PICKLE, GRAPH = "workflow.pkl", "graph.json"


def find_workflow_file(directory: Path) -> Path:
    """The path of the workflow, there or not; raises as kind does.

    NVTabular that writes graph.json reads nothing else: a pickle beside it is of an earlier export
    into the same directory.
    """
    graph = directory / GRAPH
    return directory / PICKLE if kind(graph) is None else graph


def read_objects(path: Path) -> Any:
    """The file's objects, with an Inert for every instance of a class; None for no file.

    Raises NotInert, and as read_with does.
    """
    if path.name == GRAPH:
        return read_graph_json(path)
    return read_with(path, read_pickle_file)
