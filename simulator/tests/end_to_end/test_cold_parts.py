"""What cold requests waited for, as their events tell it; against a container with knobs.

What a part takes at the least holds at any time; what it takes at the most, in a calm moment.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.watch.events import COLD_PARTS
from simulator.tests.support.simulator import FAKE_CONTAINER, Simulator, fake_model, simulator
from simulator.tests.support.waiting import in_a_calm_moment


def _invoked(running: Simulator, *targets: str) -> list[dict[str, Any]]:
    """Asked together; the events of their ends."""
    running.begin()
    with ThreadPoolExecutor(len(targets)) as pool:
        list(pool.map(running.invoke, targets))
    return running.kinds("invoked")


def _parts(event: dict[str, Any]) -> dict[str, float]:
    return {part: event[f"{part}_seconds"] for part in COLD_PARTS}


def test_the_parts_of_a_cold_request_are_its_seconds(tmp_path: Path) -> None:
    """A load and an answer that take their time are told as such; a warm request has no parts.

    A cold one whose load is refused has waited for it all the same.
    """

    def check(number: int) -> None:
        name = f"{number}.tar.gz"
        fake_model(tmp_path / "archives", name, load_seconds=0.4, invoke_seconds=0.3)
        (cold,), (warm,) = (_invoked(running, name) for _ in range(2))
        parts = _parts(cold)
        assert sum(parts.values()) == pytest.approx(cold["seconds"], abs=1e-6)
        assert parts["load"] > 0.35
        assert parts["answer"] > 0.25
        assert parts["download"] > 0
        assert parts["extraction"] > 0
        assert parts["room"] < 0.2
        assert not [part for part in warm if part.removesuffix("_seconds") in COLD_PARTS]

    fake_model(tmp_path / "archives", "refused.tar.gz", load_seconds=0.4, load_status=400)
    with simulator(tmp_path / "archives", tmp_path / "log") as running:
        in_a_calm_moment(check)
        running.invoke("refused.tar.gz")
        (failed,) = running.kinds("invocation_failed")
    assert _parts(failed)["load"] > 0.35
    assert sum(_parts(failed).values()) == pytest.approx(failed["seconds"], abs=1e-6)


def test_who_waits_for_another_load_waits_for_a_turn(tmp_path: Path) -> None:
    """Of two models that are loaded one after the other the second waited for its turn."""

    def check(number: int) -> None:
        names = [f"{letter}{number}.tar.gz" for letter in "ab"]
        for name in names:
            fake_model(tmp_path / "archives", name, load_seconds=0.6)
        first, second = (_parts(event) for event in _invoked(running, *names))
        assert first["turn"] < 0.4
        assert second["turn"] > 0.4
        assert second["load"] > 0.5

    (tmp_path / "archives").mkdir()
    with simulator(tmp_path / "archives", tmp_path / "log", "--loads-at-once", "1") as running:
        in_a_calm_moment(check)


def test_who_waits_until_another_has_left_waits_for_room(tmp_path: Path) -> None:
    """A container that is full: the seconds of the other model's unload are those of the room."""

    def check(number: int) -> None:
        names = [f"{letter}{number}.tar.gz" for letter in "ab"]
        fake_model(tmp_path / "archives", names[0], unload_seconds=0.6)
        fake_model(tmp_path / "archives", names[1])
        _invoked(running, names[0])
        (event,) = _invoked(running, names[1])
        assert _parts(event)["room"] > 0.5
        assert _parts(event)["load"] < 0.5

    (tmp_path / "archives").mkdir()
    container = f"{FAKE_CONTAINER} --capacity 1"
    with simulator(tmp_path / "archives", tmp_path / "log", container=container) as running:
        in_a_calm_moment(check)
