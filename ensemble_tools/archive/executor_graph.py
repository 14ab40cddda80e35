"""Merlin's operator graph as plain data: what an executor model does with one request.

Nodes are numbered in post-order, so a node's upstream numbers are smaller than its own. The names
follow merlin-core: a node has parents, and dependencies (the second branch of a concatenation).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column of a schema.

    dtype is Merlin's name for it ("int64", "string", ...) or None where the schema leaves it open.
    A ragged column travels as two tensors, any other as one. dims are the sizes that the schema
    fixes, the rows first, with None for one that it leaves open; None where it gives no shape.
    """

    name: str
    dtype: str | None
    is_ragged: bool
    dims: tuple[int | None, ...] | None = None


@dataclass(frozen=True)
class Operator:
    """What a node does.

    model_name: the Triton model that the operator calls, or None for an inline operator.
    columns_in, columns_out: the operator's own schemas, which name the tensors of that call; empty
    for operators that have none of their own.
    selector: the column names that the operator itself carries, or None.
    subgraph: the graph inside a Subgraph; loops: whether it is repeated until a condition holds.
    state: all its attributes, as the pickle has them.
    """

    class_name: str
    label: str
    model_name: str | None = None
    columns_in: tuple[Column, ...] = ()
    columns_out: tuple[Column, ...] = ()
    selector: tuple[str, ...] | None = None
    subgraph: ExecutorGraph | None = None
    loops: bool = False
    state: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Node:
    """One node: an operator and where its columns come from.

    upstream: numbers of parents, then of dependencies, in the executor's order of evaluation.
    selection: the columns that the executor hands to the operator, in order; groups: the same, with
    those that are selected together in one tuple.
    is_leaf: it has no parents, so that its inputs (columns_in) are the request's.
    inputs: the names of columns_in, the node's input schema.
    dependency_columns: what its dependencies put out, by their schemas.
    output: the node's output schema.
    """

    number: int
    operator: Operator
    upstream: tuple[int, ...]
    selection: tuple[str, ...]
    inputs: tuple[str, ...]
    dependency_columns: tuple[str, ...]
    output: tuple[Column, ...]
    groups: tuple[str | tuple[str, ...], ...] = ()
    columns_in: tuple[Column, ...] = ()
    is_leaf: bool = False


@dataclass(frozen=True)
class ExecutorGraph:
    """All nodes in post-order; the last one is the output node.

    customised: how the executor's model.py differs from Merlin's own, which alone is known to do
    what the graph says; empty where it does not differ. unread: why the graph could not be read as
    data, so that it has no nodes and Merlin's own code alone knows it; empty where it was read.
    """

    nodes: tuple[Node, ...]
    customised: str = ""
    outdated: str = ""
    unread: str = ""

    @property
    def output_node(self) -> Node:
        """The node whose output schema is the answer."""
        return self.nodes[-1]
