"""Bounds on measures: --at-least overlap@10=0.8. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from verification.ranking.tally import KENDALL, SAME_FIRST, SPEARMAN, Tally

MOST_PLACES = 1_000_000
#: Measures -> the least that they can be.
_LEAST = {KENDALL: -1.0, SPEARMAN: -1.0, SAME_FIRST: 0.0}
#: Shares such as 7/10 and 9/10 have a mean of .8 that is not to the last bit.
_ROUNDING = 1e-12
_OVERLAP = re.compile(r"overlap@([1-9][0-9]{0,6})")
_NAMES = f"overlap@K (K from 1 to {MOST_PLACES}), {KENDALL}, {SPEARMAN}, {SAME_FIRST}"


@dataclass(frozen=True)
class Bound:
    """The mean of a measure must not be below it."""

    measure: str
    least: float

    @property
    def places(self) -> int | None:
        """The K of overlap@K; None of another measure."""
        match = _OVERLAP.fullmatch(self.measure)
        return int(match[1]) if match else None

    def __str__(self) -> str:
        return f"{self.measure}={self.least:g}"


def parse_bound(text: str) -> Bound:
    """Raises ValueError with a sentence."""
    measure, is_equal, number = text.partition("=")
    match = _OVERLAP.fullmatch(measure)
    if measure not in _LEAST and not (match and int(match[1]) <= MOST_PLACES):
        raise ValueError(f"{text!r}: found the measure {measure!r}, expected one of {_NAMES}")
    lowest = _LEAST.get(measure, 0.0)
    try:
        least = float(number)
    except ValueError:
        least = math.nan
    if not lowest <= least <= 1:
        found = repr(number) if is_equal else "no bound"
        raise ValueError(
            f"{text!r}: found {found}, expected a number from {lowest:g} to 1, as in {measure}=0.8"
        )
    return Bound(measure, least)


def list_broken(bounds: Sequence[Bound], tallies: Sequence[Tally]) -> Iterator[str]:
    """A sentence for each bound that a target does not hold, or that nothing was measured for."""
    for tally in tallies:
        for bound in bounds:
            summary = tally.summarize(bound.measure)
            if not summary.lists:
                yield (
                    f"{tally.target.name}: nothing was measured for {bound}: "
                    f"{explain_none(bound.places or 1, tally)}"
                )
            elif summary.mean < bound.least - _ROUNDING:
                mean = _write_below(summary.mean, bound.least)
                yield (
                    f"{tally.target.name}: {bound.measure} is {mean}, and at least "
                    f"{bound.least:g} is asked for"
                )


def _write_below(mean: float, least: float) -> str:
    """With so many digits that the mean is below the bound in writing, too."""
    texts = (f"{mean:.{digits}f}" for digits in range(4, 17))
    return next((text for text in texts if float(text) < least), repr(mean))


def explain_none(places: int, tally: Tally) -> str:
    """Why a measure has no list."""
    if not tally.lists:
        return "no list could be compared"
    if not tally.longest:
        return "all lists are empty"
    return f"no list has more than {places} candidate{'s' if places > 1 else ''}"
