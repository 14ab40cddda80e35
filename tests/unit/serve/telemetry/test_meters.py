"""Which models' numbers are shown, and for how long."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from serve.telemetry.invocation_record import InvocationRecord
from serve.telemetry.meters import BUCKETS_S, DEPARTED_S, PARTS, Meters, Reader


def names(reader: Reader, *loaded: str) -> list[str]:
    return [meter.model_name for meter in reader.read(set(loaded)) if meter.model_name]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_model_that_left_is_shown_for_a_while() -> None:
    """What it did since the last look is in that; then its series end. Two may scrape at once."""
    meters, clock = Meters(), Clock()
    meters.begin("a"), meters.begin("b")
    reader = Reader(meters, clock)
    assert names(reader, "a", "b") == ["a", "b"]
    clock.now = 60
    assert names(reader, "b") == ["a", "b"]
    clock.now = 60 + DEPARTED_S
    assert names(reader, "b") == ["a", "b"]
    clock.now += 0.1
    assert names(reader, "b") == ["b"]


def test_what_ends_after_its_model_has_left_is_shown_too() -> None:
    """A caller who left, or an answer that a model gave when it was no more waited for."""
    meters, clock = Meters(), Clock()
    meter = meters.begin("a")
    reader = Reader(meters, clock)
    assert names(reader) == ["a"]
    clock.now = 60
    assert names(reader) == []
    meter.invoked(InvocationRecord("a", status=499))
    assert names(reader) == ["a"]
    clock.now = 120
    assert names(reader) == []


def test_each_reader_misses_nothing() -> None:
    meters, clock = Meters(), Clock()
    meters.begin("a")
    one, other = Reader(meters, clock), Reader(meters, clock)
    assert names(one, "a") == names(other, "a") == ["a"]
    assert names(one) == ["a"]
    clock.now = 60
    assert names(one) == []
    assert names(other) == ["a"]


def test_a_model_that_came_and_went_between_two_looks_is_shown() -> None:
    meters, clock = Meters(), Clock()
    reader = Reader(meters, clock)
    assert names(reader) == []
    meters.begin("a").invoked(InvocationRecord("a", status=200))
    assert names(reader) == ["a"]
    clock.now = 60
    assert names(reader) == []


def test_a_model_that_comes_back_goes_on_where_it_was() -> None:
    """Its counters never fall: what is summed of them is what was asked."""
    meters = Meters()
    reader = Reader(meters)
    meters.begin("a").invoked(InvocationRecord("a", status=200))
    for loaded in (("a",), (), ()):
        reader.read(set(loaded))
    again = meters.begin("a")
    assert again.codes == {200: 1}
    assert names(reader, "a") == ["a"]


def test_departed_models_are_bounded() -> None:
    meters = Meters()
    reader = Reader(meters)
    for number in range(1500):
        meters.begin(f"m{number}")
    shown = names(reader, "m0")
    assert len(shown) == 1001
    assert shown[0] == "m0"
    assert shown[-1] == "m1499"


def test_whoever_asks_for_unknown_models_makes_no_series() -> None:
    meters = Meters()
    assert meters.of("never loaded") is meters.unknown
    assert names(Reader(meters)) == []


def test_the_first_name_of_a_target_counts() -> None:
    meter = Meters().begin("m")
    assert meter.target_model == "m"
    meter.name_target("")
    assert meter.target_model == "m"
    meter.name_target("a" * 1000)
    assert meter.target_model == "a" * 256
    meter.name_target("b")
    assert meter.target_model == "a" * 256


def test_times_are_counted_whenever_they_are_read() -> None:
    """One by one, in a few or in thousands: each in the first bucket that is not below it."""
    meter = Meters().begin("m")
    rng = random.Random(1)
    bounds = (0.0, *BUCKETS_S, 61.0)
    expected: list[Counter[int]] = [Counter() for _ in PARTS]
    sums_s = [0.0 for _ in PARTS]
    for count in (1, 3, 700, 0, 1500):
        for _ in range(count):
            times = [rng.choice(bounds) for _ in PARTS]
            total, waiting, translating, triton = times
            meter.invoked(
                InvocationRecord(
                    "m",
                    status=200,
                    seconds=total,
                    waiting_s=waiting,
                    translating_s=translating,
                    triton_s=triton,
                )
            )
            for seen, seconds in zip(expected, times, strict=True):
                seen[sum(bound < seconds for bound in BUCKETS_S)] += 1
            sums_s = [one + seconds for one, seconds in zip(sums_s, times, strict=True)]
        for part, seen, sum_s in zip(meter.parts, expected, sums_s, strict=True):
            assert list(part.counts) == [seen[place] for place in range(len(BUCKETS_S) + 1)]
            assert part.sum_s == pytest.approx(sum_s)
    assert meter.codes == {200: 2204}


def test_a_name_is_learned_from_one_of_the_first_invocations() -> None:
    """The platform says it in each; who never says it is not asked for it for ever."""
    header = (b"x-amzn-sagemaker-target-model", b"shop.tar.gz")
    early, late = Meters().begin("early"), Meters().begin("late")
    for number in range(200):
        said = [header] if number == 50 else []
        early.invoked(InvocationRecord("early", status=200, headers=said))
        late.invoked(InvocationRecord("late", status=200))
    assert (early.target_model, late.target_model) == ("shop.tar.gz", "late")
    assert not late.is_nameless
    late.name_target("later.tar.gz")
    assert late.target_model == "late"
