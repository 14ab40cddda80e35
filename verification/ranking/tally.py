"""Sums up the lists of all requests: a figure of each measure for each list. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ensemble_tools.answers.exchange import TensorAnswer, TensorRequest
from ensemble_tools.answers.lists import Listed, ListPair, Mismatch, pair_lists
from ensemble_tools.answers.measures import kendall, spearman
from ensemble_tools.answers.targets import Target
from verification.ranking.shifts import ShiftTally

KENDALL, SPEARMAN, SAME_FIRST = "kendall", "spearman", "same_first"
#: The curve of overlaps has these, beside what is asked for.
CURVE = (1, 2, 3, 5, 10, 20, 50, 100)


def name_overlap(k: int) -> str:
    """overlap@10."""
    return f"overlap@{k}"


@dataclass(frozen=True)
class Summary:
    """One measure over all lists that it is defined for."""

    measure: str
    lists: int
    #: NaN where there is no list.
    mean: float = math.nan
    median: float = math.nan
    low: float = math.nan
    lowest: float = math.nan
    #: The request with the lowest figure.
    lowest_request: str = ""


@dataclass
class Tally:
    """What the lists of one target showed so far; `close` comes after the last request."""

    target: Target
    #: The places of overlap@k, in order.
    places: tuple[int, ...] = CURVE
    #: The input that names the user of each row, None where a request is of one user.
    user: str | None = None
    #: Lists that were laid side by side, and the fewest and most items in them.
    lists: int = 0
    shortest: int = 0
    longest: int = 0
    #: Whether ids are ranked by their places in the answer: else candidates by their scores.
    is_listed: bool = False
    nans: tuple[int, int] = (0, 0)
    shifts: ShiftTally = field(default_factory=ShiftTally)
    #: Ids that came before in their list, and were left out.
    repeats: int = 0
    #: Requests whose lists cannot be laid side by side, and why.
    mismatches: list[tuple[str, str]] = field(default_factory=list)
    #: Measure -> figures and the requests that they are of.
    _figures: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    #: How ids rank is known when all lists are there.
    _listed: list[tuple[str, Listed]] = field(default_factory=list)
    _ids_are_inputs: bool = True

    def add(self, request: TensorRequest, old: TensorAnswer, new: TensorAnswer) -> None:
        """Compare the lists of one request."""
        users = None if self.user is None else request.tensors[self.user].array.reshape(-1)
        for pair in pair_lists(self.target, old, new, users):
            if isinstance(pair, Mismatch):
                self.mismatches.append((request.title, pair.reason))
            elif isinstance(pair, Listed):
                self._listed.append((request.title, pair))
                self.repeats += pair.repeats
            else:
                self._add(request.title, pair)
        if self.target.ids is not None and self.target.ids in old.tensors:
            ids = old.tensors[self.target.ids].array.reshape(-1).tolist()
            inputs = (it.array for it in request.tensors.values() if it.array.size == len(ids))
            self._ids_are_inputs &= any(array.reshape(-1).tolist() == ids for array in inputs)

    def close(self) -> None:
        """Rank the ids, by their places in the answer or, if they only name candidates, by scores.

        They do where both archives give the same ids at the same places in every list, and these
        are values of the request or have scores that rise.
        """
        listed = [pair for _, pair in self._listed]
        names_candidates = (
            self.target.scores is not None
            and all(pair.is_same for pair in listed)
            and (self._ids_are_inputs or any(pair.rises for pair in listed))
        )
        self.is_listed = bool(listed) and not names_candidates
        for request, pair in self._listed:
            ranked = pair.rank_by_scores() if names_candidates else pair.rank_by_places()
            self._add(request, ranked)
        self._listed.clear()

    def _add(self, request: str, pair: ListPair) -> None:
        items = pair.length
        self.shortest = min(self.shortest, items) if self.lists else items
        self.longest = max(self.longest, items)
        self.lists += 1
        self.nans = (self.nans[0] + pair.nans[0], self.nans[1] + pair.nans[1])
        self.shifts.add(pair.scores)
        for measure, figure in _measure(pair, self.places):
            self._figures.setdefault(measure, []).append((figure, request))

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all measures."""
        return (SAME_FIRST, *map(name_overlap, self.places), KENDALL, SPEARMAN)

    def summarize(self, measure: str) -> Summary:
        """The figures of one measure."""
        figures = self._figures.get(measure, [])
        if not figures:
            return Summary(measure, 0)
        values = [value for value, _ in figures]
        lowest, request = min(figures, key=lambda figure: figure[0])
        low, median = (float(np.quantile(values, part)) for part in (0.05, 0.5))
        mean = math.fsum(values) / len(values)
        return Summary(measure, len(values), mean, median, low, lowest, request)


def _measure(pair: ListPair, places: Sequence[int]) -> Iterator[tuple[str, float]]:
    """The measures that a list has; each is 1 of two equal ones, which need no counting."""
    equal = bool((pair.old == pair.new).all())
    if not pair.is_trivial(1):
        yield SAME_FIRST, 1.0 if equal else pair.overlap(1)
    for k in places:
        if not pair.is_trivial(k):
            yield name_overlap(k), 1.0 if equal else pair.overlap(k)
    if len(pair.old) > 1:
        yield KENDALL, 1.0 if equal else kendall(pair.old, pair.new)
        yield SPEARMAN, 1.0 if equal else spearman(pair.old, pair.new)
