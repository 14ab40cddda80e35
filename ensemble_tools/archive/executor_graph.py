"""Merlin's operator graph as plain data: what an executor model does with one request.

Nodes are numbered in post-order, so a node's upstream numbers are smaller than its own. The names
follow merlin-core: a node has parents, and dependencies (the second branch of a concatenation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SchemaColumn:
    """One column of a schema."""

    name: str
    #: Merlin's name of the type ("int64", "string", ...), None where the schema leaves it open.
    dtype: str | None
    #: A ragged column travels as two tensors, any other as one.
    is_ragged: bool
    #: The sizes that the schema fixes, the rows first, None for a size that it leaves open; None
    #: as a whole where it gives no shape.
    dims: tuple[int | None, ...] | None = None


@dataclass(frozen=True)
class Operator:
    """The operator of a node."""

    class_name: str
    label: str
    #: The Triton model that the operator calls, None for an inline operator.
    model_name: str | None = None
    #: The operator's own schemas name the tensors of its call; they are empty for operators that
    #: have none.
    columns_in: tuple[SchemaColumn, ...] = ()
    columns_out: tuple[SchemaColumn, ...] = ()
    #: The column names that the operator itself carries, or None.
    selector: tuple[str, ...] | None = None
    #: The graph inside a Subgraph.
    subgraph: ExecutorGraph | None = None
    #: Whether the subgraph is repeated until a condition holds.
    loops: bool = False
    #: All attributes, as the pickle has them.
    state: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Node:
    """One node: an operator and where its columns come from."""

    number: int
    operator: Operator
    #: Numbers of the parents, then of the dependencies, in the executor's order of evaluation.
    upstream: tuple[int, ...]
    #: The columns that the executor hands to the operator, in order.
    selection: tuple[str, ...]
    #: The names of `columns_in`.
    inputs: tuple[str, ...]
    #: The columns of the dependencies' output schemas.
    dependency_columns: tuple[str, ...]
    #: The node's output schema.
    output: tuple[SchemaColumn, ...]
    #: The selection, with columns that are selected together in one tuple.
    groups: tuple[str | tuple[str, ...], ...] = ()
    #: The node's input schema.
    columns_in: tuple[SchemaColumn, ...] = ()
    #: A leaf has no parents: its inputs are the request's.
    is_leaf: bool = False


@dataclass(frozen=True)
class ExecutorGraph:
    """All nodes in post-order; the last one is the output node."""

    nodes: tuple[Node, ...]
    #: How the executor's model.py differs from Merlin's own, which alone is known to do as the
    #: graph says; empty where it does not differ.
    customised: str = ""
    outdated: str = ""
    #: Why the graph could not be read as data; it has no nodes then, and Merlin's own code alone
    #: knows it. Empty where it was read.
    unread: str = ""

    @property
    def output_node(self) -> Node:
        """The node whose output schema is the answer."""
        return self.nodes[-1]
