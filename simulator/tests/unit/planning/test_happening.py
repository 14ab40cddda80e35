"""Work that waits for places, and shares cores."""

from __future__ import annotations

import pytest

from merlin_simulator.planning.instances import Cores, Happening, Places, Toil, Work


def ends(cores: float, toils: list[tuple[float, float, float]]) -> list[float]:
    """(begins, seconds, cores) of each; when each has ended."""
    happening = Happening()
    shared, found = Cores(happening, cores), dict[int, float]()

    def work(number: int, begins: float, seconds: float, wanted: float) -> Work:
        yield begins
        yield Toil(shared, seconds, wanted)
        found[number] = happening.now

    for number, toil in enumerate(toils):
        happening.go_on(work(number, *toil))
    happening.run(1000.0)
    return [found[number] for number in range(len(toils))]


@pytest.mark.parametrize(
    ("cores", "toils", "expected"),
    [
        # As many cores as are wanted: each takes its time.
        (2, [(0.0, 1.0, 1.0), (0.5, 2.0, 1.0)], [1.0, 2.5]),
        # One core for two: each goes half as fast while the other goes on.
        (1, [(0.0, 1.0, 1.0), (0.0, 2.0, 1.0)], [2.0, 3.0]),
        # The second comes when half of the first is done.
        (1, [(0.0, 1.0, 1.0), (0.5, 1.0, 1.0)], [1.5, 2.0]),
        # Each wants both cores.
        (2, [(0.0, 1.0, 2.0), (0.0, 1.0, 2.0)], [2.0, 2.0]),
        # Work that takes no time, beside what does.
        (1, [(0.0, 1.0, 1.0), (0.25, 0.0, 1.0)], [1.0, 0.25]),
    ],
)
def test_cores_are_shared_alike(
    cores: float, toils: list[tuple[float, float, float]], expected: list[float]
) -> None:
    """As processor sharing has it."""
    assert ends(cores, toils) == pytest.approx(expected)


def test_cores_know_what_was_wanted() -> None:
    """Two on one core for two seconds, then one alone."""
    happening = Happening()
    cores = Cores(happening, 1)

    def work(seconds: float) -> Work:
        yield Toil(cores, seconds, 1.0)

    happening.go_on(work(1.0))
    happening.go_on(work(2.0))
    happening.run(10.0)
    cores.advance()
    assert (cores.wanted_s, cores.worked_s) == pytest.approx((5.0, 3.0))


def test_places_go_to_who_waits_longest() -> None:
    """One place, three who want it for a second each."""
    happening, places, order = Happening(), Places(1), list[tuple[int, float]]()

    def work(number: int) -> Work:
        yield places
        order.append((number, happening.now))
        yield 1.0
        happening.give_back(places)

    for number in range(3):
        happening.go_on(work(number))
    happening.run(10.0)
    assert order == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert places.free == 1
