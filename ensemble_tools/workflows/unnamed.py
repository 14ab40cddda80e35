"""Columns that a kept operator puts out though its schema does not name them, as its whole frame.

What they are is known when a request is there. Where they would change what others read, they may
not be there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ensemble_tools.archive.executor_graph import Node
from ensemble_tools.workflows.frames import Frame

#: Kept operators by their numbers, in the order of their steps.
Makers = frozenset[int]
NOBODY: Makers = frozenset()


class UnnamedColumns:
    """Which of them each kept operator may not put out."""

    def __init__(self) -> None:
        self._taken: list[set[str]] = []
        self._seen: set[int] = set()

    def new_maker(self) -> Makers:
        """The next kept operator."""
        self._taken.append(set())
        return frozenset({len(self._taken) - 1})

    def merge(
        self, node: Node, frames: Mapping[int, Frame], makers: Mapping[int, Makers]
    ) -> Makers:
        """Whose columns are in the frame that a node is given (LocalExecutor's two rules of it)."""
        last = {name: place for place, up in enumerate(node.upstream) for name in frames[up]}
        for place, number in enumerate(node.upstream):
            # 1. Of columns with one name the last is taken.
            covered = [name for name, other in last.items() if other < place]
            # 2. What is there is not taken from the request.
            missing = [name for name in node.inputs if name not in last]
            self._take(makers[number], (*covered, *missing))
        return frozenset().union(*(makers[number] for number in node.upstream))

    def see(self, makers: Makers) -> None:
        """An operator's work depends on all columns of its frame."""
        self._seen.update(makers)

    def not_beside(self, maker: int) -> tuple[str, ...] | None:
        """The names that its unnamed columns may not have; None where there may be none."""
        return None if maker in self._seen else tuple(sorted(self._taken[maker]))

    def _take(self, makers: Makers, names: Collection[str]) -> None:
        for maker in makers:
            self._taken[maker].update(names)
