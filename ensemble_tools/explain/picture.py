"""The picture of `explain`, as plain data: every writer draws this and nothing else.

Two sides: Merlin's graph, and what Triton serves. A side is nodes and edges; a node stands in one
side, with the tensors that it puts out; an edge says which of them it carries and under which names
they arrive. Correspondences join the sides; reasons say, at numbered places, why they differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field

REQUEST, ANSWER = "request", "answer"


@dataclass(frozen=True)
class DrawnTensor:
    """A column of Merlin's, or a tensor of Triton's."""

    name: str
    #: In the words of its side ("int64", "INT64"), None where it is open.
    dtype: str | None = None
    #: With the batch dimension, -1 for any size; None where it is not declared.
    shape: tuple[int, ...] | None = None
    #: A column of lists of any length, which travels as two tensors.
    ragged: bool = False


@dataclass(frozen=True)
class CarriedTensor:
    """One tensor on an edge: its name where it comes from and where it arrives, and both types."""

    source_name: str
    target_name: str
    source_dtype: str | None = None
    target_dtype: str | None = None

    @property
    def is_cast(self) -> bool:
        """Whether the types at both ends are known and differ."""
        known = None not in (self.source_dtype, self.target_dtype)
        return known and self.source_dtype != self.target_dtype


@dataclass(frozen=True)
class Edge:
    """From node to node, by their ids."""

    source: str
    target: str
    flows: tuple[CarriedTensor, ...] = ()
    #: A call made at run time, instead of a flow.
    calls: bool = False


@dataclass(frozen=True)
class Workflow:
    """How a step that is an NVTabular workflow is served."""

    #: Kinds of compiled operators, and how many of each.
    operators: tuple[tuple[str, int], ...] = ()
    #: Why it is not compiled; empty where it is.
    not_compiled: str = ""
    #: Why NVTabular runs the other operators, a sentence for each; empty where all are compiled.
    kept: tuple[str, ...] = ()
    #: Whose workflow it was recognised as, and by what; empty where it is not compiled.
    recognised: str = ""
    #: Whether it was saved as a pickle.
    pickled: bool = True

    @property
    def mark(self) -> str:
        """A box's line that says which."""
        return self._how if self.pickled else f"{self._how}, no pickle"

    @property
    def _how(self) -> str:
        if self.not_compiled:
            return "not compiled"
        if self.kept and not self.operators:
            return "in pandas, operator by operator"
        return "compiled in part: numpy" if self.kept else "compiled: numpy"


@dataclass(frozen=True)
class Box:
    """One box."""

    id: str
    #: Merlin's: request, selection, call, inline, subgraph, answer. Triton's: request, step,
    #: generated, ensemble, executor, model, answer.
    kind: str
    title: str
    detail: str = ""
    #: The model directory that the box calls or is.
    model: str | None = None
    outputs: tuple[DrawnTensor, ...] = ()
    #: The Subgraph operators that the box lies in, outermost first.
    within: tuple[str, ...] = ()
    #: How many boxes this one stands for.
    folded: int = 1
    #: The titles of the boxes that it stands for, and how many of each.
    holds: tuple[tuple[str, int], ...] = ()
    #: For a step that is a workflow.
    workflow: Workflow | None = None


@dataclass(frozen=True)
class Side:
    """One of the two graphs; nodes come after those that feed them."""

    title: str
    nodes: tuple[Box, ...] = ()
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True)
class Reason:
    """Why the sides differ at these nodes (none: all over)."""

    text: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """Tensors that a node puts out and nobody reads."""

    node: str
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """Both sides, and how they belong together."""

    archive: str
    model_name: str
    #: The plan's form, None when the archive is refused.
    form: str | None
    entry: str | None
    merlin: Side | None = None
    triton: Side | None = None
    correspondences: tuple[tuple[str, str], ...] = ()
    reasons: tuple[Reason, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    #: Why the archive is refused.
    refusal: str | None = None
    #: The nodes that the refusal speaks of.
    refused_at: tuple[str, ...] = ()
    request: tuple[DrawnTensor, ...] = field(default=())
    answer: tuple[DrawnTensor, ...] = field(default=())

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that there are."""
        return tuple(side for side in (self.merlin, self.triton) if side is not None)
