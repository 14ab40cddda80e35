"""Does NVTabular answer a request without rows? Its answer has none either. No I/O.

Of an operator that puts out no rows merlin-core's LocalExecutor keeps nothing, and the next one
gets the request's own columns of the names that it reads. So each operator runs on those alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from ensemble_tools.archive.executor_graph import ExecutorGraph, Node
from ensemble_tools.errors import quoted
from ensemble_tools.workflows.frames import Frame
from ensemble_tools.workflows.operators import OPERATORS
from ensemble_tools.workflows.runtime.tensors import OutputColumn


def find_refusal(graph: ExecutorGraph, request: Frame, outputs: Iterable[OutputColumn]) -> str:
    """Why NVTabular fails on such a request; empty where it answers it.

    request: its columns, by their names.
    """
    return _refusal_of_nodes(graph, frozenset(request)) or _refusal_of_answer(outputs)


def _refusal_of_nodes(graph: ExecutorGraph, columns: frozenset[str]) -> str:
    """columns: the names of those that the graph is run on."""
    for node in graph.nodes:
        names = frozenset((*node.inputs, *node.dependency_columns))
        reason = _refusal_of_node(node, names, columns)
        inner = node.operator.subgraph
        if not reason and inner is not None:
            reason = _refusal_of_nodes(inner, names)
        if reason:
            return reason
    return ""


def _refusal_of_node(node: Node, names: frozenset[str], columns: frozenset[str]) -> str:
    rule = OPERATORS.get(node.operator.class_name)
    label = (rule.label if rule else "") or node.operator.label
    if not names:
        return f"{label} reads no column of it"
    absent = sorted(names - columns)
    if absent:
        return f"{label} reads {quoted(absent[0])}, which is no column of it"
    if rule is not None and not rule.runs_without_rows:
        return f"{label} of {quoted(min(names))} needs one at least"
    return ""


def _refusal_of_answer(outputs: Iterable[OutputColumn]) -> str:
    lists = [output.name for output in outputs if output.ragged]
    return f"the lists of {quoted(lists[0])} need one at least" if lists else ""
