"""How many examples a property is tried with: all in `make test-all`, else a fifth."""

from __future__ import annotations

from hypothesis import settings

#: Hypothesis' own number, of which a profile takes another.
USUAL = 100
#: What `make check` and `make test` name with --hypothesis-profile, and its number of examples.
SHORT, SHORT_EXAMPLES = "short", 20


def examples(number: int) -> int:
    """As many as that, or the share of them that the profile takes; at least 5."""
    share: int = settings().max_examples
    return max(number * share // USUAL, 5)


def stride(short: int) -> int:
    """1 where all are tried; `short` where the profile takes fewer."""
    share: int = settings().max_examples
    return 1 if share >= USUAL else short
