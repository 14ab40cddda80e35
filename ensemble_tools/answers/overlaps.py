"""overlap@k of two answers to one request, as `compare` measures it over many. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.lists import Listed, Mismatch, pair_lists
from ensemble_tools.answers.measures import overlap
from ensemble_tools.answers.targets import find_targets
from ensemble_tools.errors import NothingRanked

#: The k that are measured.
PLACES = (1, 10)


def measure_overlaps(old: TensorAnswer, new: TensorAnswer) -> Iterator[tuple[int, float]]:
    """k and overlap@k of each list of each target; none of an answer that ranks nothing.

    Raises ValueError where the new answer lacks an output, or lists of the old one's sizes.
    """
    try:
        targets = find_targets(old)
    except NothingRanked:
        return
    for target in targets:
        for pair in pair_lists(target, old, new):
            if isinstance(pair, Mismatch):
                raise ValueError(pair.reason)
            if isinstance(pair, Listed):
                names_candidates = pair.scores and pair.is_same and pair.rises
                pair = pair.rank_by_scores() if names_candidates else pair.rank_by_places()
            for k in PLACES:
                if not pair.is_trivial(k):
                    yield k, overlap(pair.old, pair.new, k)
