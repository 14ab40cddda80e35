"""Which archives need not be sent, and which may go: never the same one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from merlin_deploy.archives.aliases import Aliases
from merlin_deploy.archives.bucket import Standing, Stored, find_prunable, has_archive, make_rows

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
DAY = timedelta(days=1)
TARGET = "shop-a/0123456789abcdef.tar.gz"
NAMED = Aliases({"shop-a": ("shop-a/now", TARGET)})


def stored(age: timedelta, target: str = TARGET) -> dict[str, Stored]:
    """One archive of 7 bytes, by its place."""
    return {target: Stored(target, 7, NOW - age)}


@pytest.mark.parametrize(
    ("age", "aliases", "size", "there"),
    [
        (timedelta(minutes=59), Aliases(), 7, True),
        (timedelta(minutes=61), Aliases(), 7, False),
        (timedelta(days=400), NAMED, 7, True),
        (timedelta(), NAMED, 8, False),
    ],
)
def test_what_may_be_removed_meanwhile_is_sent_again(
    age: timedelta, aliases: Aliases, size: int, there: bool
) -> None:
    """An archive of no name that is old, and one of another size."""
    assert has_archive(stored(age), aliases, TARGET, size, NOW) is there
    assert not has_archive({}, aliases, TARGET, size, NOW)


@pytest.mark.parametrize(
    ("age", "aliases", "served", "goes"),
    [
        (DAY, Aliases(), (), True),
        (DAY - timedelta(seconds=1), Aliases(), (), False),
        (DAY, NAMED, (), False),
        (DAY, Aliases(), (TARGET,), False),
    ],
)
def test_only_what_nobody_needs_goes(
    age: timedelta, aliases: Aliases, served: tuple[str, ...], goes: bool
) -> None:
    rows = make_rows(aliases, stored(age), served)
    assert [one.target_model for one in find_prunable(rows, NOW, DAY)] == [TARGET] * goes


def test_what_put_did_not_bring_stays() -> None:
    rows = make_rows(Aliases(), stored(DAY, "shop-a/1.tar.gz"), ())
    assert [row.standing for row in rows] == [Standing.OTHERS]
    assert list(find_prunable(rows, NOW, DAY)) == []


def test_an_archive_that_is_gone_has_a_row() -> None:
    """By names, and of each from new to old."""
    rows = make_rows(NAMED, stored(DAY), ())
    assert [(row.target_model, row.standing, row.stored is None) for row in rows] == [
        ("shop-a/now", Standing.CURRENT, True),
        (TARGET, Standing.FORMER, False),
    ]
