"""Two answers into pairs of ranked lists: the same items, with a number of each archive. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ensemble_tools.answers import measures
from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.targets import Target, split_lists
from ensemble_tools.answers.tensors import Array, Tensor

#: Beyond it, sums of differences may be infinite.
_LARGEST = 1e290
_NO_SCORES = np.empty((2, 0))


@dataclass(frozen=True, eq=False)
class ListPair:
    """A list of OLD and one of NEW, with their items in one order: the larger, the higher.

    -inf: the item has no place, since the list lacks it or its score is NaN or -inf.
    """

    old: Array
    new: Array
    #: Whether the archives chose the items. Of candidates, all are in both lists.
    chosen: bool = False
    #: Finite scores of the items that both lists have: a row of OLD's, a row of NEW's.
    scores: Array = field(default_factory=lambda: _NO_SCORES)
    #: Scores that are NaN, of OLD and of NEW.
    nans: tuple[int, int] = (0, 0)

    @property
    def length(self) -> int:
        """The items of the longer list."""
        if not self.chosen:
            return len(self.old)
        return max(int((ranked > -np.inf).sum()) for ranked in (self.old, self.new))

    def is_trivial(self, k: int) -> bool:
        """Whether the first k places cannot differ: they have room for every candidate."""
        old, new = self.old > -np.inf, self.new > -np.inf
        if self.chosen:
            return not old.any() and not new.any()
        return bool(old.sum() <= k and (old == new).all())

    def overlap(self, k: int) -> float:
        """overlap@k. Where archives chose the items, a place that repeats one holds no other."""
        old, new = self.old, self.new
        if self.chosen:
            old, new = (np.where(ranked > -k, ranked, -np.inf) for ranked in (old, new))
        return measures.overlap(old, new, k)


@dataclass(frozen=True)
class Mismatch:
    """Why lists cannot be laid side by side."""

    reason: str


@dataclass(frozen=True, eq=False)
class Listed:
    """Ids as OLD and NEW list them, and their scores where the answers have any."""

    ids: tuple[list[object], list[object]]
    scores: tuple[Array, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether both have the same ids at the same places."""
        return self.ids[0] == self.ids[1]

    @property
    def rises(self) -> bool:
        """Whether an item's score is above that of the item before it."""
        return any(bool((array[1:] > array[:-1]).any()) for array in self.scores)

    @property
    def repeats(self) -> int:
        """Ids that came before in their list."""
        return sum(len(named) - len({*named}) for named in self.ids)

    def rank_by_places(self) -> ListPair:
        """The order of the answer counts; an item that a list lacks has no place in it."""
        places = [{item: place for place, item in reversed([*enumerate(it)])} for it in self.ids]
        items = [*dict.fromkeys((*self.ids[0], *self.ids[1]))]
        old, new = (np.array([-of.get(item, np.inf) for item in items]) for of in places)
        in_both = [item for item in items if item in places[0] and item in places[1]]
        of_both = [
            array[[of[item] for item in in_both]]
            for array, of in zip(self.scores, places, strict=False)
        ]
        return ListPair(
            old,
            new,
            chosen=True,
            scores=_keep_finite(*of_both) if in_both and of_both else _NO_SCORES,
            nans=_count_nans(self.scores),
        )

    def rank_by_scores(self) -> ListPair:
        """The ids only name candidates, which are at the same places."""
        return pair_candidates(*self.scores)


def pair_candidates(old: Array, new: Array) -> ListPair:
    """Scores of the same candidates in one order; one that is NaN has no place."""
    return ListPair(
        np.where(np.isnan(old), -np.inf, old),
        np.where(np.isnan(new), -np.inf, new),
        scores=_keep_finite(old, new),
        nans=_count_nans((old, new)),
    )


def pair_lists(
    target: Target, old: TensorAnswer, new: TensorAnswer, users: Array | None = None
) -> Iterator[ListPair | Listed | Mismatch]:
    """The lists of a target, in the order of the answers' rows.

    users: the user of each row of the request; the candidates of each are a list of their own.
    """
    for who, answer in (("OLD", old), ("NEW", new)):
        lacking = [name for name in target.outputs if name not in answer.tensors]
        if lacking:
            yield Mismatch(f"{who} does not answer {', '.join(lacking)}")
            return
    scores = _split(target.scores, old, new)
    ids = _split(target.ids, old, new)
    if scores and ids and any(s.shape != i.shape for s, i in zip(scores, ids, strict=True)):
        yield Mismatch(f"{target.scores} and {target.ids} are not of one shape")
    elif scores and not ids and scores[0].shape != scores[1].shape:
        yield Mismatch(f"OLD scores {_describe(scores[0])}, NEW {_describe(scores[1])}")
    elif ids and len(ids[0]) != len(ids[1]):
        yield Mismatch(f"OLD lists {_describe(ids[0])}, NEW {_describe(ids[1])}")
    else:
        for row in range(len((ids or scores)[0])):
            of_row = tuple(array[row].astype(np.float64) for array in scores)
            if ids:
                yield Listed((ids[0][row].tolist(), ids[1][row].tolist()), of_row)
            elif users is not None and _scores_rows(old.tensors[target.outputs[0]]):
                yield from _pair_by_user(of_row[0], of_row[1], users)
            else:
                yield pair_candidates(*of_row)


def _scores_rows(scores: Tensor) -> bool:
    """Whether each row has one score, and not a list of its own."""
    lists = split_lists(scores.array)
    return len(lists) == 1 and scores.shape[:1] == (lists.shape[1],)


def _pair_by_user(old: Array, new: Array, users: Array) -> Iterator[ListPair | Mismatch]:
    if len(users) != len(old):
        yield Mismatch(f"the request names {len(users)} users of {len(old)} scores")
        return
    numbers = np.unique(users, return_inverse=True)[1].reshape(-1)  # NaN is a user, too
    for number in dict.fromkeys(numbers.tolist()):
        chosen = numbers == number
        yield pair_candidates(old[chosen], new[chosen])


def _split(name: str | None, old: TensorAnswer, new: TensorAnswer) -> list[Array]:
    return [] if name is None else [split_lists(it.tensors[name].array) for it in (old, new)]


def _describe(lists: Array) -> str:
    count = "1 list" if len(lists) == 1 else f"{len(lists)} lists"
    return f"{count} of {lists.shape[1]} items"


def _keep_finite(old: Array, new: Array) -> Array:
    """Where both are numbers whose differences can be summed."""
    scores = np.stack([old, new])
    return scores[:, (np.abs(scores) < _LARGEST).all(axis=0)]


def _count_nans(scores: Sequence[Array]) -> tuple[int, int]:
    old, new = (int(np.isnan(array).sum()) for array in scores) if scores else (0, 0)
    return old, new
