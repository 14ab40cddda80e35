"""Unnamed columns: a kept operator may put them out, and its schema does not name them.

A function that puts out its whole frame is the usual case. Only a request shows which they are. The
compiler forbids the names whose columns would change what other operators read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ensemble_tools.archive.executor_graph import Node
from ensemble_tools.workflows.frames import Frame

#: Kept operators by their numbers, in the order of their steps.
Makers = frozenset[int]
NOBODY: Makers = frozenset()


class UnnamedColumns:
    """The names that unnamed columns of each kept operator may not have."""

    def __init__(self) -> None:
        #: The registers that each kept operator is given, by the names of their columns.
        self._given: list[dict[str, int]] = []
        self._taken = defaultdict[int, set[str]](set)
        self._unchanged = defaultdict[int, set[str]](set)
        self._seen: set[int] = set()

    def new_maker(self, given: Frame) -> Makers:
        """The next kept operator, and the frame that it is given."""
        self._given.append({name: column.handed_over for name, column in given.items()})
        return frozenset({len(self._given) - 1})

    def merge(
        self,
        node: Node,
        frames: Mapping[int, Frame],
        makers: Mapping[int, Makers],
        root: Frame,
    ) -> Makers:
        """Whose columns are in the frame that a node is given (LocalExecutor's two rules of it)."""
        last = {name: index for index, up in enumerate(node.upstream) for name in frames[up]}
        for index, number in enumerate(node.upstream):
            # 1. Of columns with one name the last is taken.
            covered = {
                name: frames[node.upstream[other]][name]
                for name, other in last.items()
                if other < index
            }
            # 2. What is there is not taken from the request.
            missing = {name: root[name] for name in node.inputs if name not in last}
            for maker in makers[number]:
                self._take(maker, {**covered, **missing})
        return frozenset().union(*(makers[number] for number in node.upstream))

    def see(self, makers: Makers) -> None:
        """An operator's work depends on all columns of its frame."""
        self._seen.update(makers)

    def not_beside(self, maker: int) -> tuple[str, ...] | None:
        """The names that its unnamed columns may not have; None where there may be none."""
        return None if maker in self._seen else tuple(sorted(self._taken[maker]))

    def unchanged(self, maker: int) -> tuple[str, ...]:
        """The names that they may have if they are as the operator was given them."""
        return tuple(sorted(self._unchanged[maker]))

    def _take(self, maker: int, frame: Frame) -> None:
        """Others read these columns, which the operator's would replace."""
        for name, column in frame.items():
            is_given = self._given[maker].get(name) == column.handed_over
            (self._unchanged if is_given else self._taken)[maker].add(name)
