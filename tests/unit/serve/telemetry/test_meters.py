"""Which models' numbers are shown, and for how long."""

from __future__ import annotations

from serve.telemetry.meters import Meters, Reader
from serve.telemetry.record import InvocationRecord


def names(reader: Reader, *loaded: str) -> list[str]:
    return [meter.model_name for meter in reader.read(set(loaded)) if meter.model_name]


def test_a_model_that_left_is_shown_once_more() -> None:
    """What it did since the last look is in that; then its series end."""
    meters = Meters()
    meters.begin("a"), meters.begin("b")
    reader = Reader(meters)
    assert names(reader, "a", "b") == ["a", "b"]
    assert names(reader, "b") == ["a", "b"]
    assert names(reader, "b") == ["b"]


def test_each_reader_misses_nothing() -> None:
    meters = Meters()
    meters.begin("a")
    one, other = Reader(meters), Reader(meters)
    assert names(one, "a") == names(other, "a") == ["a"]
    assert names(one) == ["a"]
    assert names(one) == []
    assert names(other) == ["a"]


def test_a_model_that_came_and_went_between_two_looks_is_shown() -> None:
    meters = Meters()
    reader = Reader(meters)
    assert names(reader) == []
    meters.begin("a").invoked(InvocationRecord("a", status=200))
    assert names(reader) == ["a"]
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
