"""What is sent is what came since the last time; whatever began anew counts from its 0."""

from __future__ import annotations

from container.telemetry.deltas import subtract
from container.telemetry.series import COUNTER, GAUGE, HISTOGRAM, Distribution, Series, Value


def counted(key: str, value: Value, kind: str = COUNTER, **labels: str) -> Series:
    return Series(key, key, kind, labels, value)


def spread(*counts: int, total: float = 0.0) -> Distribution:
    return Distribution((1.0, 2.0), counts, total)


def values(*sent: Series) -> dict[str, Value]:
    return {series.name: series.value for series in sent}


def test_a_counter_is_sent_as_what_came_to_it() -> None:
    """The first time from 0; where nothing came, nothing is sent."""
    first = subtract({}, [counted("a", 3), counted("zero", 0)])
    assert values(*first.changed) == {"a": 3}
    second = subtract(first.known, [counted("a", 3), counted("zero", 2)])
    assert values(*second.changed) == {"zero": 2}


def test_a_counter_that_fell_began_anew() -> None:
    """tritonserver was started again: all of it is new, nothing is negative."""
    known = subtract({}, [counted("a", 10)]).known
    assert values(*subtract(known, [counted("a", 4)]).changed) == {"a": 4}


def test_a_gauge_is_sent_as_it_is() -> None:
    """Each time, at 0, too; nothing of it is remembered."""
    for _ in range(2):
        sent = subtract({}, [counted("g", 0.0, GAUGE)])
        assert values(*sent.changed) == {"g": 0.0}
        assert not sent.known


def test_a_histogram_is_sent_by_its_buckets() -> None:
    """Counts and sum of what came since; none where none came."""
    first = subtract({}, [counted("h", spread(1, 0, 2, total=9.0), HISTOGRAM)])
    assert values(*first.changed) == {"h": spread(1, 0, 2, total=9.0)}
    again = subtract(first.known, [counted("h", spread(1, 4, 2, total=15.0), HISTOGRAM)])
    assert values(*again.changed) == {"h": spread(0, 4, 0, total=6.0)}
    assert not subtract(again.known, [counted("h", again.known["h"], HISTOGRAM)]).changed


def test_a_histogram_of_which_a_bucket_fell_began_anew() -> None:
    """Though it has more in all."""
    known = subtract({}, [counted("h", spread(3, 0, 0, total=2.0), HISTOGRAM)]).known
    sent = subtract(known, [counted("h", spread(1, 9, 0, total=14.0), HISTOGRAM)])
    assert values(*sent.changed) == {"h": spread(1, 9, 0, total=14.0)}


def test_what_was_away_begins_anew_unless_it_is_kept() -> None:
    """tritonserver forgets a model that is unloaded; our meters go on where they were."""
    known = subtract({}, [counted("a", 5)]).known
    assert not subtract(known, []).known
    kept = subtract(known, [], lambda key: key == "a").known
    assert values(*subtract(kept, [counted("a", 7)]).changed) == {"a": 2}


def test_labels_may_change_while_a_series_goes_on() -> None:
    """The archive's name is learned with the first invocation."""
    known = subtract({}, [counted("a", 5, target_model="3fb1")]).known
    (sent,) = subtract(known, [counted("a", 6, target_model="shop.tar.gz")]).changed
    assert (sent.value, sent.labels) == (1, {"target_model": "shop.tar.gz"})
