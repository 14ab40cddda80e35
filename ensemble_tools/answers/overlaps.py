"""overlap@k of two answers to one request, as `compare` measures it over many. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.lists import Listed, Mismatch, pair_lists
from ensemble_tools.answers.targets import find_targets
from ensemble_tools.errors import NothingRanked

#: The k that are measured.
PLACES = (1, 10)
#: Lists of each target that are measured: 0.1 ms each, which other threads wait for.
MOST_LISTS = 100


def measure_overlaps(old: TensorAnswer, new: TensorAnswer) -> Iterator[tuple[int, float]]:
    """k and overlap@k of the first lists of each target; none where nothing is ranked.

    Raises ValueError where the new answer lacks an output, or lists of the old one's sizes.
    """
    try:
        targets = find_targets(old)
    except NothingRanked:
        return
    for target in targets:
        for pair in islice(pair_lists(target, old, new), MOST_LISTS):
            if isinstance(pair, Mismatch):
                raise ValueError(pair.reason)
            if isinstance(pair, Listed):
                names_candidates = pair.scores and pair.is_same and pair.rises
                pair = pair.rank_by_scores() if names_candidates else pair.rank_by_places()
            for k in PLACES:
                if not pair.is_trivial(k):
                    yield k, pair.overlap(k)
