"""Which configurations an endpoint had: like a browser's history."""

from __future__ import annotations

import pytest

from merlin_deploy.endpoint.state import History, digest_of, read_history, write_history

A, B, C, D = "aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"


@pytest.mark.parametrize(
    ("digests", "current", "newest", "keep", "then"),
    [
        ((), None, A, 5, (A,)),
        # What is there was made before there was a history of it.
        ((), A, B, 5, (B, A)),
        ((B, A), B, C, 5, (C, B, A)),
        # Gone back to A: B is what was newer, and C takes its place.
        ((B, A), A, C, 5, (C, A)),
        # Deployed by other hands: it is in front of what is known.
        ((B, A), D, C, 5, (C, D, B, A)),
        # What comes again is there once.
        ((B, A), B, A, 5, (A, B)),
        ((C, B, A), C, B, 5, (B, C, A)),
        # The same again, cut off in the middle: nothing is lost.
        ((B, A), A, B, 5, (B, A)),
        ((C, B, A), C, D, 1, (D, C)),
        ((C, B, A), C, D, 2, (D, C, B)),
    ],
)
def test_what_is_deployed_next_goes_in_front(
    digests: tuple[str, ...], current: str | None, newest: str, keep: int, then: tuple[str, ...]
) -> None:
    """keep: of former ones, so that one more is kept in all."""
    assert History(digests).with_newest(current, newest, keep).digests == then


@pytest.mark.parametrize(
    ("digests", "current", "before"),
    [
        ((), A, None),
        ((A,), A, None),
        ((B, A), B, A),
        ((C, B, A), B, A),
        ((C, B, A), A, None),
        # Of what nobody noted, the one before is the newest that was noted.
        ((B, A), D, B),
    ],
)
def test_the_one_before(digests: tuple[str, ...], current: str, before: str | None) -> None:
    """One step back from where the endpoint is, not from the newest."""
    assert History(digests).before(current) == before


def test_a_tags_value_is_all_that_there_is() -> None:
    """It has 256 characters, whatever is to be kept; what is no digest is left out."""
    history = History()
    for number in range(60):
        current = history.digests[0] if history.digests else None
        history = history.with_newest(current, f"{number:08d}", 100)
    written = write_history(history)
    assert len(written) <= 256 < len(written) + 9
    assert read_history(written) == history
    assert read_history(f"{A} short {B}  toolong00 ") == History((A, B))
    assert read_history(None) == read_history("") == History()


def test_a_digest_is_the_end_of_a_name() -> None:
    """Which may have hyphens itself."""
    assert digest_of(f"shop-a-2-{A}") == A
