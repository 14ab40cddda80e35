"""Work that waits for slots, and shares cores."""

from __future__ import annotations

import pytest

from merlin_simulator.simulation.event_clock import Cores, CpuWork, EventClock, Slots, Work


def ends(cores: float, works: list[tuple[float, float, float]]) -> list[float]:
    """(begins, seconds, cores) of each; when each has ended."""
    clock = EventClock()
    shared, found = Cores(clock, cores), dict[int, float]()

    def work(number: int, begins: float, seconds: float, wanted: float) -> Work:
        yield begins
        yield CpuWork(shared, seconds, wanted)
        found[number] = clock.now

    for number, cpu_work in enumerate(works):
        clock.resume(work(number, *cpu_work))
    clock.run(1000.0)
    return [found[number] for number in range(len(works))]


@pytest.mark.parametrize(
    ("cores", "works", "expected"),
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
    cores: float, works: list[tuple[float, float, float]], expected: list[float]
) -> None:
    """As processor sharing has it."""
    assert ends(cores, works) == pytest.approx(expected)


def test_cores_know_what_was_wanted() -> None:
    """Two on one core for two seconds, then one alone."""
    clock = EventClock()
    cores = Cores(clock, 1)

    def work(seconds: float) -> Work:
        yield CpuWork(cores, seconds, 1.0)

    clock.resume(work(1.0))
    clock.resume(work(2.0))
    clock.run(10.0)
    cores.advance()
    assert (cores.wanted_s, cores.worked_s) == pytest.approx((5.0, 3.0))


def test_slots_go_to_who_waits_longest() -> None:
    """One place, three who want it for a second each."""
    clock, slots, order = EventClock(), Slots(1), list[tuple[int, float]]()

    def work(number: int) -> Work:
        yield slots
        order.append((number, clock.now))
        yield 1.0
        clock.release(slots)

    for number in range(3):
        clock.resume(work(number))
    clock.run(10.0)
    assert order == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert slots.free == 1
