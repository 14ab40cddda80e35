"""Operators' kinds, by their classes: those of merlin-core and merlin-systems are known.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from ensemble_tools.archive.executor_graph import ExecutorGraph, Operator
from ensemble_tools.archive.nvtabular_release import TAGGING

#: Packages whose operators call no model but the one that they name.
_MERLINS = ("merlin.", "nvtabular.")


class OperatorKind(Enum):
    """How an operator deals with the columns that reach it."""

    SELECTION = "selection"
    SUBTRACTION = "subtraction"
    IDENTITY = "identity"
    SUBGRAPH = "subgraph"
    CALL = "call"
    FOREST = "forest"
    INLINE = "inline"


_KINDS = {
    "SelectionOp": OperatorKind.SELECTION,
    "ConcatColumns": OperatorKind.SELECTION,
    "SubsetColumns": OperatorKind.SELECTION,
    "GroupingOp": OperatorKind.SELECTION,
    "SubtractionOp": OperatorKind.SUBTRACTION,
    **dict.fromkeys(TAGGING, OperatorKind.IDENTITY),
    "Subgraph": OperatorKind.SUBGRAPH,
    "TransformWorkflowTriton": OperatorKind.CALL,
    "PredictPyTorchTriton": OperatorKind.CALL,
    "PredictTensorflowTriton": OperatorKind.CALL,
    "PredictForestTriton": OperatorKind.FOREST,
}


def classify(operator: Operator) -> OperatorKind:
    """The operator's kind; INLINE for every class that is not Merlin's own and known."""
    module, _, name = operator.class_name.rpartition(".")
    known = module.startswith("merlin.")
    return _KINDS.get(name, OperatorKind.INLINE) if known else OperatorKind.INLINE


def list_called_models(graph: ExecutorGraph) -> tuple[str, ...]:
    """Every Triton model that an operator of the graph names, in the order of evaluation."""
    names = (operator.model_name for operator in _walk_operators(graph))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def is_foreign(operator: Operator) -> bool:
    """Whether it is not Merlin's own: nothing is known of what it does."""
    return not operator.class_name.startswith(_MERLINS)


def has_foreign_operators(graph: ExecutorGraph) -> bool:
    """Whether any operator is, of a subgraph as well."""
    return any(map(is_foreign, _walk_operators(graph)))


def _walk_operators(graph: ExecutorGraph) -> Iterator[Operator]:
    """Every operator of the graph and of its subgraphs, of each graph once."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            for node in current.nodes:
                yield node.operator
                if node.operator.subgraph is not None:
                    waiting.append(node.operator.subgraph)
