"""Two answers into pairs of ranked lists: the same items, with a number of each archive. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from verification.exchange import Answer
from verification.ranking.targets import Target, split_lists
from verification.tensors import Array

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
    #: Ids that came before in their list, and were left out.
    repeats: int = 0

    def is_trivial(self, k: int) -> bool:
        """Whether the first k places cannot differ: they have room for every candidate."""
        old, new = self.old > -np.inf, self.new > -np.inf
        if self.chosen:
            return not old.any() and not new.any()
        return bool(old.sum() <= k and (old == new).all())


@dataclass(frozen=True)
class Mismatch:
    """Why lists cannot be laid side by side."""

    reason: str


def pair_lists(target: Target, old: Answer, new: Answer) -> Iterator[ListPair | Mismatch]:
    """The lists of a target, in the order of the answers' rows."""
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
            of_row = [array[row].astype(np.float64) for array in scores]
            named = [array[row].tolist() for array in ids]
            is_listed = named and not _are_candidates(named, of_row)
            yield _pair_listed(named, of_row) if is_listed else _pair_candidates(of_row)


def _split(name: str | None, old: Answer, new: Answer) -> list[Array]:
    return [] if name is None else [split_lists(it.tensors[name].array) for it in (old, new)]


def _describe(lists: Array) -> str:
    count = "1 list" if len(lists) == 1 else f"{len(lists)} lists"
    return f"{count} of {lists.shape[1]} items"


def _are_candidates(ids: list[list[object]], scores: list[Array]) -> bool:
    """Whether ids only name the rows: the same at the same places, with scores that rise."""
    return ids[0] == ids[1] and any((array[1:] > array[:-1]).any() for array in scores)


def _pair_candidates(scores: list[Array]) -> ListPair:
    old, new = (np.where(np.isnan(array), -np.inf, array) for array in scores)
    return ListPair(old, new, scores=_keep_finite(*scores), nans=_count_nans(scores))


def _pair_listed(ids: list[list[object]], scores: list[Array]) -> ListPair:
    """The order of the answer counts; an item that a list lacks has no place in it."""
    places = [{item: place for place, item in reversed([*enumerate(named)])} for named in ids]
    items = [*dict.fromkeys((*places[0], *places[1]))]
    old, new = (np.array([-of.get(item, np.inf) for item in items]) for of in places)
    in_both = [item for item in items if item in places[0] and item in places[1]]
    of_both = [
        array[[of[item] for item in in_both]] for array, of in zip(scores, places, strict=False)
    ]
    return ListPair(
        old,
        new,
        chosen=True,
        scores=_keep_finite(*of_both) if in_both and scores else _NO_SCORES,
        nans=_count_nans(scores),
        repeats=sum(len(named) - len(of) for named, of in zip(ids, places, strict=True)),
    )


def _keep_finite(old: Array, new: Array) -> Array:
    scores = np.stack([old, new])
    return scores[:, np.isfinite(scores).all(axis=0)]


def _count_nans(scores: list[Array]) -> tuple[int, int]:
    old, new = (int(np.isnan(array).sum()) for array in scores) if scores else (0, 0)
    return old, new
